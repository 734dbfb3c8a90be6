"""The web application: its routes, and its errors as sentences."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import prometheus_client as prometheus
from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from fastapi_offline import FastAPIOffline
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect

from ..batch.link_docs import Linking
from ..kb import Entity
from .messages import (
    EntityRecord,
    Health,
    LinkRequest,
    LinkResponse,
    Problem,
    SearchResponse,
    first_fault,
)
from .served import Limits
from .service import LinkingService, client_at

SECONDS = prometheus.Histogram(
    "pel_request_seconds", "From a request to its answer", ["route", "status"]
)
DOCUMENTS = prometheus.Counter("pel_documents", "Documents linked")
MENTIONS = prometheus.Counter("pel_mentions", "Mentions linked")
PAGE = Path(__file__).parent / "page"
# The page loads nothing from other hosts, and no scripts apart from its own files.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# The page of the API has a script in the page itself, and shows no text of users.
_DOCS_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; frame-ancestors 'none'"
)
# The names by which a local server is asked for. A page of another host may let its own name stand for
# this computer's address (DNS rebinding), and would then read the answers.
LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
PROBLEMS = {
    400: "Not JSON", 408: "The body does not arrive", 413: "Larger than the server takes",
    422: "Not what is asked for", 429: "This client has too many requests under way",
    503: "Too many requests are under way", 504: "The time is up",
}  # fmt: skip


class _Limited(Request):
    """A request whose body has a limit, and is read as JSON in a thread: 1 MB takes 0.1 s."""

    async def stream(self) -> AsyncGenerator[bytes, None]:
        limit, size = self.app.state.service.limits.body, 0
        async for chunk in super().stream():
            size += len(chunk)
            if size > limit:
                raise HTTPException(413, f"the request is larger than {limit:,} bytes")
            yield chunk

    async def json(self) -> LinkRequest:
        limits = self.app.state.service.limits
        return await run_in_threadpool(LinkRequest.read, await self.body(), limits)


class LimitedRoute(APIRoute):
    """A route whose requests are counted, and have limits on their bodies and their time."""

    def get_route_handler(self) -> Callable:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            service: LinkingService = request.app.state.service
            within = f"within {service.limits.seconds:g} seconds"
            limited = _Limited(request.scope, request.receive)
            with service.admitted(client_at(request.client)):
                problem = 408, f"the request did not arrive {within}", {"connection": "close"}
                try:
                    await asyncio.wait_for(limited.body(), service.limits.seconds)
                    problem = 504, f"no answer {within}"
                    return await asyncio.wait_for(handler(limited), service.limits.seconds)
                except asyncio.TimeoutError:
                    raise HTTPException(*problem) from None
                except ClientDisconnect:
                    raise HTTPException(400, "the request ended early") from None

        return handle


router = APIRouter()
limited = APIRouter(
    route_class=LimitedRoute,
    responses={status: {"model": Problem, "description": d} for status, d in PROBLEMS.items()},
)


def create_app(
    linking: Linking,
    limits: Limits,
    entity_url: str | None = None,
    local: bool = False,
) -> FastAPI:
    """The application that serves a linker.

    ``entity_url`` is the URL of an entity's page at its source, with "{id}". A ``local`` server
    answers to LOCAL_HOSTS alone.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    service = LinkingService(linking, limits)
    app = FastAPIOffline(
        title="spacy_pel",
        description=(
            "Links mentions in texts to the entities of a knowledge base. Documents have the form of "
            "the JSONL lines that `python -m spacy pel link` reads and writes. Offsets count "
            f"characters (code points). A request has at most {limits.body:,} bytes and "
            f"{limits.documents:,} documents of {limits.characters:,} characters, with "
            f"{limits.mentions:,} given mentions each, and is answered within {limits.seconds:g} "
            "seconds. Every error is an object with a sentence in `detail`."
        ),
        version=service.linking.nlp.meta["version"],
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    app.state.entity_url = entity_url
    app.add_exception_handler(RequestValidationError, _not_as_asked)
    app.add_exception_handler(Exception, _bug)
    app.include_router(limited)
    app.include_router(router)
    app.mount("/page", StaticFiles(directory=PAGE), name="page")

    @app.middleware("http")
    async def answer(request: Request, call_next: Callable) -> Response:
        """Count answers, and restrict what a browser does with them."""
        began, status = time.perf_counter(), 500  # if there is an error instead of an answer
        try:
            answered = await call_next(request)
            status, of_docs = answered.status_code, request.url.path == "/docs"
            answered.headers["content-security-policy"] = _DOCS_POLICY if of_docs else _PAGE_POLICY
            answered.headers["x-content-type-options"] = "nosniff"
            answered.headers["referrer-policy"] = "no-referrer"
            answered.headers.setdefault("cache-control", "no-cache")
            return answered
        finally:
            route = getattr(request.scope.get("route"), "path", "other")
            SECONDS.labels(route, status).observe(time.perf_counter() - began)

    if local:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=LOCAL_HOSTS)
    return app


