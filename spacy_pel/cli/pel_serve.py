"""``pel serve``: a page and an HTTP API that link texts."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

from typer import Option

from ..errors import PelError
from .apps import Component, OtherKB, Pipeline, SpansKey, command, end_if_told, pel
from .terminal import msg, say


@command(pel, "serve")
def serve_cli(
    pipeline: Pipeline,
    host: Annotated[str, Option(help="Address to listen at")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 takes any that is free")] = 8000,
    kb: OtherKB = None,
    spans_key: SpansKey = None,
    entity_url: Annotated[
        str | None, Option(help='URL of an entity, with "{id}" in the place of its id')
    ] = None,
    candidates: Annotated[int, Option(min=1, help="Candidates given for each mention")] = 5,
    max_body: Annotated[int, Option(min=1, help="Largest size of a request, in bytes")] = 1_048_576,
    max_documents: Annotated[int, Option(min=1, help="Most documents of a request")] = 64,
    max_text: Annotated[int, Option(min=1, max=1_000_000, help="Most characters of one")] = 20_000,
    max_mentions: Annotated[int, Option(min=1, help="Most mentions given for a document")] = 500,
    timeout: Annotated[float, Option(min=0.1, max=3600, help="Most seconds for a request")] = 30.0,
    max_waiting: Annotated[int, Option(min=1, help="Most requests under way at once")] = 128,
    workers: Annotated[int, Option(min=1, help="Processes that serve, each with a pipeline")] = 1,
    verify: Annotated[bool, Option("--verify", help="First check every byte of the KB")] = False,
    component: Component = "proxy_linker",
) -> None:
    """Serve a web page and an API that link texts.

    The page, to paste texts into, is at /. The API is described at /docs. Figures for Prometheus are
    at /metrics. Requests beyond a limit are refused. There is no login: everyone who can reach the
    address can use the server.

    The KB is read at the start: restart the server after the KB has changed. Ctrl-C or SIGTERM ends
    the server, once requests under way are answered.

    \b
    Examples:
      python -m spacy pel serve training/model-best
      python -m spacy pel serve en_demo_proxy_linker --port 8080 \\
        --entity-url "https://uts.nlm.nih.gov/uts/umls/concept/{id}"
      curl http://127.0.0.1:8000/link -H "Content-Type: application/json" \\
        -d '{"documents": [{"text": "Her MS relapsed."}]}'
    """
    for package in ("fastapi", "fastapi_offline", "prometheus_client", "uvicorn"):
        if find_spec(package) is None:  # not imported: it takes a second
            remedy = 'install its extra: pip install "spacy-pel[serve]"'
            raise PelError(f"the server needs {package}", remedy)
    from ..serve.served import Limits, address, is_local, listen

    if entity_url is not None and not (
        entity_url.startswith(("https://", "http://")) and "{id}" in entity_url
    ):
        raise PelError(
            f'{entity_url}: not an address with "{{id}}" in it',
            "give one such as https://uts.nlm.nih.gov/uts/umls/concept/{id}",
        )
    limits = Limits(max_body, max_documents, max_text, max_mentions, timeout, max_waiting)
    with listen(host, port) as listener:
        url, local = address(listener), is_local(listener)
        say(f"Starting at {url}; requests wait until it serves")
        if not local:
            msg.warn("Whoever reaches this computer can use the server: there is no login")
        say(f"Loading the pipeline {pipeline}")
        # Imported here, as it takes seconds: the address is said before.
        from ..jobs.link_docs import LinkingChoices
        from ..pipeline.pipelines import check_kbs
        from ..serve import server

        choices = LinkingChoices(pipeline, component, kb, spans_key, candidates)
        settings = (choices, limits, entity_url, local)
        linking = choices.opened()
        if verify:
            say("Checking every byte of the knowledge base")
            check_kbs(linking.nlp)
        end_if_told()
        if workers == 1:
            app = server.app_of(*settings, linking)
            say(f"Serving at {url} (Ctrl-C ends it)")
            server.run_app(app, listener, limits)
        else:
            del linking  # each process loads its own
            say(f"Serving at {url} by {workers} processes (Ctrl-C ends them)")
            server.run_workers(settings, listener, workers)
    say("Stopped")
