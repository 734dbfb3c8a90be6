"""scispaCy's linker after the "ner" of a pipeline, for ``raw_text.py``, which runs it.

python raw_text_scispacy.py PIPELINE KB.jsonl INDEX TEXTS.json FOUND.json
"""

import json
import sys
from pathlib import Path

import scispacy.abbreviation  # noqa: F401
import spacy
from scispacy.candidate_generation import CandidateGenerator, LinkerPaths
from scispacy.linking import EntityLinker
from scispacy.linking_utils import KnowledgeBase


def main(pipeline: str, kb: str, index: str, texts: str, found: str) -> None:
    """Write the mentions of each text with the best id, "" if scispaCy gives none."""
    nlp = spacy.blank("en")
    config = spacy.util.load_config(Path(pipeline, "config.cfg"))
    nlp.add_pipe("ner", config={"model": config["components"]["ner"]["model"]})
    nlp.get_pipe("ner").from_disk(Path(pipeline, "ner"), exclude=["vocab"])
    nlp.add_pipe("abbreviation_detector")
    aliases, vectorizer, nearest = LinkerPaths.from_directory(index).load()
    generator = CandidateGenerator(nearest, vectorizer, aliases, KnowledgeBase(kb))
    # Its defaults, but for acronyms, and for definitions, which nothing here has.
    linker = EntityLinker(
        nlp, candidate_generator=generator, resolve_abbreviations=True, filter_for_definitions=False
    )
    answers = [
        [
            (e.start_char, e.end_char, e.label_, e._.kb_ents[0][0] if e._.kb_ents else "")
            for e in doc.ents
        ]
        for doc in map(linker, nlp.pipe(json.loads(Path(texts).read_text("utf8"))))
    ]
    Path(found).write_text(json.dumps(answers), encoding="utf8")


if __name__ == "__main__":
    main(*sys.argv[1:])
