"""What both linkers answer, side by side, as the tables of docs/migration.md.

    python -m tests.scispacy.side_by_side PIPELINE

PIPELINE: a trained "proxy_linker" whose knowledge base is the demo's, such as
project/training/demo/model-best.
"""

import tempfile
from pathlib import Path
from typing import Any

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Span

from .demo import named_pipeline, offer_to_scispacy

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
    """Print tables of the answers of scispaCy's linker and of PIPELINE's."""
    kb = spacy.load(pipeline).get_pipe("proxy_linker").kb
    with tempfile.TemporaryDirectory() as folder:
        offer_to_scispacy(kb, Path(folder))
    linked = {name: named_pipeline(kb, pipeline, name) for name in LINKERS}
    print_mentions(linked)
    print_attributes(linked)


def print_mentions(linked: dict[str, Language]) -> None:
    print_row("mention, in its text", *LINKERS, head=True)
    for text in TEXTS:
        for theirs, ours in zip(*(linked[name](text).ents for name in LINKERS)):
            marked = f"{text[: theirs.start_char]}**{theirs}**{text[theirs.end_char :]}"
            print_row(
                marked, kb_ents(theirs, linked[LINKERS[0]]), kb_ents(ours, linked[LINKERS[1]])
            )


def print_attributes(linked: dict[str, Language]) -> None:
    """Of one mention, and of what it is linked to."""
    expressions = (
        "ent._.kb_ents",
        "type(ent._.kb_ents), type(ent._.kb_ents[0])",
        "linker.kb.cui_to_entity[cui].concept_id",
        "linker.kb.cui_to_entity[cui].canonical_name",
        "linker.kb.cui_to_entity[cui].aliases",
        "linker.kb.cui_to_entity[cui].types",
        "linker.kb.cui_to_entity[cui].definition",
        "len(linker.kb.cui_to_entity[cui])",
        "str(linker.kb.cui_to_entity[cui])",
        'linker.kb.alias_to_cuis["MS"]',
        "len(linker.kb.cui_to_entity)",
        'linker.kb.semantic_type_tree.get_canonical_name("T047")',
        "linker.threshold",
        "linker.no_definition_threshold",
        "linker.filter_for_definitions",
        "linker.max_entities_per_mention",
        "linker.resolve_abbreviations",
        "linker.k",
        "linker.candidate_generator",
        "linker.umls",
        "ent.kb_id_",
        "ent._.kb_score",
        "ent._.kb_candidates[:1]",
    )
    print_row("", *LINKERS, head=True)
    for expression in expressions:
        answers = []
        for name in LINKERS:
            nlp = linked[name]
            ent = next(e for e in nlp(TEXTS[0]).ents if e.text == "multiple sclerosis")
            names = {"ent": ent, "linker": nlp.get_pipe(name), "cui": "C0026769"}
            answers.append(answer(expression, names))
        print_row(f"`{expression}`", *answers)


def answer(expression: str, names: dict[str, Any]) -> str:
    try:
        value = eval(expression, names)
    except AttributeError:
        return "AttributeError"
    text = repr(sorted(value)) if isinstance(value, set) else repr(value)
    return f"`{text if len(text) < 160 else text[:157] + '...'}`"


def kb_ents(ent: Span, nlp: Language) -> str:
    entities = nlp.get_pipe(nlp.pipe_names[-1]).kb.cui_to_entity
    given = [f"{entities[cui].canonical_name} {score:.2f}" for cui, score in ent._.kb_ents[:3]]
    return ", ".join(given) or "nothing"


def print_row(*cells: str, head: bool = False) -> None:
    lines = ["", "| " + " | ".join(cells) + " |", "|---" * len(cells) + "|"]
    print("\n".join(lines if head else lines[1:2]))


if __name__ == "__main__":
    typer.run(main)
