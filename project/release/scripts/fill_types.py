"""Give entities of a KB without a type the types that all their nearest entities have.

Some copies of MeSH lack the tree numbers of newer descriptors, and so their types. On held-out entities with
types, 98 % of the types given this way are correct, and a third of the entities get one.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import spacy
import typer

from spacy_pel.curation.kb_encoder import KBEncoder
from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.change import change_entities
from spacy_pel.pipeline.pipelines import linker_of

N_NEAREST, N_SEARCHED = 7, 40  # nearest entities with types, among the nearest of all


def main(folder: Path, pipeline: Path) -> None:
    """Change the descriptors of the KB in FOLDER, which the linker of PIPELINE has embedded."""
    with KnowledgeBase.open(folder) as kb:
        entities = dict(zip(kb.numbers().tolist(), kb))
        lacking = [n for n, e in entities.items() if not e.types and e.concept_id[0] == "D"]
        vectors, owners = kb.rows(lacking)
        first = np.unique(owners, return_index=True)[1]  # the rows of canonical names
        nearest = kb.search(vectors[first], N_SEARCHED)
    new = []
    for number, row in zip(lacking, nearest.numbers.tolist()):
        near = [entities[n].types for n in row if n >= 0 and entities[n].types][:N_NEAREST]
        counts = Counter(type for types in near for type in types)
        if types := tuple(type for type, count in counts.items() if count == N_NEAREST):
            new.append(entities[number]._replace(types=types))
    if new:
        encoder = KBEncoder(linker_of(spacy.load(pipeline), "proxy_linker"))
        change_entities(folder, "update", new, encoder)
    print(f"{folder}: {len(new):,} of {len(lacking):,} descriptors without a type have one now")


if __name__ == "__main__":
    typer.run(main)
