"""Pipelines and the linkers in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import spacy
from catalogue import RegistryError
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import minibatch, registry
from thinc.api import ConfigValidationError

from ..errors import PelError
from ..kb.location import kb_folder

if TYPE_CHECKING:
    from .proxy_linker import ProxyLinker

_OUR_NAME = re.compile(r"'(spacy-pel\.[^']+)'")


def use_gpu(gpu_id: int) -> None:
    """Compute on a GPU from now on; call it before pipelines are loaded. -1 changes nothing.

    Raises:
        PelError: There is no such GPU, or CuPy, which spaCy needs for it, is missing.
    """
    if gpu_id < 0:
        return
    try:
        spacy.require_gpu(gpu_id)
    except Exception as error:  # CuPy and torch have classes of their own
        problem = str(error).splitlines()[0]
        raise PelError(
            f"GPU {gpu_id} cannot be used: {problem}",
            "install what docs/speed.md names for a GPU, or leave out --gpu-id",
        ) from error


def import_named_factories() -> Callable[[type[Language]], type[Language]]:
    """Import the components of other packages when a pipeline names them, from now on.

    With the first pipeline, spaCy imports those of all installed packages: spacy-transformers takes 3 s
    and 180 MB. This is a callback "before_creation" for configs.
    """
    factories = registry._entry_point_factories
    if factories.entry_points:
        factories.entry_points = False
        is_known = Language.has_factory.__func__

        def has_factory(language: type[Language], name: str) -> bool:
            return is_known(language, name) or bool(factories.get_entry_point(name))

        Language.has_factory = classmethod(has_factory)
    return lambda language: language


def load_pipeline(name: str | Path) -> Language:
    """Load the pipeline of a folder or an installed package; PelError, of one line, if it cannot."""
    import_named_factories()
    try:
        with unknown_names_explained(name):
            return spacy.load(name)
    except PelError:
        raise
    except Exception as error:  # files may be damaged in more ways than there are error classes
        # spaCy appends lists of all names, and configs in full.
        lines = [line for line in str(error).splitlines() if line.strip()]
        used = lines[: 2 if isinstance(error, ConfigValidationError) else 1]
        summary = " ".join(" ".join(used).split()).rstrip(".") or type(error).__name__
        raise PelError(
            f"{name}: cannot be loaded as a pipeline: {summary}",
            "give the folder of a "
            'trained one, such as training/model-best, and install what its "config.cfg" names',
        ) from error


@contextmanager
def unknown_names_explained(config: object) -> Iterator[None]:
    """Within the block, a name of ours that spaCy does not find is an error with a remedy.

    It takes the place of spaCy's E893. ``config`` is the file or pipeline that is read.
    """
    try:
        yield
    except RegistryError as error:
        found = _OUR_NAME.search(str(error))
        if found is None:
            raise
        raise PelError(
            f'{config}: spaCy does not find "{found[1]}"',
            "check its spelling against spacy_pel/registry.py, and the version of spacy-pel that "
            "is installed; after a change of that file: pip install -e .",
        ) from error


def linker_of(
    nlp: Language,
    name: str = "proxy_linker",
    *,
    kb: Path | None = None,
    spans_key: str | None = None,
) -> ProxyLinker:
    """The linker of a pipeline, with another KB or ``spans_key`` from now on if they are given.

    PelError: the pipeline has no linker of that name, or the folder holds no KB.
    """
    # Imported here: torch takes seconds, and spaCy imports this module for every command of its own.
    from .proxy_linker import ProxyLinker

    linker = nlp.get_pipe(name) if name in nlp.pipe_names else None
    if not isinstance(linker, ProxyLinker):
        present = ", ".join(nlp.pipe_names) or "none"
        raise PelError(
            f'the pipeline has no linker "{name}" among its components ({present})',
            'name the right one with --component, or add one: nlp.add_pipe("proxy_linker")',
        )
    if kb is not None:
        linker.set_kb(kb_folder(kb))
    if spans_key is not None:
        linker.spans_key = spans_key
    return linker


def other_linkers(nlp: Language, name: str) -> dict[str, ProxyLinker]:
    """The linkers of a pipeline, by their names, without the one of this name."""
    from .proxy_linker import ProxyLinker

    pipes = nlp.pipeline
    return {other: p for other, p in pipes if isinstance(p, ProxyLinker) and other != name}


def upstream_of(nlp: Language, name: str) -> list[str]:
    """The names of the components that a component listens to, in the pipeline's order."""
    return [
        other for other, pipe in nlp.pipeline if name in getattr(pipe, "listening_components", ())
    ]


def read_by_upstream(nlp: Language, name: str, docs: Iterable[Doc]) -> Iterator[Doc]:
    """Docs after the components that a component listens to, with the mentions that they had before."""
    upstream = upstream_of(nlp, name)
    for batch in minibatch(docs, nlp.batch_size):
        mentions = [doc.ents for doc in batch]
        for other in upstream:
            batch = list(nlp.get_pipe(other).pipe(batch))
        for doc, own in zip(batch, mentions):
            doc.ents = own
            yield doc
