"""How the tests of this room call the command line, and documents for ``pel link``."""

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from spacy.tokens import Doc
from typer.testing import CliRunner

from spacy_pel.cli import pel
from spacy_pel.kb import Entity
from spacy_pel.pipeline.proxy_linker import ProxyLinker

from ..conftest import write_text

TEXT = "Aspirin relieves headache. The patient has MS."
GIVEN = {"text": "An MS-like illness", "id": "d", "mentions": [{"start": 3, "end": 5}]}


@pytest.fixture
def run() -> Callable[..., str]:
    """Runs ``pel ARGUMENTS`` and gives what it prints, if it ends with the exit code ``code``.

    White space in it is made single blanks. A failure must be one line, without a traceback.
    """

    def run_pel(*arguments: object, code: int = 0, stdin: bytes = b"") -> str:
        result = CliRunner().invoke(pel, [str(a) for a in arguments], input=stdin)
        assert result.exit_code == code, (result.output, result.exception)
        if code:
            assert isinstance(result.exception, SystemExit), result.exception
            assert result.stderr.splitlines()[-1].startswith("Error: ")
            assert "Traceback" not in result.output
        return " ".join(result.output.split())  # wasabi breaks lines anywhere

    return run_pel


def write_entities(path: Path, entities: Iterable[Entity]) -> Path:
    path.write_text("\n".join(json.dumps(entity._asdict()) for entity in entities), "utf8")
    return path


@pytest.fixture
def pipeline(tiny_folder: Path, tmp_path: Path) -> Path:
    """The tiny pipeline, to be changed by one test."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "pipeline"))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A file of three documents, for ``pel link``."""
    return write_text(tmp_path / "in" / "docs.txt", f"{TEXT}\n\nNothing here.\nMS or RA?\n")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where ``pel link`` is to write them."""
    return tmp_path / "out" / "linked.jsonl"


@pytest.fixture
def twelve(tmp_path: Path, monkeypatch) -> Path:
    """Twelve documents, in parts of two, in batches of one."""
    monkeypatch.setattr("spacy_pel.batch.link_files.DOCUMENTS_PER_BLOCK", 2)
    path = tmp_path / "twelve.txt"
    path.write_text("".join(f"Case {n}: {TEXT}\n" for n in range(12)))
    return path


def _failing(fault: Callable[[list[Doc]], BaseException | None], monkeypatch) -> None:
    """Makes the linker fail at docs as this says."""

    def broken(linker: ProxyLinker, docs: list[Doc], predict=ProxyLinker.predict):
        if error := fault(docs):
            raise error
        return predict(linker, docs)

    monkeypatch.setattr(ProxyLinker, "predict", broken)


def breaking_after(n: int, error: BaseException, monkeypatch) -> list[str]:
    """Makes the linker fail after so many documents; gives the texts that it links."""
    linked: list[str] = []

    def fault(docs: list[Doc]) -> BaseException | None:
        if len(linked) == n:
            return error
        linked.extend(doc.text for doc in docs)
        return None

    _failing(fault, monkeypatch)
    return linked


def failing_at(beginning: str, monkeypatch) -> None:
    """Makes the linker fail at documents that begin so."""
    error = RuntimeError("odd\nsize")
    _failing(
        lambda docs: error if any(d.text.startswith(beginning) for d in docs) else None, monkeypatch
    )