@limited.post("/link", response_model=LinkResponse)
async def link(asked: LinkRequest, request: Request) -> Response:
    """Link the mentions of documents. Where a document gives none, the pipeline finds them."""
    linked = await request.app.state.service.link(client_at(request.client), asked._documents)
    DOCUMENTS.inc(len(linked))
    MENTIONS.inc(sum(mentions for _, mentions in linked))
    body = b",".join(text for text, _ in linked)
    return Response(b'{"documents":[' + body + b"]}", media_type="application/json")


@limited.get("/entity/{id:path}", responses={404: {"model": Problem}})
async def entity(id: str, request: Request) -> EntityRecord:
    """The entity with this id, which may be an alternative or a retired id."""
    service: LinkingService = request.app.state.service
    found = await service.look_up(service.entity, id)
    if found is None:
        raise HTTPException(404, "the knowledge base has no entity with this id")
    return _record(found, request)


@limited.get("/search")
async def search(
    request: Request,
    q: Annotated[
        str, Query(min_length=1, max_length=200, description="Words", examples=["sclerosis"])
    ],
    limit: Annotated[int, Query(ge=1, le=100, description="The largest number of entities")] = 10,
) -> SearchResponse:
    """The entities whose names hold all words of the query; the most similar names come first."""
    service: LinkingService = request.app.state.service
    found = await service.look_up(service.kb.found, q, limit)
    return SearchResponse(entities=[_record(entity, request) for entity in found])


@router.head("/health", include_in_schema=False)
@router.get("/health")
async def health(request: Request) -> Health:
    """What the server serves. An answer means that it is up."""
    service: LinkingService = request.app.state.service
    nlp = service.linking.nlp
    name = "{lang}_{name} {version}".format(**nlp.meta)
    finds_mentions = nlp.pipe_names != [service.linking.component]
    entities = len(service.kb)
    return Health(status="ok", pipeline=name, entities=entities, finds_mentions=finds_mentions)


@router.get("/metrics", response_class=Response)
def figures() -> Response:
    """Figures for Prometheus, of all processes that serve."""
    registry = prometheus.REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = prometheus.CollectorRegistry()
        MultiProcessCollector(registry)
    figures = prometheus.generate_latest(registry)
    return Response(figures, media_type=prometheus.CONTENT_TYPE_LATEST)


@router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    return FileResponse(PAGE / "index.html")


def _record(entity: Entity, request: Request) -> EntityRecord:
    url = request.app.state.entity_url
    return EntityRecord(
        id=entity.concept_id,
        name=entity.canonical_name,
        synonyms=list(entity.names[1:]),
        types=list(entity.types),
        definition=entity.definition,
        parents=list(entity.parents),
        alternative_ids=[*entity.alt_ids, *entity.retired_ids],
        cross_references=list(entity.xrefs),
        sources=list(entity.sources),
        url=url and url.replace("{id}", quote(entity.concept_id, safe="")),
    )


async def _bug(request: Request, error: Exception) -> JSONResponse:
    """An answer without details: the traceback goes to the server's log."""
    return JSONResponse({"detail": "an error inside the server; its log says more"}, 500)


async def _not_as_asked(request: Request, error: RequestValidationError) -> JSONResponse:
    within = [{**fault, "loc": fault["loc"][1:]} for fault in error.errors()]
    return JSONResponse({"detail": first_fault(within)}, 422)
