"""The web application: its routes and its error messages."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

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

from ..batch.link_docs import Linking
from ..curation.fix import fix
from ..errors import PelError
from ..kb import KnowledgeBase
from .limits import InFlight, Limits, client_at
from .linking_thread import LinkingThread
from .messages import (
    CorrectionRequest,
    CorrectionResponse,
    EntityRecord,
    Health,
    LinkRequest,
    LinkResponse,
    Problem,
    SearchResponse,
    StoredCorrection,
    validation_message,
)

SECONDS = prometheus.Histogram(
    "pel_request_seconds", "Time from a request to its response", ["route", "status"]
)
DOCUMENTS = prometheus.Counter("pel_documents", "Documents linked")
MENTIONS = prometheus.Counter("pel_mentions", "Mentions linked")
PAGE = Path(__file__).parent / "page"
# The page loads nothing from other hosts, and runs only scripts in its own files.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# The page /docs has an inline script. It shows no text of users.
_DOCS_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; frame-ancestors 'none'"
)
# The host names that a local server accepts. Otherwise a page of another host could resolve its own name to
# this computer (DNS rebinding) and read the responses.
LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
PROBLEMS = {
    400: "Not JSON", 413: "The body is too large",
    422: "The request is not valid", 429: "This client has too many requests in flight",
    503: "The server has too many requests in flight", 504: "The time limit is exceeded",
}  # fmt: skip
CORRECTIONS_OFF = "this server stores no corrections; start it with: pel serve --allow-fix"


class LimitedRequest(Request):
    """A request whose body has a maximum size."""

    async def stream(self) -> AsyncGenerator[bytes, None]:
        limit, size = self.app.state.limits.body, 0
        async for chunk in super().stream():
            size += len(chunk)
            if size > limit:
                raise HTTPException(413, f"the request is larger than {limit:,} bytes")
            yield chunk


class LimitedRoute(APIRoute):
    """A route that limits the requests in flight, their bodies, and their time."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        respond = super().get_route_handler()

        async def respond_within_limits(request: Request) -> Response:
            state, seconds = request.app.state, request.app.state.limits.seconds
            request = LimitedRequest(request.scope, request.receive)
            with state.in_flight.admit(client_at(request.client)):
                try:
                    return await asyncio.wait_for(respond(request), seconds)
                except asyncio.TimeoutError:
                    raise HTTPException(504, f"no answer within {seconds:g} seconds") from None

        return respond_within_limits


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
        entity_url: URL of an entity at its source, with "{id}"; see ``entity_page``.
        local: Accept only requests to LOCAL_HOSTS.
        allow_fix: Let clients store corrections in the KB.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        thread.close()

    thread = LinkingThread(linking)
    app = FastAPIOffline(
        title="spacy_pel",
        description=(
            "Link mentions in texts to the entities of a knowledge base. Documents have the format of "
            "the JSONL lines that `python -m spacy pel link` reads and writes. Offsets count "
            f"characters (code points). A request has at most {limits.body:,} bytes and "
            f"{limits.documents:,} documents of {limits.characters:,} characters, with at most "
            f"{limits.mentions:,} given mentions each. The time limit is {limits.seconds:g} seconds. "
            "Every error is an object with a message in `detail`."
        ),
        version=linking.nlp.meta["version"],
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.thread, app.state.limits, app.state.in_flight = thread, limits, InFlight(limits)
    app.state.entity_url, app.state.allow_fix = entity_url, allow_fix
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(PelError, _refused)
    app.add_exception_handler(Exception, _bug)
    app.include_router(limited)
    app.include_router(router)
    app.mount("/page", StaticFiles(directory=PAGE), name="page")

    @app.middleware("http")
    async def respond(request: Request, call_next: Callable) -> Response:
        """Measure the response, and restrict what a browser does with it."""
        start, status = time.perf_counter(), 500  # if there is an error instead of a response
        try:
            response = await call_next(request)
            status = response.status_code
            policy = _DOCS_POLICY if request.url.path == "/docs" else _PAGE_POLICY
            response.headers["content-security-policy"] = policy
            response.headers["x-content-type-options"] = "nosniff"
            response.headers["referrer-policy"] = "no-referrer"
            response.headers.setdefault("cache-control", "no-cache")
            return response
        finally:
            route = getattr(request.scope.get("route"), "path", "other")
            SECONDS.labels(route, status).observe(time.perf_counter() - start)

    if local:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=LOCAL_HOSTS)
    return app


