"""A linker from raw text to ids in a process of its own, for ``raw_text.py``, which runs it.

    python raw_text_worker.py PIPELINE RUNTIME
    python raw_text_worker.py PIPELINE KB.jsonl INDEX    scispaCy's linker behind PIPELINE's recogniser

It prints what loading cost, and then, for each line of texts, what they cost and the mentions in them.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

# thinc imports torch if it can. scispaCy's own pipelines do without, and so they do here.
is_theirs = "kb_ner" not in Path(sys.argv[1], "config.cfg").read_text("utf8")
if is_theirs:
    sys.modules["torch"] = None

import spacy  # noqa: E402
from spacy.language import Language  # noqa: E402
from spacy.tokens import Span  # noqa: E402

if is_theirs:
    del sys.modules["torch"]  # scipy stumbles over it

SENTENCES = (
    "Plaques on MRI in a woman with multiple sclerosis (MS).",
    "Methotrexate was stopped for early rheumatoid arthritis.",
    "No fever, but nausea and a headache since Tuesday.",
)


def package(pipeline: str, runtime: str) -> tuple[Language, Callable[[Span], str]]:
    """Load a pipeline of this package; also return a function for the id of a mention, "" for NIL."""
    config = {"components": {"kb_ner": {"runtime": runtime}, "proxy_linker": {"runtime": runtime}}}
    nlp = spacy.load(pipeline, config=config)
    return nlp, lambda ent: ent.kb_id_.replace("NIL", "")


def scispacy(pipeline: str, kb: str, index: str) -> tuple[Language, Callable[[Span], str]]:
    """Do the same for scispaCy's linker, with abbreviations, and without the filter for definitions."""
    from scispacy.abbreviation import AbbreviationDetector  # noqa: F401  (it registers itself)
    from scispacy.candidate_generation import CandidateGenerator, LinkerPaths
    from scispacy.linking import EntityLinker
    from scispacy.linking_utils import KnowledgeBase

    nlp = spacy.load(pipeline, exclude=["proxy_linker"])
    nlp.add_pipe("abbreviation_detector")
    aliases, vectorizer, nearest = LinkerPaths.from_directory(index).load()
    generator = CandidateGenerator(nearest, vectorizer, aliases, KnowledgeBase(kb))
    linker = EntityLinker(nlp, candidate_generator=generator, filter_for_definitions=False)
    Language.component("scispacy_linker_of_the_kb", func=linker)
    nlp.add_pipe("scispacy_linker_of_the_kb")
    return nlp, lambda ent: ent._.kb_ents[0][0] if ent._.kb_ents else ""


def main(pipeline: str, *settings: str) -> None:
    """Answer the lines of stdin."""
    nlp, id_of = (package if len(settings) == 1 else scispacy)(pipeline, *settings)
    load = time.process_time()
    for sentence in SENTENCES:
        nlp(sentence)
    status = Path("/proc/self/status").read_text("utf8")
    memory = int(status.partition("VmRSS:")[2].split()[0]) / 1024
    print(json.dumps({"load": load, "memory": memory}), flush=True)
    for line in sys.stdin:
        texts, began = json.loads(line), time.process_time()
        docs = list(nlp.pipe(texts))
        seconds = time.process_time() - began
        found = [
            [(e.start_char, e.end_char, e.label_.capitalize(), id_of(e)) for e in doc.ents]
            for doc in docs
        ]
        print(json.dumps({"seconds": seconds, "found": found}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
