"""The web application: its routes, and its errors as sentences."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

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
from ..curation.corrections import Correction, fix
from ..kb import KnowledgeBase
from ..spans import NIL
from .limits import InFlight, Limits, client_at
from .linking_queue import LinkingQueue
from .messages import (
    CorrectionRequest,
    CorrectionResponse,
    EntityRecord,
    Health,
    LimitedMessage,
    LinkRequest,
    LinkResponse,
    Problem,
    SearchResponse,
    StoredCorrection,
    first_fault,
)

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
    422: "Not what is asked for", 429: "This client has too many requests in flight",
    503: "Too many requests are in flight", 504: "The time is up",
}  # fmt: skip
CORRECTIONS_OFF = "this server stores no corrections; start it with: pel serve --allow-fix"


class LimitedRoute(APIRoute):
    """A route whose requests are counted, and have limits on their bodies and their time."""

    def get_route_handler(self) -> Callable:
        handler = super().get_route_handler()
        message: type[LimitedMessage] = self.endpoint.__annotations__.get("asked", LinkRequest)

        class LimitedRequest(Request):
            """A request whose body has a limit, and is read in a thread: 1 MB takes 0.1 s."""

            async def stream(self) -> AsyncGenerator[bytes, None]:
                limit, size = self.app.state.limits.body, 0
                async for chunk in super().stream():
                    size += len(chunk)
                    if size > limit:
                        raise HTTPException(413, f"the request is larger than {limit:,} bytes")
                    yield chunk

            async def json(self) -> LimitedMessage:
                return await run_in_threadpool(
                    message.read, await self.body(), self.app.state.limits
                )

        async def handle(request: Request) -> Response:
            seconds = request.app.state.limits.seconds
            limited = LimitedRequest(request.scope, request.receive)
            with request.app.state.in_flight.admit(client_at(request.client)):
                problem = 408, "the request did not arrive", {"connection": "close"}
                try:
                    await asyncio.wait_for(limited.body(), seconds)
                    problem = 504, "no answer", None
                    return await asyncio.wait_for(handler(limited), seconds)
                except asyncio.TimeoutError:
                    status, reason, headers = problem
                    reason += f" within {seconds:g} seconds"
                    raise HTTPException(status, reason, headers) from None
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
    allow_fix: bool = False,
) -> FastAPI:
    """Return the application that serves a linker.

    Args:
        linking: The pipeline.
        limits: The limits of each process.
        entity_url: The URL of an entity's page at its source, with "{id}"; see ``entity_page``.
        local: Whether only LOCAL_HOSTS are answered.
        allow_fix: Whether clients may store corrections in the KB.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        queue.close()

    queue = LinkingQueue(linking)
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
        version=linking.nlp.meta["version"],
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.queue, app.state.limits, app.state.in_flight = queue, limits, InFlight(limits)
    app.state.entity_url, app.state.allow_fix = entity_url, allow_fix
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
    linked = await request.app.state.queue.link(asked._documents)
    DOCUMENTS.inc(len(linked))
    MENTIONS.inc(sum(mentions for _, mentions in linked))
    body = b",".join(text for text, _ in linked)
    return Response(b'{"documents":[' + body + b"]}", media_type="application/json")


@limited.post("/corrections", responses={403: {"model": Problem}, 415: {"model": Problem}})
async def corrections(asked: CorrectionRequest, request: Request) -> CorrectionResponse:
    """Store what a person decided in the KB; the next request gets the corrected answers.

    All corrections are stored, or none.
    """
    if not request.app.state.allow_fix:
        raise HTTPException(403, CORRECTIONS_OFF)
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        # A page of another host can send other types without being asked for permission.
        raise HTTPException(415, "send the header Content-Type: application/json")
    decided, kb = [], _kb(request)
    for number, given in enumerate(asked.corrections):
        if given.id != NIL and given.id not in kb:
            raise HTTPException(422, f"correction {number}: the knowledge base has no such id")
        decided.append(
            Correction(
                given.text[given.start : given.end],
                given.id,
                given.scope,
                given.label,
                given.text,
                given.start,
                given.end,
            )  # fmt: skip
        )
    stored = await run_in_threadpool(fix, kb.path, decided)
    return CorrectionResponse(
        stored=[
            StoredCorrection(number=d.number, name=d.name, id=d.concept_id, scope=d.scope)
            for d in stored
        ]
    )


@limited.get("/entity/{id:path}", responses={404: {"model": Problem}})
def entity(id: str, request: Request) -> EntityRecord:
    """The entity with this id, which may be an alternative or a retired id."""
    try:
        return EntityRecord.of(_kb(request)[id], request.app.state.entity_url)
    except KeyError:
        raise HTTPException(404, "the knowledge base has no entity with this id") from None


@limited.get("/search")
def search(
    request: Request,
    q: Annotated[
        str, Query(min_length=1, max_length=200, description="Words", examples=["sclerosis"])
    ],
    limit: Annotated[int, Query(ge=1, le=100, description="The largest number of entities")] = 10,
) -> SearchResponse:
    """The entities whose names hold all words of the query; the most similar names come first."""
    found, url = _kb(request).search_names(q, limit), request.app.state.entity_url
    return SearchResponse(entities=[EntityRecord.of(entity, url) for entity in found])


@router.head("/health", include_in_schema=False)
@router.get("/health")
async def health(request: Request) -> Health:
    """What the server serves. An answer means that it is up."""
    queue: LinkingQueue = request.app.state.queue
    nlp = queue.linking.nlp
    return Health(
        status="ok",
        pipeline="{lang}_{name} {version}".format(**nlp.meta),
        entities=len(_kb(request)),
        finds_mentions=nlp.pipe_names != [queue.linking.component],
        stores_corrections=request.app.state.allow_fix,
    )


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


def _kb(request: Request) -> KnowledgeBase:
    return request.app.state.queue.linking.linker.kb


async def _bug(request: Request, error: Exception) -> JSONResponse:
    """An answer without details: the traceback goes to the server's log."""
    return JSONResponse({"detail": "an error inside the server; its log says more"}, 500)


async def _not_as_asked(request: Request, error: RequestValidationError) -> JSONResponse:
    within = [{**fault, "loc": fault["loc"][1:]} for fault in error.errors()]
    return JSONResponse({"detail": first_fault(within)}, 422)
