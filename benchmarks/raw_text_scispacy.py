"""scispaCy's linker after the "ner" of a pipeline, for ``raw_text.py``, which runs it.

python raw_text_scispacy.py PIPELINE KB.jsonl INDEX TEXTS.json FOUND.json
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import scispacy.abbreviation  # noqa: F401
import spacy
from scispacy.candidate_generation import CandidateGenerator, LinkerPaths
from scispacy.linking import EntityLinker
from scispacy.linking_utils import KnowledgeBase
from spacy.language import Language
from spacy.tokens import Doc


def main(pipeline: str, kb: str, index: str, texts: str, found: str) -> None:
    """Write the mentions of each text with the best id, "" if scispaCy gives none."""
    linker = ScispacyLinker(pipeline, kb, index)
    answers = [
        [(e.start_char, e.end_char, e.label_, best_of(e)[0]) for e in doc.ents]
        for doc in linker.pipe(json.loads(Path(texts).read_text("utf8")))
    ]
    Path(found).write_text(json.dumps(answers), encoding="utf8")


class ScispacyLinker:
    """The "ner" of a pipeline, scispaCy's detector of acronyms and its linker.

    Attributes:
        nlp: What comes before the linker.
    """

    def __init__(self, pipeline: str, kb: str, index: str):
        self.nlp = spacy.blank("en")
        self.nlp.add_pipe("ner", config=ner_config(pipeline))
        self.nlp.get_pipe("ner").from_disk(Path(pipeline, "ner"), exclude=["vocab"])
        self.nlp.add_pipe("abbreviation_detector")
        self._linker = linker_of(self.nlp, kb, index)

    def pipe(self, texts: Iterable[str]) -> Iterator[Doc]:
        """Find and link the mentions of texts."""
        return map(self._linker, self.nlp.pipe(texts))


def linker_of(nlp: Language, kb: str, index: str) -> EntityLinker:
    """scispaCy's linker with its defaults, but for acronyms, and definitions, which nothing here has."""
    aliases, vectorizer, nearest = LinkerPaths.from_directory(index).load()
    generator = CandidateGenerator(nearest, vectorizer, aliases, KnowledgeBase(kb))
    return EntityLinker(
        nlp, candidate_generator=generator, resolve_abbreviations=True, filter_for_definitions=False
    )


def best_of(mention: spacy.tokens.Span) -> tuple[str, float]:
    """The best id of a mention with its score; "" and 0 if scispaCy gives none."""
    return mention._.kb_ents[0] if mention._.kb_ents else ("", 0.0)


def ner_config(pipeline: str) -> dict:
    """The model of the recogniser, as the pipeline's config has it."""
    config = spacy.util.load_config(Path(pipeline, "config.cfg"))
    return {"model": config["components"]["ner"]["model"]}


if __name__ == "__main__":
    main(*sys.argv[1:])
