"""``pel assemble``: a pipeline that carries its knowledge base, and says what it is and can do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from packaging.version import InvalidVersion, Version
from spacy.language import Language

from ..errors import PelError
from ..kb.folder.manifest import MANIFEST, manifest_text
from ..kb.knowledge_base import KnowledgeBase
from ..pipeline.kb_reference import KB_FOLDER, KB_REFERENCE, KBPipe, kb_reference
from ..pipeline.pipelines import linker_of, load_pipeline, other_linkers
from ..system.whole_files import whole_folder
from ..tasks.card_figures import figures_of
from ..tasks.model_card import model_card, package_name
from .apps import Component, Pipeline, command, msg, pel

# As spaCy's "package" looks for them in a pipeline.
CARD, LICENCES = "README.md", "LICENSES_SOURCES"


class Release(NamedTuple):
    """What a pipeline says of itself: None leaves what its meta.json has.

    metrics: files of ``pel evaluate``. licences: notes on those of KB, texts and weights.
    """

    name: str | None = None
    version: str | None = None
    description: str | None = None
    license: str | None = None
    author: str | None = None
    metrics: tuple[Path, ...] = ()
    licences: str = ""


@command(pel, "assemble")
def assemble_cli(
    pipeline: Pipeline,
    kb: Annotated[Path, typer.Argument(metavar="KB", help="Folder of a KB that is embedded")],
    out: Annotated[Path, typer.Argument(help="Folder to make")],
    metrics: Annotated[
        list[Path] | None,
        typer.Option(help='A file of "evaluate", for the model card; may be repeated'),
    ] = None,
    licenses: Annotated[
        Path | None,
        typer.Option(help="A text file: the licences of the KB's sources, of texts and weights"),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the package")] = None,
    version: Annotated[str | None, typer.Option(help="Version of the package")] = None,
    description: Annotated[str | None, typer.Option(help="What the pipeline is for")] = None,
    license: Annotated[str | None, typer.Option(help="Licence of the package")] = None,
    author: Annotated[str | None, typer.Option(help="Who made the pipeline")] = None,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace the pipeline in OUT")
    ] = False,
    component: Component = "proxy_linker",
) -> None:
    """Put pipeline and KB in one folder.

    The new pipeline carries its knowledge base inside, to be moved or packaged with it. Its
    meta.json and its model card (README.md) say what it is: version, KB and its releases, licences,
    and the figures of the metrics files, which must be those of this linker with this KB.

    \b
    Example:
      python -m spacy pel evaluate training/model-best test.pubtator --output test.json
      python -m spacy pel assemble training/model-best kb release --metrics test.json
        --licenses LICENSES.txt --name umls_linker --version 1.0.0
      python -m spacy package release packages --build wheel
      pip install packages/en_umls_linker-1.0.0/dist/en_umls_linker-1.0.0-py3-none-any.whl
    """
    _check_free(out, force)
    try:
        notes = licenses.read_text("utf8") if licenses else ""
    except UnicodeDecodeError as error:
        raise PelError(f"{licenses}: not UTF-8", "save it as UTF-8") from error
    release = Release(name, version, description, license, author, tuple(metrics or ()), notes)
    assemble(load_pipeline(pipeline), kb, out, component=component, release=release)
    if not notes:
        msg.warn("It has no notes on licences: before you pass it on, give some with --licenses")
    msg.good(f"Assembled {out}; to package it: python -m spacy package {out} PACKAGES -b wheel")


def assemble(
    nlp: Language,
    kb: Path,
    out: Path,
    *,
    component: str = "proxy_linker",
    release: Release = Release(),
) -> None:
    """Write the pipeline, with the KB inside, to a folder; one that is there is replaced.

    The linker then uses this KB, as does a ``kb_matcher``. Nothing in the folder points out of it.
    Until the very end, and after any error or interruption, what was there stays.
    Raises PelError if there is no linker, or one beside it that uses another KB, if the KB has no
    vectors of its encoder, a metrics file has figures of another linker or KB, or a package cannot
    have this name or version.
    """
    linker = linker_of(nlp, component, kb=kb)
    linker.index  # refuses a KB that does not fit
    figures = figures_of(nlp, release.metrics, component)
    nlp.meta.update(_meta(linker.kb, release, figures))
    _check_package(nlp.meta)
    for name, other in other_linkers(nlp, component).items():
        if other.kb.manifest["checksum"] != linker.kb.manifest["checksum"]:
            raise PelError(
                f'"{name}" links to another KB, {other.kb.path}, and one KB is put in a pipeline',
                f'remove it first (nlp.remove_pipe("{name}")), and assemble it by itself',
            )
    users = [name for name, pipe in nlp.components if isinstance(pipe, KBPipe)]
    for name in users:
        config = nlp.get_pipe_config(name)
        config.update(dict.fromkeys({"kb", "path"}.intersection(config)))
    with whole_folder(out) as folder:
        nlp.to_disk(folder)
        _copy_kb(linker.kb, folder / component / KB_FOLDER)
        for name in users:
            reference = {**kb_reference(None, None), "relative": f"../{component}/{KB_FOLDER}"}
            (folder / name / KB_REFERENCE).write_text(json.dumps(reference), encoding="utf8")
        card = model_card(nlp, component, figures, release.licences)
        (folder / CARD).write_text(card, encoding="utf8")
        if release.licences:
            (folder / LICENCES).write_text(release.licences, encoding="utf8")


def _meta(
    kb: KnowledgeBase, release: Release, figures: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """What is to be changed in a pipeline's meta.json."""
    manifest = kb.manifest
    stated = ("name", "version", "description", "license", "author")
    meta = {key: getattr(release, key) for key in stated if getattr(release, key) is not None}
    meta["sources"] = [{"name": source} for source in manifest["sources"]]
    about_kb = ("sources", "counts", "created_by", "checksum")
    meta["knowledge_base"] = {key: manifest[key] for key in about_kb}
    if figures:
        meta["performance"] = {name: _headline(metrics) for name, metrics in figures.items()}
    return meta


def _headline(metrics: dict[str, Any]) -> dict[str, Any]:
    """The metrics but for the curve, and for what they are the figures of."""
    nil = {name: value for name, value in metrics["nil"].items() if name != "curve"}
    left_out = ("linker", "kb", "pipeline")
    return {**{k: v for k, v in metrics.items() if k not in left_out}, "nil": nil}


def _check_package(meta: dict[str, Any]) -> None:
    """Raises PelError for a name or version that spaCy's "package" could not use."""
    name = package_name(meta)
    if not (name.isascii() and name.isidentifier()) or "__" in name:
        raise PelError(
            f"--name {meta['name']}: is no name of a package",
            "take letters, digits and single underscores",
        )
    try:
        Version(meta["version"])
    except InvalidVersion as error:
        raise PelError(f"--version {meta['version']}: is no version", "take 1.0.0, say") from error


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
        raise PelError(f"{out}: exists, and is no pipeline", "choose a new folder")
    if not force:
        raise PelError(f"{out}: exists", "choose a new folder, or replace it with --force")
