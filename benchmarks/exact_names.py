"""Whether a linker keeps names that say by themselves which entity they mean.

    python benchmarks/exact_names.py PIPELINE

Names of the KB that one entity alone has are drawn at random, one of an entity. Each is put into a
neutral sentence and linked, among all entities of the KB. It is kept if its owner comes first. What
"pel calibrate" fitted is left out, so the figures are those of a linker without annotations: with
the rule that a sole owner comes first, and by scores alone.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer
from spacy.language import Language
from spacy.tokens import Doc
from wasabi import msg

from spacy_pel.evaluation.markdown_table import markdown_table
from spacy_pel.kb import KnowledgeBase
from spacy_pel.linking.exact_names import is_acronym
from spacy_pel.pipeline.pipelines import linker_of, load_pipeline

BEFORE, AFTER = "The patient was seen for ", " today."


def main(
    pipeline: str,
    names: Annotated[int, typer.Option(help="Number of names")] = 2000,
    seed: int = 0,
) -> None:
    """Link names of the KB of PIPELINE, and print how many keep their owner."""
    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp)
    linker.name_weight = linker.calibration = linker.nil_threshold = None
    drawn = sole_names(linker.kb, names, seed)
    rows = []
    for first in (False, True):
        linker.sole_owners_first = first
        docs = linker.pipe(in_a_sentence(nlp, name) for name, _ in drawn)
        kept = [doc.ents[0]._.kb_id == owner for doc, (_, owner) in zip(docs, drawn)]
        lost = [name for (name, _), right in zip(drawn, kept) if not right]
        acronyms = sum(map(is_acronym, lost))
        share = f"{100 * sum(kept) / len(kept):.2f} %"
        rows.append((str(first), str(sum(kept)), share, str(acronyms)))
    msg.text(f"{pipeline}: {len(drawn):,} names of {len(linker.kb):,} entities")
    header = ("sole_owners_first", "kept", "share", "acronyms among those lost")
    print(markdown_table(header, rows))
    msg.text(f"Lost with the rule: {'; '.join(lost) or 'none'}")


def sole_names(kb: KnowledgeBase, n: int, seed: int) -> list[tuple[str, str]]:
    """Names that one entity alone has, each with its owner's id; one of an entity."""
    rng = np.random.default_rng(seed)
    drawn: list[tuple[str, str]] = []
    for number in rng.permutation(kb.numbers()):
        (entity,) = kb.entities([number])
        name = entity.names[rng.integers(len(entity.names))]
        if len(kb.numbers_named(name)) == 1:
            drawn.append((name, entity.concept_id))
        if len(drawn) == n:
            break
    return drawn


def in_a_sentence(nlp: Language, name: str) -> Doc:
    """A sentence whose mention is the name."""
    doc = nlp.make_doc(BEFORE + name + AFTER)
    start = len(BEFORE)
    doc.ents = [doc.char_span(start, start + len(name), label="X", alignment_mode="expand")]
    return doc


if __name__ == "__main__":
    typer.run(main)