@limited.post("/link", response_model=LinkResponse)
async def link(body: LinkRequest, request: Request) -> Response:
    """Link the mentions of documents. If a document has none, the pipeline finds them."""
    state = request.app.state
    linked = await state.thread.link(body.checked_documents(state.limits))
    DOCUMENTS.inc(len(linked))
    MENTIONS.inc(sum(mentions for _, mentions in linked))
    records = b",".join(record for record, _ in linked)
    return Response(b'{"documents":[' + records + b"]}", media_type="application/json")


@limited.post("/corrections", responses={403: {"model": Problem}, 415: {"model": Problem}})
async def corrections(body: CorrectionRequest, request: Request) -> CorrectionResponse:
    """Store corrections in the KB, all or none. The next request gets the corrected links."""
    if not request.app.state.allow_fix:
        raise HTTPException(403, CORRECTIONS_OFF)
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        # For other types, browsers let pages of other hosts send requests without permission.
        raise HTTPException(415, "send the header Content-Type: application/json")
    kb = _kb(request)
    decisions = await run_in_threadpool(
        fix, kb.path, body.checked_corrections(kb, request.app.state.limits)
    )
    return CorrectionResponse(
        stored=[
            StoredCorrection(number=d.number, name=d.name, id=d.concept_id, scope=d.scope)
            for d in decisions
        ]
    )


@limited.get("/entity/{id:path}", responses={404: {"model": Problem}})
def entity(id: str, request: Request) -> EntityRecord:
    """Return the entity with this id, which may be an alternative or a retired id."""
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
    limit: Annotated[int, Query(ge=1, le=100, description="Maximum number of entities")] = 10,
) -> SearchResponse:
    """Return the entities whose names have all words of the query, most similar names first."""
    url = request.app.state.entity_url
    entities = _kb(request).search_names(q, limit)
    return SearchResponse(entities=[EntityRecord.of(entity, url) for entity in entities])


@router.head("/health", include_in_schema=False)
@router.get("/health")
async def health(request: Request) -> Health:
    """Return what the server serves. Any response means that it is up."""
    linking = request.app.state.thread.linking
    return Health(
        status="ok",
        pipeline="{lang}_{name} {version}".format(**linking.nlp.meta),
        entities=len(_kb(request)),
        finds_mentions=len(linking.nlp.pipe_names) > 1,
        stores_corrections=request.app.state.allow_fix,
    )


@router.get("/metrics", response_class=Response)
def metrics() -> Response:
    """Return metrics for Prometheus, of all processes that serve."""
    registry = prometheus.REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = prometheus.CollectorRegistry()
        MultiProcessCollector(registry)
    lines = prometheus.generate_latest(registry)
    return Response(lines, media_type=prometheus.CONTENT_TYPE_LATEST)


@router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    """Return the web page."""
    return FileResponse(PAGE / "index.html")


def _kb(request: Request) -> KnowledgeBase:
    return request.app.state.thread.linking.linker.kb


async def _bug(request: Request, error: Exception) -> JSONResponse:
    """Return no details: the traceback goes to the log of the server."""
    return JSONResponse({"detail": "internal error; the server's log says more"}, 500)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 422)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return JSONResponse({"detail": f"the body is not JSON: {first['ctx']['error']}"}, 400)
    return JSONResponse({"detail": validation_message(error.errors())}, 422)
