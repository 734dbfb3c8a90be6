"""``pel serve``: a page and an HTTP API that link texts."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from typing import Annotated

import typer

from ..errors import PelError
from ..pipeline.pipelines import linker_of, load_pipeline
from .apps import Component, OtherKB, Pipeline, SpansKey, command, msg, pel
from .signals import end_if_told

# Connections held at once; more are answered 503.
CONNECTIONS = 500


@command(pel, "serve")
def serve_cli(
    pipeline: Pipeline,
    host: Annotated[str, typer.Option(help="Address to listen at")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free")] = 8000,
    kb: OtherKB = None,
    spans_key: SpansKey = None,
    entity_url: Annotated[
        str | None,
        typer.Option(help='Address of an entity at its source, with "{id}" for its id'),
    ] = None,
    candidates: Annotated[int, typer.Option(min=1, help="Candidates given a mention")] = 5,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of a request")] = 1_048_576,
    max_documents: Annotated[int, typer.Option(min=1, help="Documents of a request")] = 64,
    max_text: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Characters of a document")
    ] = 20_000,
    max_mentions: Annotated[int, typer.Option(min=1, help="Mentions given for a document")] = 500,
    timeout: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds for a request")] = 30.0,
    max_waiting: Annotated[int, typer.Option(min=1, help="Requests under way at once")] = 64,
    component: Component = "proxy_linker",
) -> None:
    """Serve a page to paste texts into, and an API, that link their mentions.

    The page is at /, the API and its description at /docs, figures for Prometheus at /metrics.
    What is beyond a limit is refused. There is no login: whoever reaches the address may use it.
    A change of the KB is seen after a restart. Ctrl-C or SIGTERM ends it once what is under way is
    answered.

    \b
    Examples:
      python -m spacy pel serve training/model-best
      python -m spacy pel serve en_demo_proxy_linker --port 8080 \\
        --entity-url "https://uts.nlm.nih.gov/uts/umls/concept/{id}"
      curl http://127.0.0.1:8000/link -H "Content-Type: application/json" \\
        -d '{"documents": [{"text": "Her MS relapsed."}]}'
    """
    try:
        import fastapi  # noqa: F401
        import fastapi_offline  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise PelError(
            f"the server needs {error.name}", 'install its extra: pip install "spacy-pel[serve]"'
        ) from error
    from ..serve.app import create_app
    from ..serve.limits import Limits
    from ..serve.service import LinkingService

    if entity_url is not None:
        _check_entity_url(entity_url)
    with _listening(host, port) as listener:
        nlp = load_pipeline(pipeline)
        linker_of(nlp, component, kb=kb, spans_key=spans_key).candidates = candidates
        limits = Limits(max_body, max_documents, max_text, max_mentions, timeout, max_waiting)
        service = LinkingService(nlp, component, limits=limits)
        app = create_app(service, entity_url, local=_is_local(listener))
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="on",
            limit_concurrency=CONNECTIONS,
            timeout_graceful_shutdown=int(timeout) + 1,
        )
        end_if_told()
        typer.echo(f"Serving at {_address(listener)} (Ctrl-C ends it)")
        # After an orderly end the server sends itself the signal once more.
        with suppress(KeyboardInterrupt, SystemExit):
            uvicorn.Server(config).run(sockets=[listener])
    typer.echo("Stopped")


def _check_entity_url(template: str) -> None:
    if not template.startswith(("https://", "http://")) or "{id}" not in template:
        raise PelError(
            f'{template}: not an address with "{{id}}" in it',
            "give one such as https://uts.nlm.nih.gov/uts/umls/concept/{id}",
        )


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; PelError if that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise PelError(
            f"cannot listen at {host}, port {port}: {error.strerror or error}",
            "give another --host or --port",
        ) from error
    if not _is_local(listener):
        msg.warn("Whoever reaches this computer can use the server: there is no login")
    return listener


def _is_local(listener: socket.socket) -> bool:
    """Whether this computer alone can reach it."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
