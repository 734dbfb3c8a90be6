"""Put a KB, a model card, and licences into a pipeline."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from packaging.version import InvalidVersion, Version
from spacy.language import Language

from ..errors import PelError
from ..io.whole_files import whole_folder
from ..kb.describe import copy_kb
from ..kb.location import KB_FOLDER, KB_REFERENCE
from ..pipeline.kb_component import KBComponent
from ..pipeline.pipelines import linker_of
from .model_card import card_sections, metrics_of_linker, package_name

# The names that spaCy's "package" looks for in a pipeline.
CARD, LICENCES = "README.md", "LICENSES_SOURCES"


class PackageInfo(NamedTuple):
    """The metadata of a pipeline. None keeps the value in its meta.json."""

    name: str | None = None  # of the package, without its language
    version: str | None = None
    description: str | None = None
    license: str | None = None
    author: str | None = None
    metrics: tuple[Path, ...] = ()  # files of ``pel evaluate``, for the model card
    # Notes on the licences of the KB's sources, the training texts, and the weights.
    licences: str = ""


def assemble(
    nlp: Language,
    kb: Path,
    out: Path,
    *,
    info: PackageInfo = PackageInfo(),
) -> None:
    """Write a pipeline with its KB to a self-contained folder, or replace one.

    All components use the KB in the folder. After an error or an interruption, an old folder is unchanged.

    Args:
        nlp: The pipeline.
        kb: The folder of a KB with the vectors of the linker's encoder.
        out: The folder to write.
        info: The metadata of the package.

    Raises:
        PelError: There is no linker, the KB has no vectors of its encoder or has a damaged file, a metrics
            file belongs to another linker or KB, or a package cannot have this name or version.
    """
    linker = linker_of(nlp, kb=kb)
    linker.check_kb()
    metrics_by_name = metrics_of_linker(nlp, info.metrics)
    settings = linker.kb.settings
    for key in ("name", "version", "description", "license", "author"):
        if (value := getattr(info, key)) is not None:
            nlp.meta[key] = value
    nlp.meta["sources"] = [{"name": source} for source in settings["sources"]]
    kb_keys = ("sources", "counts", "created_by", "checksum")
    nlp.meta["knowledge_base"] = {key: settings[key] for key in kb_keys}
    if metrics_by_name:
        provenance = ("linker", "kb", "pipeline")
        nlp.meta["performance"] = {
            name: {key: value for key, value in metrics.items() if key not in provenance}
            for name, metrics in metrics_by_name.items()
        }
    _check_package(nlp.meta)
    kb_users = [name for name, pipe in nlp.components if isinstance(pipe, KBComponent)]
    for name in kb_users:
        config = nlp.get_pipe_config(name)
        config.update(dict.fromkeys({"kb", "path"}.intersection(config)))
    if nlp.config["nlp"]["before_creation"] is None:
        callback = {"@callbacks": "spacy-pel.import_named_factories.v1"}
        nlp.config["nlp"]["before_creation"] = callback
    with whole_folder(out) as folder:
        nlp.to_disk(folder)
        copy_kb(linker.kb, folder / linker.name / KB_FOLDER)
        for name in kb_users:
            inside = f"../{linker.name}/{KB_FOLDER}"
            reference = {"absolute": None, "relative": inside, "configured": None}
            (folder / name / KB_REFERENCE).write_text(json.dumps(reference), encoding="utf8")
        card = filter(None, card_sections(nlp, metrics_by_name, info.licences))
        (folder / CARD).write_text("\n\n".join(card) + "\n", encoding="utf8")
        if info.licences:
            (folder / LICENCES).write_text(info.licences, encoding="utf8")


def check_replaceable(out: Path, *, force: bool) -> None:
    """Raise a PelError for a path that exists, unless it is a pipeline and ``force`` is True."""
    is_pipeline = all((out / name).is_file() for name in ("config.cfg", "meta.json"))
    if out.exists() and not is_pipeline:
        raise PelError(f"{out}: exists, and is no pipeline", "choose a new folder")
    if out.exists() and not force:
        raise PelError(f"{out}: exists", "choose a new folder, or replace it with --force")


def _check_package(meta: dict[str, Any]) -> None:
    """Raise a PelError for a name or version that spaCy's "package" rejects."""
    name = package_name(meta)
    if not (name.isascii() and name.isidentifier()) or "__" in name:
        problem = f"--name {meta['name']}: not a name of a package"
        raise PelError(problem, "use letters, digits, and single underscores")
    try:
        Version(meta["version"])
    except InvalidVersion as error:
        problem = f"--version {meta['version']}: not a version"
        raise PelError(problem, "give one such as 1.0.0") from error
