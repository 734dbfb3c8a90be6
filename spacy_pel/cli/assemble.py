"""``pel assemble``: a pipeline that carries its knowledge base."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated

import typer
from spacy.language import Language

from ..errors import PelError
from ..files import whole_folder
from ..kb.knowledge_base import KnowledgeBase
from ..kb.manifest import MANIFEST, manifest_text
from ..pipeline.kb_reference import KB_FOLDER, KB_REFERENCE, kb_reference
from .apps import Component, Pipeline, command, msg, pel
from .pipelines import linker_of, load_pipeline


@command(pel, "assemble")
def assemble_cli(
    pipeline: Pipeline,
    kb: Annotated[Path, typer.Argument(metavar="KB", help="Folder of a KB that is embedded")],
    out: Annotated[Path, typer.Argument(help="Folder to make")],
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace the pipeline in OUT")
    ] = False,
    component: Component = "proxy_linker",
) -> None:
    """Put pipeline and KB in one folder.

    The new pipeline carries its knowledge base inside, to be moved or packaged with it.

    \b
    Example:
      python -m spacy pel assemble training/model-best kb release
      python -m spacy package release packages --build wheel
    """
    _check_free(out, force)
    assemble(load_pipeline(pipeline), kb, out, component=component)
    msg.good(f"Assembled {out}; to package it: python -m spacy package {out} PACKAGES")


def assemble(nlp: Language, kb: Path, out: Path, *, component: str = "proxy_linker") -> None:
    """Write the pipeline, with the KB inside, to a folder; one that is there is replaced.

    The linker then uses this KB. Nothing in the folder points out of it. Until the very end, and
    after any error or interruption, what was there stays.
    Raises PelError if there is no linker, or the KB has no vectors of its encoder.
    """
    linker = linker_of(nlp, component, kb=kb)
    linker.index  # refuses a KB that does not fit
    config = nlp.get_pipe_config(component)
    config["kb"] = config["path"] = None
    with whole_folder(out) as folder:
        nlp.to_disk(folder)
        reference = folder / component / KB_REFERENCE
        reference.write_text(json.dumps(kb_reference(None, None)), encoding="utf8")
        _copy_kb(linker.kb, folder / component / KB_FOLDER)


def _copy_kb(kb: KnowledgeBase, folder: Path) -> None:
    folder.mkdir()
    for name in kb.manifest["files"]:
        shutil.copyfile(kb.path / name, folder / name)
    (folder / MANIFEST).write_bytes(manifest_text(kb.manifest).encode())


def _check_free(out: Path, force: bool) -> None:
    """Raises PelError if there is something that may not be replaced."""
    if not out.exists():
        return
    if not all((out / name).is_file() for name in ("config.cfg", "meta.json")):
        raise PelError(f"{out}: exists, and is no pipeline; choose a new folder")
    if not force:
        raise PelError(f"{out}: exists; choose a new folder, or replace it with --force")
