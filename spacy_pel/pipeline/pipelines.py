"""Load pipelines and find their linkers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import spacy
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.util import minibatch, registry
from thinc.api import ConfigValidationError, require_gpu

from ..errors import PelError
from ..kb.location import kb_folder

if TYPE_CHECKING:
    from .proxy_linker import ProxyLinker


def use_gpu(gpu_id: int) -> None:
    """Compute on a GPU from now on. Call this before loading pipelines. -1 changes nothing.

    Raises:
        PelError: There is no such GPU, or CuPy, which spaCy needs for it, is missing.
    """
    if gpu_id < 0:
        return
    try:
        require_gpu(gpu_id)
    except Exception as error:  # CuPy and torch have their own error classes
        problem = str(error).splitlines()[0]
        raise PelError(
            f"GPU {gpu_id} cannot be used: {problem}",
            "install the packages for a GPU (docs/speed.md), or leave out --gpu-id",
        ) from error


def import_named_factories() -> Callable[[type[Language]], type[Language]]:
    """Import the components of other packages when a pipeline names them, from now on.

    With the first pipeline, spaCy imports those of all installed packages: spacy-transformers takes 3 s
    and 180 MB. This is a callback "before_creation" for configs.
    """
    factories = registry._entry_point_factories
    if factories.entry_points:
        factories.entry_points = False
        is_known = Language.__dict__["has_factory"].__func__

        def has_factory(language: type[Language], name: str) -> bool:
            return is_known(language, name) or bool(factories.get_entry_point(name))

        type.__setattr__(Language, "has_factory", classmethod(has_factory))
    return lambda language: language


def load_pipeline(name: str | Path) -> Language:
    """Load the pipeline of a folder or an installed package; PelError, in one line, if that fails."""
    import_named_factories()
    try:
        return spacy.load(name)
    except PelError:
        raise
    except Exception as error:  # damaged files cause errors of many classes
        # spaCy's messages end with lists of all names, and whole configs.
        lines = [line for line in str(error).splitlines() if line.strip()]
        used = lines[: 2 if isinstance(error, ConfigValidationError) else 1]
        summary = " ".join(" ".join(used).split()).rstrip(".") or type(error).__name__
        raise PelError(
            f"{name}: cannot be loaded as a pipeline: {summary}",
            "give the folder of a "
            'trained one, such as training/model-best, and install what its "config.cfg" names',
        ) from error


def linker_of(
    nlp: Language, *, kb: Path | None = None, spans_key: str | None = None
) -> ProxyLinker:
    """Return the linker of a pipeline, after setting its KB or ``spans_key`` if they are given.

    Raises:
        PelError: The pipeline has no linker or several, or the folder holds no KB.
    """
    # Imported here: torch takes seconds, and spaCy imports this module for each of its commands.
    from .proxy_linker import ProxyLinker

    linkers = [pipe for _, pipe in nlp.pipeline if isinstance(pipe, ProxyLinker)]
    if not linkers:
        present = ", ".join(nlp.pipe_names) or "none"
        raise PelError(
            f"the pipeline has no linker among its components ({present})",
            'add one: nlp.add_pipe("proxy_linker")',
        )
    if len(linkers) > 1:
        names = ", ".join(linker.name for linker in linkers)
        raise PelError(f"the pipeline has several linkers ({names})", "disable all but one")
    (linker,) = linkers
    if kb is not None:
        linker.set_kb(kb_folder(kb))
    if spans_key is not None:
        linker.spans_key = spans_key
    return linker


def upstream_of(nlp: Language, name: str) -> list[str]:
    """Return the names of the components that a component listens to, in the pipeline's order."""
    return [
        other for other, pipe in nlp.pipeline if name in getattr(pipe, "listening_components", ())
    ]


def read_by_upstream(nlp: Language, name: str, docs: Iterable[Doc]) -> Iterator[Doc]:
    """Yield docs after the components that a component listens to. Their mentions do not change."""
    # Only components with "pipe" have listeners.
    upstream = [cast(TrainablePipe, nlp.get_pipe(other)) for other in upstream_of(nlp, name)]
    for batch in minibatch(docs, nlp.batch_size):
        mentions = [doc.ents for doc in batch]
        for component in upstream:
            batch = list(component.pipe(batch))
        for doc, ents in zip(batch, mentions):
            doc.ents = ents
            yield doc
