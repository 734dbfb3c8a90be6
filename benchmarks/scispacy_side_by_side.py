"""Print the answers of both linkers, as in the first table of docs/migration.md.

    python -m benchmarks.scispacy_side_by_side PIPELINE

PIPELINE: a trained "proxy_linker" whose knowledge base is the demo's, such as
project/training/demo/model-best.
"""

import tempfile
from pathlib import Path

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Span

from tests.scispacy.demo import named_pipeline, offer_to_scispacy

TEXTS = (
    "Plaques on MRI and growing fatigue in a woman with multiple sclerosis (MS). MS is treated.",
    "Severe MS: the echocardiogram showed a valve area of 0.7 cm².",
    "The tumour was strongly positive for ER on immunostaining.",
    "The triage nurse of the ER saw a deep laceration.",
    "Methotrexate was started for early RA.",
    "A thrombus was floating in the RA.",
)
LINKERS = ("scispacy_linker", "proxy_linker")


def main(pipeline: Path) -> None:
    """Print the answers of scispaCy's linker and of PIPELINE's."""
    kb = spacy.load(pipeline).get_pipe("proxy_linker").kb
    with tempfile.TemporaryDirectory() as folder:
        offer_to_scispacy(kb, Path(folder))
    linked = {name: named_pipeline(kb, pipeline, name) for name in LINKERS}
    print_row("mention, in its text", *LINKERS)
    print_row(*["---"] * 3)
    for text in TEXTS:
        for theirs, ours in zip(*(linked[name](text).ents for name in LINKERS)):
            marked = f"{text[: theirs.start_char]}**{theirs}**{text[theirs.end_char :]}"
            given = (kb_ents(ent, linked[name]) for ent, name in zip((theirs, ours), LINKERS))
            print_row(marked, *given)


def kb_ents(ent: Span, nlp: Language) -> str:
    entities = nlp.get_pipe(nlp.pipe_names[-1]).kb.cui_to_entity
    given = [f"{entities[cui].canonical_name} {score:.2f}" for cui, score in ent._.kb_ents[:3]]
    return ", ".join(given) or "nothing"


def print_row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    typer.run(main)
