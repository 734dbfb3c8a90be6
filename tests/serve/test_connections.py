"""Connections over a network: those that do nothing are closed, and never keep others out."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import uvicorn

from spacy_pel.serve import connections
from spacy_pel.serve.connections import Connection
from spacy_pel.serve.listener import listen

LARGE = b"a" * 20_000_000
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def application(scope: dict, receive: Callable, send: Callable) -> None:
    """Reads the body and answers: at /large with many bytes, at /slow after half a second."""
    while (await receive()).get("more_body"):
        pass
    if scope["path"] == "/slow":
        await asyncio.sleep(0.5)
    body = LARGE if scope["path"] == "/large" else b"here"
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[uvicorn.Server]:
    """A server of ``application`` with room for 5 connections, and little patience."""
    monkeypatch.setattr(connections, "CONNECTIONS", 5)
    monkeypatch.setattr(connections, "HEADERS_SECONDS", 0.3)
    monkeypatch.setattr(connections, "_GRACE", 0.1)
    http = partial(Connection, seconds=0.3)
    config = uvicorn.Config(application, http=http, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    with listen("127.0.0.1", 0) as listener:
        server.place = listener.getsockname()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield server
        server.should_exit = True
        thread.join()


def connected(server: uvicorn.Server, own: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(server.place, timeout=10, source_address=(own, 0))


def is_closed(client: socket.socket) -> bool:
    """Whether the server closes the connection, without an answer, in the time of the socket."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def answer(client: socket.socket, request: bytes = REQUEST) -> bytes:
    client.sendall(request)
    response = http.client.HTTPResponse(client)
    response.begin()
    return response.read()


HEADERS = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET", REQUEST[:-2], HEADERS, HEADERS + b"12345"])
def test_what_does_not_come_is_not_waited_for(server: uvicorn.Server, sent: bytes) -> None:
    with connected(server) as client:
        client.sendall(sent)
        assert is_closed(client)


def test_a_header_that_comes_byte_by_byte_gets_no_more_time(server: uvicorn.Server) -> None:
    with connected(server) as client:
        began = time.monotonic()
        with pytest.raises(OSError):
            for number in range(100):
                client.sendall(b"GET / HTTP/1.1\r\nHost: localhost"[number % 30 :][:1])
                time.sleep(0.05)
        assert time.monotonic() - began < 3


def test_the_second_request_of_a_connection_has_to_come_as_well(server: uvicorn.Server) -> None:
    with connected(server) as client:
        assert answer(client) == b"here"
        client.sendall(REQUEST[:20])
        assert is_closed(client)


def test_a_request_that_comes_in_pieces_is_answered(server: uvicorn.Server) -> None:
    with connected(server) as client:
        client.sendall(HEADERS[:30])
        time.sleep(0.1)
        client.sendall(HEADERS[30:] + b"12345")
        time.sleep(0.1)
        assert answer(client, b"67890") == b"here"
        assert answer(client) == b"here"


def test_a_slow_answer_is_waited_for(server: uvicorn.Server) -> None:
    with connected(server) as client:
        assert answer(client, REQUEST.replace(b"/ ", b"/slow ", 1)) == b"here"


def test_an_answer_that_is_not_read_is_dropped(server: uvicorn.Server) -> None:
    with connected(server) as client:
        client.sendall(REQUEST.replace(b"/ ", b"/large ", 1))
        while not server.server_state.connections:
            time.sleep(0.01)
        for _ in range(300):
            if not server.server_state.connections:
                break
            time.sleep(0.01)
        assert not server.server_state.connections
    with connected(server) as client:
        assert answer(client, REQUEST.replace(b"/ ", b"/large ", 1)) == LARGE


def test_connections_that_do_nothing_make_room_for_others(
    server: uvicorn.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADERS_SECONDS", 60.0)
    idle = [connected(server, "127.0.0.2") for _ in range(4)]
    other = connected(server, "127.0.0.3")
    assert answer(other) == b"here"
    idle += [connected(server, "127.0.0.2") for _ in range(4)]
    new = connected(server, "127.0.0.4")
    assert answer(new) == b"here"
    assert answer(other) == b"here"  # it has held fewer connections
    for client in idle:
        client.settimeout(0.2)
    assert [is_closed(client) for client in idle] == [True] * 5 + [False] * 3
    for client in (*idle, other, new):
        client.close()


def test_a_client_to_which_an_answer_is_owed_keeps_its_connection(
    server: uvicorn.Server,
) -> None:
    with connected(server) as client:
        client.sendall(REQUEST.replace(b"/ ", b"/slow ", 1))
        time.sleep(0.1)
        idle = [connected(server) for _ in range(8)]
        assert answer(client, b"") == b"here"
        for other in idle:
            other.close()
