import http.client
import json
import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import pytest

from .conftest import LIMITS

LARGE = b"a" * 20_000_000
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEADERS = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"


async def application(scope: dict, receive: Callable, send: Callable) -> None:
    """Reads the body and answers: at /large with many bytes; at /bug it fails."""
    if scope["type"] == "lifespan":
        for _ in range(2):
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
        return
    if scope["path"] == "/bug":
        raise RuntimeError("quotes \x1b]0;what was sent\x07")
    while (await receive()).get("more_body"):
        pass
    body = LARGE if scope["path"] == "/large" else b"here"
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def place(serve: Callable) -> tuple[str, int]:
    """Where a server of ``application`` with little patience is reached."""
    url = urlsplit(serve(application, LIMITS._replace(seconds=0.3)))
    return url.hostname, url.port


def connected(place: tuple[str, int]) -> socket.socket:
    return socket.create_connection(place, timeout=10)


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


@pytest.mark.parametrize("sent", [b"", b"12345"])
def test_a_body_that_does_not_come_is_not_waited_for(serve, make_app, sent: bytes) -> None:
    url = urlsplit(serve(make_app(LIMITS._replace(seconds=0.3))))
    with connected((url.hostname, url.port)) as client:
        reason = json.loads(answer(client, HEADERS.replace(b"/ ", b"/link ", 1) + sent))
        assert reason == {"detail": "no answer within 0.3 seconds"}
        assert is_closed(client)


def test_a_request_that_comes_in_pieces_is_answered(place: tuple) -> None:
    with connected(place) as client:
        for piece in (HEADERS[:30], HEADERS[30:] + b"12345"):
            client.sendall(piece)
            time.sleep(0.1)
        assert answer(client, b"67890") == b"here"
        assert answer(client, REQUEST.replace(b"/ ", b"/large ", 1)) == LARGE


def test_errors_alone_are_written_and_nothing_that_controls_a_terminal(serve, capfd) -> None:
    url = serve(application)
    assert httpx.get(f"{url}/bug").status_code == 500
    assert httpx.get(url, headers={"upgrade": "x", "connection": "upgrade"})
    log = capfd.readouterr().err
    assert "Traceback" in log and "quotes \ufffd]0;what was sent\ufffd" in log
    assert "\x1b" not in log and "upgrade" not in log
