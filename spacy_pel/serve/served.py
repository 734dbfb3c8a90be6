"""What a server serves, in a form that can be sent to another process.

It imports nothing heavy: a process that is sent it can show at once that it lives.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .limits import Limits

if TYPE_CHECKING:
    from fastapi import FastAPI
    from spacy.language import Language


@dataclass(frozen=True)
class Served:
    """What a server serves, in a form that can be sent to another process.

    Attributes:
        pipeline: The path or the package of the pipeline.
        component: The name of the linker in it.
        kb: Another KB than its own.
        spans_key: The key of the span group that is linked; None: the pipeline's setting.
        candidates: The number of candidates given for each mention.
        entity_url: See ``app.create_app``.
        limits: The limits on requests, of each process.
        local: See ``app.create_app``.
    """

    pipeline: Path
    component: str
    kb: Path | None
    spans_key: str | None
    candidates: int
    entity_url: str | None
    limits: Limits
    local: bool

    def loaded(self) -> Language:
        """Load the pipeline. Raises PelError if it cannot be loaded or linked with."""
        from ..pipeline.pipelines import linker_of, load_pipeline

        nlp = load_pipeline(self.pipeline)
        linker = linker_of(nlp, self.component, kb=self.kb, spans_key=self.spans_key)
        linker.candidates = self.candidates
        return nlp

    def app(self, nlp: Language) -> FastAPI:
        """The application that serves a loaded pipeline."""
        from .app import create_app
        from .service import LinkingService

        service = LinkingService(nlp, self.component, limits=self.limits)
        return create_app(service, self.entity_url, local=self.local)

    def __call__(self) -> FastAPI:
        """Load the pipeline, and give the application."""
        return self.app(self.loaded())
