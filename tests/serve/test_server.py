"""What the server writes to its log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import httpx
import pytest
import uvicorn

from spacy_pel.serve import server
from spacy_pel.serve.limits import Limits
from spacy_pel.serve.listener import address, listen


def test_errors_alone_are_written_and_nothing_that_controls_a_terminal(
    capfd: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(scope: dict, receive: Callable, send: Callable) -> None:
        if scope["type"] == "http":
            raise RuntimeError("quotes \x1b]0;what was sent\x07")
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        message = await receive()
        await send({"type": f"{message['type']}.complete"})

    servers: list[uvicorn.Server] = []
    run = uvicorn.Server.run
    monkeypatch.setattr(
        uvicorn.Server, "run", lambda self, **kwargs: (servers.append(self), run(self, **kwargs))
    )
    with listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run_server, args=(fail, listener, Limits()))
        thread.start()
        while not (servers and servers[0].started):
            time.sleep(0.01)
        assert httpx.get(address(listener)).status_code == 500
        assert httpx.get(address(listener), headers={"upgrade": "x", "connection": "upgrade"})
        servers[0].should_exit = True
        thread.join()
    log = capfd.readouterr().err
    assert "Traceback" in log and "quotes \ufffd]0;what was sent\ufffd" in log
    assert "\x1b" not in log and "upgrade" not in log
