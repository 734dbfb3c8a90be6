"""A linker from raw text to ids in a process of its own, for ``raw_text.py``, which runs it.

    python raw_text_worker.py PIPELINE RUNTIME
    python raw_text_worker.py PIPELINE KB.jsonl INDEX    scispaCy's linker behind PIPELINE's recogniser

It prints what loading cost, and then, for each line of texts, what they cost and the mentions in them.
With PIPELINE RUNTIME stages it also prints what each stage cost.
"""

import gc
import importlib
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
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


# The stage of each function. The time of a function that it calls is that function's.
STAGES = {
    "spacy.language:Language.make_doc": "spaCy's tokenizer",
    "spacy_pel.pipeline.kb_ner:KBRecogniser.predict": "recogniser: the rest",
    "spacy_pel.pipeline.kb_ner:KBRecogniser._read": "recogniser: words and names of the KB",
    "spacy_pel.models.encoders:Tagger.forward": "recogniser: encoder",
    "spacy_pel.pipeline.kb_ner:tagged_mentions": "recogniser: Viterbi",
    "spacy_pel.pipeline.kb_ner:KBRecogniser.set_annotations": "recogniser: spans",
    "spacy_pel.pipeline.proxy_linker:ProxyLinker.predict": "linker: the rest",
    "spacy_pel.models.architectures.retrievers:_encode_mentions": "linker: encoders, the rest",
    "spacy_pel.models.encoders:TextEncoder.forward": "linker: encoder of names",
    "spacy_pel.models.encoders:SpanEncoder.forward": "linker: layer over the text",
    "spacy_pel.linking.link:nearest": "search",
    "spacy_pel.linking.ranking:Ranking.ordered": "ranking: the rest",
    "spacy_pel.linking.ranking:compare": "ranking: records, exact names and counts",
    "spacy_pel.linking.ranking:trigram_similarity": "ranking: similarity by letters",
    "spacy_pel.linking.ranking:word_similarity": "ranking: similarity by words",
    "spacy_pel.pipeline.proxy_linker:predictions": "annotations: values",
    "spacy_pel.pipeline.proxy_linker:ProxyLinker.set_annotations": "annotations: writing",
}


class Stages:
    """The processor time of each stage: that of its functions without the other stages that they call."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._running, self._since = ["spaCy"], time.process_time()
        for place, stage in STAGES.items():
            module, _, path = place.partition(":")
            *owners, name = path.split(".")
            owner = importlib.import_module(module)
            for each in owners:
                owner = getattr(owner, each)
            setattr(owner, name, self._timed(getattr(owner, name), stage))

    def _timed(self, function: Callable, stage: str) -> Callable:
        @wraps(function)
        def timed(*args: object, **kwargs: object) -> object:
            self._credit()
            self._running.append(stage)
            try:
                found = function(*args, **kwargs)
                return list(found) if stage == "annotations: values" else found  # of a generator
            finally:
                self._credit()
                self._running.pop()

        return timed

    def _credit(self) -> None:
        now = time.process_time()
        self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def taken(self) -> dict[str, float]:
        """Return the seconds of each stage since the last call."""
        self._credit()
        seconds = dict(self.seconds)
        self.seconds.clear()
        return seconds


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
    own = len(settings) == 1 or settings[1] == "stages"
    nlp, id_of = package(pipeline, settings[0]) if own else scispacy(pipeline, *settings)
    load = time.process_time()
    for sentence in SENTENCES:
        nlp(sentence)
    status = Path("/proc/self/status").read_text("utf8")
    memory = int(status.partition("VmRSS:")[2].split()[0]) / 1024
    print(json.dumps({"load": load, "memory": memory}), flush=True)
    gc.freeze()  # as ``pel link`` does, and here for both linkers
    stages = Stages() if settings[1:] == ("stages",) else None
    for line in sys.stdin:
        texts, began = json.loads(line), time.process_time()
        if stages:
            stages.taken()
        docs = list(nlp.pipe(texts))
        seconds = time.process_time() - began
        of_stages = stages.taken() if stages else {}
        found = [
            [(e.start_char, e.end_char, e.label_.capitalize(), id_of(e)) for e in doc.ents]
            for doc in docs
        ]
        print(json.dumps({"seconds": seconds, "stages": of_stages, "found": found}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
