"""A knowledge base of seven entities, and a pipeline that links to it, untrained."""

import gzip
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import spacy
import torch
from hypothesis import settings
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from spacy_pel.batch.embed import embed_kb
from spacy_pel.corpora.doc_conversion import set_mentions
from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.models import ranker
from spacy_pel.text.entity_texts import EntityReader

torch.set_num_threads(1)
ranker._MIN_STEPS = 100  # a sixth; each calibration fits six rankings
# The same examples in each run. "--hypothesis-profile=search" looks for new ones.
settings.register_profile("quick", max_examples=50, deadline=None, derandomize=True)
settings.register_profile("search", max_examples=2_000, deadline=None)
settings.load_profile("quick")

ENTITIES = [
    Entity("C01", "multiple sclerosis", ("MS", "disseminated sclerosis"), ("Disease",)),
    Entity("C02", "mass spectrometry", ("MS", "mass spectroscopy"), ("Procedure",)),
    Entity("C03", "rheumatoid arthritis", ("RA",), ("Disease",), "Of the joints.", ("X3",)),
    Entity("C04", "right atrium", ("RA", "atrium dextrum"), ("Anatomy",)),
    Entity("C05", "aspirin", ("acetylsalicylic acid",), ("Chemical",), "It relieves pain."),
    Entity("C06", "headache", ("cephalgia", "head pain"), ("Disease",)),
    Entity("C07", "kidney", (), ("Anatomy",), xrefs=("X:1",)),
]
# Texts with their mentions and the entities of these.
TEXTS = [
    ("Aspirin relieves headache.", {"Aspirin": "C05", "headache": "C06"}),
    ("The patient has MS and cephalgia.", {"MS": "C01", "cephalgia": "C06"}),
    ("Samples were measured by MS.", {"MS": "C02"}),
]
CONFIG: dict[str, Any] = {
    "model": {
        "mention_length": 32,
        "entity_length": 32,
        "encoder": {"layers": 1, "width": 32, "heads": 2, "vocab_size": 300, "max_tokens": 64},
    }
}


def with_mentions(
    nlp: Language, text: str, ids: dict[str, str], spans_key: str | None = None
) -> Doc:
    """A doc with these mentions, each with its id."""
    doc = nlp.make_doc(text)
    spans = []
    for mention, id in ids.items():
        start = text.index(mention)
        spans.append(doc.char_span(start, start + len(mention), label="TERM", kb_id=id))
    set_mentions(doc, spans, spans_key)
    return doc


def pubtator(text: str, mentions: Iterable[tuple[str, str]], number: int = 1) -> str:
    """A text of PubTator with mentions and their ids, each where it first stands."""
    lines = [f"{number}|t|{text}", f"{number}|a|"]
    for mention, id in mentions:
        start = text.index(mention)
        lines.append(f"{number}\t{start}\t{start + len(mention)}\t{mention}\tTERM\t{id}")
    return "\n".join(lines) + "\n"


def make_tiny_nlp(kb: Path, config: dict[str, Any] = CONFIG) -> Language:
    """A pipeline that finds mentions by rule and links them with random weights, always the same.

    The KB gets the vectors of this encoder.
    """
    torch.manual_seed(0)
    nlp = spacy.blank("xx")  # English takes ten times as long to load, for its tokenizer
    ruler = nlp.add_pipe("entity_ruler")
    names = [name for entity in ENTITIES for name in entity.names]
    ruler.add_patterns([{"label": "TERM", "pattern": name} for name in dict.fromkeys(names)])
    linker = nlp.add_pipe("proxy_linker", config={**config, "kb": str(kb)})
    examples = [
        Example(nlp.make_doc(text), with_mentions(nlp, text, mentions)) for text, mentions in TEXTS
    ]
    linker.initialize(lambda: examples, nlp=nlp)
    linker.finish_training()
    embed_kb(kb, linker)
    linker.set_kb(kb)
    return nlp


def write_text(path: Path, text: str) -> Path:
    """A file of this text, in its folder; packed if its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def records(path: Path) -> list[dict[str, Any]]:
    """What a file of JSON lines holds."""
    return [json.loads(line) for line in path.read_text("utf8").splitlines()]


def run_python(script: str, *arguments: object, **options: Any) -> str:
    """What a script prints in a process of its own, which must end well."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert run.returncode == 0, run.stderr
    return run.stdout


def contents(folder: Path) -> dict[str, bytes]:
    """The files in a folder and the folders in it, by their paths there."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="session")
def tiny_kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a KB of ENTITIES; with vectors of ``tiny_nlp``, where that is used as well.

    For reading alone: to change a KB, build one of your own with ``build_kb(ENTITIES, ...)``.
    """
    return build_kb(ENTITIES, tmp_path_factory.mktemp("tiny") / "kb", sources=["tiny"]).path


@pytest.fixture(scope="module")
def whole_kb(tiny_kb: Path) -> KnowledgeBase:
    """``tiny_kb``, opened."""
    return KnowledgeBase.open(tiny_kb)


@pytest.fixture(scope="session")
def tiny_folder(tiny_kb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a saved pipeline: an "entity_ruler" and a "proxy_linker" to ``tiny_kb``."""
    folder = tmp_path_factory.mktemp("tiny") / "pipeline"
    make_tiny_nlp(tiny_kb).to_disk(folder)
    return folder


@pytest.fixture
def tiny_nlp(tiny_folder: Path) -> Language:
    """The pipeline of ``tiny_folder``, loaded anew, so that a test may change it."""
    return spacy.load(tiny_folder)


@pytest.fixture
def own_kb(tiny_kb: Path, tiny_folder: Path, tmp_path: Path) -> Path:
    """A copy of ``tiny_kb`` with vectors, for one test alone."""
    return Path(shutil.copytree(tiny_kb, tmp_path / "own_kb"))


@pytest.fixture
def own_nlp(tiny_nlp: Language, own_kb: Path) -> Language:
    """``tiny_nlp``, which links to ``own_kb``."""
    tiny_nlp.get_pipe("proxy_linker").set_kb(own_kb)
    return tiny_nlp


@pytest.fixture
def bare_kb(tmp_path: Path) -> KnowledgeBase:
    """A KB of ENTITIES without vectors, for one test alone."""
    return build_kb(ENTITIES, tmp_path / "bare_kb")


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a BERT of three layers with random weights, as Hugging Face stores one."""
    from .towers import save_bert  # which imports transformers

    torch.manual_seed(0)
    return Path(save_bert(tmp_path_factory.mktemp("bert"), n_layers=3))


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of entities that are encoded, one after the other."""
    names: list[str] = []
    read = EntityReader.tokens

    def tokens(self, texts):
        names.extend(text.title for text in texts)
        return read(self, texts)

    monkeypatch.setattr(EntityReader, "tokens", tokens)
    return names


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that fails if the network is used."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
