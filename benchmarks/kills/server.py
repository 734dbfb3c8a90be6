"""``pel serve`` in a process of its own, and a client of it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import uvicorn
from jobs import CHANGED, TEXTS, State
from processes import Kill, Process
from spacy.language import Language

from spacy_pel.pipeline.pipelines import linker_of
from spacy_pel.serve.app import create_app
from spacy_pel.serve.served import Limits
from spacy_pel.serve.service import LinkingService


class Server:
    """``pel serve`` over the KB of a folder, in a process of its own, which may be killed."""

    def __init__(self, nlp: Language, folder: Path, kill: Kill = Kill()) -> None:
        def serve(folder: Path) -> None:
            linker_of(nlp, kb=folder)
            service = LinkingService(nlp, limits=Limits())
            config = uvicorn.Config(create_app(service), log_level="warning", access_log=False)
            uvicorn.Server(config).run(sockets=[listener])

        # Closed here: when the process has ended, nothing listens any more.
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._port = listener.getsockname()[1]
            self._process = Process(serve, folder, kill)

    def answers(self) -> State | None:
        """The entity and the links that the server gives; None if it was killed."""
        documents = {"documents": [{"text": text} for text in TEXTS[:3]]}
        with suppress(http.client.HTTPException, ConnectionError, TimeoutError):
            found = self._answer("GET", f"/search?q={CHANGED.replace(' ', '+')}")
            return found, self._answer("POST", "/link", json.dumps(documents))
        return None

    def _answer(self, method: str, path: str, body: str | None = None) -> str:
        headers = {"Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        try:
            connection.request(method, path, body, headers)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def stop(self) -> None:
        """Kill the server."""
        with suppress(ProcessLookupError):
            os.kill(self._process.id, signal.SIGKILL)
        self._process.ended()


def undisturbed(nlp: Language, folder: Path) -> State | None:
    """What a server answers while nothing is killed."""
    server = Server(nlp, folder)
    answers = server.answers()
    server.stop()
    return answers
