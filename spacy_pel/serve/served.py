"""What a server serves, and where. It imports nothing heavy: the address is told at once."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import PelError

if TYPE_CHECKING:
    from spacy.language import Language


class Limits(NamedTuple):
    """The most that a request may ask for, and the most requests at once."""

    body: int = 1_048_576  # bytes
    documents: int = 64
    characters: int = 20_000  # of a document's text
    mentions: int = 500  # that are given for a document
    seconds: float = 30.0  # in which the body must arrive, and then the time for the answer
    waiting: int = 128  # requests under way, including those that wait for the model


class Served(NamedTuple):
    """What a server serves, in a form that can be sent to another process."""

    pipeline: Path
    component: str  # the name of the linker in it
    kb: Path | None  # another KB than its own
    spans_key: str | None  # of the span group that is linked; None: the pipeline's setting
    candidates: int  # given for each mention
    entity_url: str | None  # the URL of an entity at its source, with "{id}"
    limits: Limits  # of each process
    local: bool  # whether only this computer may use the server

    def loaded(self) -> Language:
        """Load the pipeline. Raises PelError if it cannot be loaded or linked with."""
        from ..pipeline.pipelines import linker_of, load_pipeline

        nlp = load_pipeline(self.pipeline)
        linker = linker_of(nlp, self.component, kb=self.kb, spans_key=self.spans_key)
        linker.candidates = self.candidates
        return nlp


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that listens for connections; port 0 takes any that is free.

    Raises:
        PelError: The address is not one of this computer, or the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise PelError(
            f"cannot listen at {host}, port {port}: {error.strerror or error}",
            "give another --host or --port",
        ) from error


def is_local(listener: socket.socket) -> bool:
    """Whether only this computer can reach the socket."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def address(listener: socket.socket) -> str:
    """The URL at which the socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
