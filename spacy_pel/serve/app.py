"""The web application: its routes, and its errors as sentences."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException

from ..kb import Entity
from .clients import client_at
from .limits import Limits
from .link_route import LinkRoute, first_fault
from .messages import (
    EntityRecord,
    Health,
    LinkRequest,
    LinkResponse,
    Problem,
    SearchResponse,
)
from .middleware import AnswersCounted, BodyLimited, LocalOnly
from .refused import Refused, refusal
from .server_metrics import ServerMetrics
from .service import LinkingService

PAGE = Path(__file__).parent / "page"
BUSY = {503: {"model": Problem, "description": "Too many requests wait"},
        504: {"model": Problem, "description": "The time is up"}}  # fmt: skip
WRONG = {400: {"model": Problem, "description": "Not JSON"},
         413: {"model": Problem, "description": "Larger than the server takes"},
         422: {"model": Problem, "description": "Not what is asked for"}}  # fmt: skip

router = APIRouter()
link_router = APIRouter(route_class=LinkRoute)


def create_app(
    service: LinkingService, entity_url: str | None = None, *, local: bool = False
) -> FastAPI:
    """The application that serves a linker. It closes the service when it ends.

    Args:
        service: The linker and its limits.
        entity_url: The URL of an entity's page at its source, with "{id}" in the place of the id.
        local: Whether only this computer may use the server. If so, pages of other hosts cannot
            reach it.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPIOffline(
        title="spacy_pel",
        description=_description(service.limits),
        version=service.nlp.meta["version"],
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    app.state.entity_url = entity_url
    app.state.metrics = metrics = ServerMetrics(lambda: service.room.under_way)
    app.add_middleware(BodyLimited, limits=service.limits, room=service.room)
    if local:
        app.add_middleware(LocalOnly)
    app.add_middleware(AnswersCounted, metrics=metrics)
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_exception_handler(RequestValidationError, _not_as_asked)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(Exception, _bug)
    app.include_router(link_router)
    app.include_router(router)
    app.mount("/page", StaticFiles(directory=PAGE), name="page")
    return app


@link_router.post("/link", responses={**WRONG, **BUSY}, response_model=LinkResponse)
async def link(asked: LinkRequest, request: Request) -> Response:
    """Link the mentions of documents. Where a document gives none, the pipeline finds them."""
    service, metrics = request.app.state.service, request.app.state.metrics
    _check(asked, service.limits)
    linked = await service.link(client_at(request.client), asked.documents)
    metrics.documents.inc(len(linked))
    metrics.mentions.inc(sum(document.mentions for document in linked))
    body = b",".join(document.text for document in linked)
    return Response(b'{"documents":[' + body + b"]}", media_type="application/json")


@router.get("/entity/{id:path}", responses={404: {"model": Problem}, **BUSY})
async def entity(id: str, request: Request) -> EntityRecord:
    """The entity with this id, which may be an alternative or a retired id."""
    found = await request.app.state.service.entity(client_at(request.client), id)
    if found is None:
        raise HTTPException(404, "the knowledge base has no entity with this id")
    return _record(found, request.app.state.entity_url)


@router.get("/search", responses={422: {"model": Problem}, **BUSY})
async def search(
    request: Request,
    q: Annotated[
        str, Query(min_length=1, max_length=200, description="Words", examples=["sclerosis"])
    ],
    limit: Annotated[int, Query(ge=1, le=100, description="The largest number of entities")] = 10,
) -> SearchResponse:
    """The entities whose names hold all words of the query; the most similar names come first."""
    found = await request.app.state.service.search(client_at(request.client), q, limit)
    record = partial(_record, entity_url=request.app.state.entity_url)
    return SearchResponse(entities=list(map(record, found)))


@router.head("/health", include_in_schema=False)
@router.get("/health")
async def health(request: Request) -> Health:
    """What the server serves. An answer means that it is up."""
    service = request.app.state.service
    meta = service.nlp.meta
    return Health(
        status="ok",
        pipeline=f"{meta['lang']}_{meta['name']} {meta['version']}",
        entities=service.entity_count,
        finds_mentions=service.finds_mentions,
    )


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """Figures for Prometheus."""
    return Response(
        request.app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8"
    )


@router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    return FileResponse(PAGE / "index.html")


def _check(asked: LinkRequest, limits: Limits) -> None:
    """Raise HTTPException for a request beyond the limits."""
    if len(asked.documents) > limits.documents:
        raise HTTPException(
            422, f"{len(asked.documents):,} documents; at most {limits.documents:,} are taken"
        )
    for number, document in enumerate(asked.documents):
        for count, limit, what in (
            (len(document.text), limits.characters, "characters of text"),
            (len(document.mentions or ()), limits.mentions, "mentions"),
        ):
            if count > limit:
                raise HTTPException(
                    422, f"document {number}: {count:,} {what}; at most {limit:,} are taken"
                )


def _record(entity: Entity, entity_url: str | None) -> EntityRecord:
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
        url=entity_url and entity_url.replace("{id}", quote(entity.concept_id, safe="")),
    )


async def _http_problem(request: Request, error: HTTPException) -> JSONResponse:
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


async def _refused(request: Request, error: Refused) -> JSONResponse:
    return refusal(error)


async def _bug(request: Request, error: Exception) -> JSONResponse:
    """An answer without details: the traceback goes to the server's log."""
    return JSONResponse({"detail": "an error inside the server; its log says more"}, 500)


async def _not_as_asked(request: Request, error: RequestValidationError) -> JSONResponse:
    faults = error.errors()
    if faults[0]["type"] == "json_invalid":
        reason = f"the body is not JSON: {faults[0]['ctx']['error']}"
        return JSONResponse({"detail": reason}, 400)
    within = [{**fault, "loc": fault["loc"][1:]} for fault in faults]
    return JSONResponse({"detail": first_fault(within)}, 422)


def _description(limits: Limits) -> str:
    return (
        "Links mentions in texts to the entities of a knowledge base. Documents have the form of the "
        "JSONL lines that `python -m spacy pel link` reads and writes. Offsets count characters "
        f"(code points). A request has at most {limits.body:,} bytes and {limits.documents:,} documents "
        f"of {limits.characters:,} characters, with {limits.mentions:,} given mentions each, and "
        f"is answered within {limits.seconds:g} seconds. Every error is an object with a sentence "
        "in `detail`."
    )
