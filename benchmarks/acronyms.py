"""How a linker of the demo reads acronyms that several entities share.

    python benchmarks/acronyms.py PIPELINE

PIPELINE is a calibrated linker of the demo, such as project/training/demo/model-best. The benchmark
links the twenty acronyms of the demo's texts, none of which the text spells out, and all mentions
of the test split whose text is a name of several entities.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import typer
from spacy.language import Language
from spacy.tokens import Span
from wasabi import msg

from spacy_pel.fitting.gold_examples import gold_examples, link_examples
from spacy_pel.pipeline.pipelines import linker_of, load_pipeline
from spacy_pel.pipeline.proxy_linker import ProxyLinker

CERTAIN = 0.9  # a wrong answer above this probability misleads
DEMO = Path(__file__).parent.parent / "project" / "assets" / "demo"
# The acronyms of texts.txt, in the order of its lines, and what they stand for.
MEANT = (
    ("MS", "Multiple Sclerosis"),
    ("MS", "Mitral Valve Stenosis"),
    ("MS", "Mass Spectrometry"),
    ("ER", "Estrogen Receptor"),
    ("ER", "Endoplasmic Reticulum"),
    ("ER", "Accident and Emergency department"),
    ("RA", "Rheumatoid Arthritis"),
    ("RA", "Right atrial structure"),
    ("RA", "Tretinoin"),
    ("AD", "Alzheimer's Disease"),
    ("AD", "Dermatitis, Atopic"),
    ("CP", "Cerebral Palsy"),
    ("CP", "Pancreatitis, Chronic"),
    ("CP", "Chest Pain"),
    ("HD", "Hemodialysis"),
    ("HD", "Huntington Disease"),
    ("PE", "Pulmonary Embolism"),
    ("PE", "Pre-Eclampsia"),
    ("PD", "Parkinson Disease"),
    ("PD", "Peritoneal Dialysis"),
)


class Answer(NamedTuple):
    """What the linker says of a mention.

    Attributes:
        mention: Its text.
        meant: The right entity.
        said: The entity that the linker puts first.
        probability: The linker's probability that this is right.
    """

    mention: str
    meant: str
    said: str
    probability: float

    @property
    def right(self) -> bool:
        """Whether the first entity is the right one."""
        return self.meant == self.said


def main(pipeline: str) -> None:
    """Link the ambiguous mentions with PIPELINE, and print what was right."""
    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp)
    twenty = texts(nlp, linker)
    rows = [(a.mention, a.said, f"{a.probability:.2f}", "" if a.right else a.meant) for a in twenty]
    header = ("mention", "linked to", "probability", "instead of")
    msg.table(rows, header=header, divider=True, aligns=("l", "l", "r", "l"))
    for what, answers in (("acronyms of texts.txt", twenty), ("test split", split(nlp, linker))):
        wrong = [answer.probability for answer in answers if not answer.right]
        certain = sum(probability > CERTAIN for probability in wrong)
        msg.text(
            f"{what}: {len(answers) - len(wrong)} of {len(answers)} right, "
            f"{certain} wrong above {CERTAIN}"
        )


def texts(nlp: Language, linker: ProxyLinker) -> list[Answer]:
    """The answers for the acronyms of the demo's texts."""
    lines = (DEMO / "texts.txt").read_text(encoding="utf8").splitlines()
    answers = []
    for line, (acronym, meant) in zip(lines, MEANT):
        doc = nlp.make_doc(line)
        start = line.index(f" {acronym}") + 1
        doc.ents = [doc.char_span(start, start + len(acronym), label="ENTITY")]
        answers += [answer(span, meant) for span in linker(doc).ents]
    return answers


def split(nlp: Language, linker: ProxyLinker) -> list[Answer]:
    """The answers for mentions of the test split that are a name of several entities."""
    examples = gold_examples(nlp, linker, [DEMO / "corpus" / "test.pubtator"])
    link_examples(nlp, linker, examples)
    answers = []
    for example in examples:
        meant = {(span.start, span.end): span.kb_id_ for span in example.reference.ents}
        for span in example.predicted.ents:
            entity = linker.kb.number(meant[span.start, span.end])
            if entity is not None and len(linker.kb.numbers_named(span.text)) > 1:
                ((_, name),) = linker.kb.labels([entity])
                answers.append(answer(span, name))
    return answers


def answer(span: Span, meant: str) -> Answer:
    """What the linker wrote on a mention."""
    return Answer(span.text, meant, span._.kb_candidates[0]["name"], span._.kb_probability)


if __name__ == "__main__":
    typer.run(main)
