"""Ontologies are fetched whole, from a server on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.readers.fetch_ontology import ONTOLOGIES, fetch_ontology

OBO = "data-version: 2026-01-05\n\n[Term]\nid: X:1\nname: gout\n\n[Term]\nid: X:2\nname: rash\n"
PAGES = {
    "/mondo.obo": OBO,
    "/bad/mondo.obo": "[Term]\nid X:1\nname: gout\n",
    "/page/mondo.obo": "<html>Please log in.</html>",
    "/short/mondo.obo": OBO,
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/purl/mondo.obo":  # as PURLs do
            self.send_response(302)
            self.send_header("Location", "/mondo.obo")
            self.end_headers()
            return
        if self.path not in PAGES:
            self.send_error(404)
            return
        body = PAGES[self.path].encode()
        self.send_response(200)
        more = 100 if "short" in self.path else 0
        self.send_header("Content-Length", str(len(body) + more))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ONTOLOGIES, "mondo", ("diseases", url))


def test_a_file_is_fetched_and_read(address: str, tmp_path: Path, monkeypatch) -> None:
    at(f"{address}/purl/mondo.obo", monkeypatch)
    received: list[tuple[int, int | None]] = []
    folder = tmp_path / "new"
    found = fetch_ontology("mondo", folder, received=lambda *given: received.append(given))
    assert found == (folder / "mondo.obo", 2, "2026-01-05")
    assert found[0].read_text() == OBO
    assert received == [(len(OBO), len(OBO))]
    assert [path.name for path in folder.iterdir()] == ["mondo.obo"]


@pytest.mark.parametrize(
    "page, message",
    [
        ("none", "cannot be fetched .Not Found.; check the network"),
        ("short", "cannot be fetched .(broke off after|IncompleteRead)"),
        ("bad", "cannot be read .*line 3: cannot be parsed as OBO.*; run it again"),
        ("page", "has no entities; run it again, or open it in a browser"),
    ],
)
def test_what_is_not_whole_leaves_the_old_file(
    address: str, tmp_path: Path, monkeypatch, page: str, message: str
) -> None:
    at(f"{address}/{page}/mondo.obo", monkeypatch)
    (tmp_path / "mondo.obo").write_text("old")
    with pytest.raises(PelError, match=message):
        fetch_ontology("mondo", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mondo.obo"]
    assert (tmp_path / "mondo.obo").read_text() == "old"


def test_no_server_and_no_such_name(tmp_path: Path, monkeypatch) -> None:
    at("http://127.0.0.1:9/mondo.obo", monkeypatch)
    with pytest.raises(PelError, match="cannot be fetched .*; check the network"):
        fetch_ontology("mondo", tmp_path)
    with pytest.raises(PelError, match="no ontology 'mundo' is known; choose of: mondo, doid"):
        fetch_ontology("mundo", tmp_path)
