"""Pipelines and the linkers in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import spacy
from spacy.language import Language
from thinc.api import ConfigValidationError

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from .kb_reference import kb_reference_of
from .registered_names import unknown_names_explained

if TYPE_CHECKING:
    from .proxy_linker import ProxyLinker


def load_pipeline(name: str | Path) -> Language:
    """Load the pipeline of a folder or an installed package.

    Args:
        name: The folder, or the name of the package.

    Returns:
        The pipeline.

    Raises:
        PelError: It cannot be loaded, for whatever reason. The message is one line.
    """
    try:
        with unknown_names_explained(name):
            return spacy.load(name)
    except PelError:
        raise
    except Exception as error:  # files may be damaged in more ways than there are error classes
        raise PelError(
            f"{name}: cannot be loaded as a pipeline: {_summary(error)}",
            "give the folder of a "
            'trained one, such as training/model-best, and install what its "config.cfg" names',
        ) from error


def linker_of(
    nlp: Language,
    name: str = "proxy_linker",
    *,
    kb: Path | None = None,
    spans_key: str | None = None,
) -> ProxyLinker:
    """Give the linker of a pipeline.

    Args:
        nlp: The pipeline.
        name: The component's name.
        kb: The folder of another KB that the linker is to use; None: the one it has.
        spans_key: Another ``spans_key`` for the linker; None: the one it has.

    Returns:
        The linker, changed if ``kb`` or ``spans_key`` is given.

    Raises:
        PelError: The pipeline has no linker of that name, or the folder holds no KB.
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
        linker.set_kb(kb)
    if spans_key is not None:
        linker.spans_key = spans_key
    return linker


def other_linkers(nlp: Language, name: str) -> dict[str, ProxyLinker]:
    """The linkers of a pipeline, by their names, without the one of this name."""
    from .proxy_linker import ProxyLinker

    others = {other: pipe for other, pipe in nlp.pipeline if isinstance(pipe, ProxyLinker)}
    return {other: pipe for other, pipe in others.items() if other != name}


def upstream_of(nlp: Language, name: str) -> list[str]:
    """The names of the components that a component listens to, in the pipeline's order."""
    return [
        other for other, pipe in nlp.pipeline if name in getattr(pipe, "listening_components", ())
    ]


def check_kbs(nlp: Language) -> None:
    """Check every byte of the knowledge bases of a pipeline, as ``pel kb verify`` does.

    Raises:
        PelError: A KB is not whole.
    """
    references = [kb_reference_of(pipe) for _, pipe in nlp.pipeline]
    for path in {reference.kb.path for reference in references if reference}:
        KnowledgeBase.open(path, verify=True).close()


def _summary(error: Exception) -> str:
    """The first lines of an error: spaCy appends lists of all names, and configs in full."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    used = lines[: 2 if isinstance(error, ConfigValidationError) else 1]
    return " ".join(" ".join(used).split()).rstrip(".") or type(error).__name__
