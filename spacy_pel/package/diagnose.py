"""Check that an installation, a pipeline, and its KB work together: ``pel doctor``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.specifiers import SpecifierSet
from spacy.language import Language

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..kb.transaction import CHUNKS_PREFIX
from ..models.architectures import entity_fingerprint
from ..pipeline.pipelines import linker_of, load_pipeline

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

OK, NOTE, BROKEN = "ok", "note", "broken"


class Finding(NamedTuple):
    """The result of a check."""

    state: str  # "ok"; "note" for a possible improvement; or "broken"
    subject: str  # a word
    found: str
    remedy: str = ""  # "" if none is needed


def diagnose(
    pipeline: str | Path | None = None,
    kb: Path | None = None,
) -> Iterator[Finding]:
    """Check the installation, and a pipeline (a folder or name) with its KB or another one."""
    yield from _installation_findings()
    if pipeline is None:
        if kb is not None:
            yield from kb_findings(kb)
        return
    try:
        nlp = load_pipeline(pipeline)
        linker = linker_of(nlp)
        path = kb or linker.kb.path
    except PelError as error:
        yield Finding(BROKEN, "pipeline", error.problem, error.remedy)
        return
    findings = list(kb_findings(path))
    yield from findings
    if not any(finding.subject == "kb" and finding.state == BROKEN for finding in findings):
        linker.set_kb(path)
        yield from _pipeline_findings(nlp, linker)


def _installation_findings() -> Iterator[Finding]:
    """Check that exactly one FAISS is installed, and whether there is a GPU."""
    import torch

    faiss = [name for name in ("faiss-cpu", "faiss-gpu") if _version(name)]
    if len(faiss) == 1:
        yield Finding(OK, "faiss", f"{faiss[0]} {_version(faiss[0])}")
    elif faiss:
        found = "faiss-cpu and faiss-gpu, which overwrite each other"
        remedy = "pip uninstall faiss-cpu faiss-gpu, then install one of the two"
        yield Finding(BROKEN, "faiss", found, remedy)
    else:
        yield Finding(BROKEN, "faiss", "not installed", "pip install 'spacy-pel[cpu]'")
    cuda = torch.version.cuda
    if torch.cuda.is_available():
        yield Finding(OK, "gpu", f"{torch.cuda.get_device_name()}, CUDA {cuda}")
        if _version("faiss-gpu") is None:
            remedy = "for search on the GPU: pip install 'spacy-pel[gpu]' without faiss-cpu"
            yield Finding(NOTE, "gpu", "used by the encoder alone, as faiss-gpu is missing", remedy)
    elif shutil.which("nvidia-smi"):
        build = "built for the CPU" if cuda is None else f"built for CUDA {cuda}, finds no GPU"
        remedy = "install a torch of the driver's CUDA version, see pytorch.org/get-started"
        yield Finding(NOTE, "gpu", f"there may be one, but torch is {build}", remedy)
    else:
        yield Finding(OK, "gpu", "none: linking uses the CPU")


def kb_findings(path: Path) -> Iterator[Finding]:
    """Check that a KB can be opened and searched."""
    try:
        kb = KnowledgeBase.open(path)
    except PelError as error:
        yield Finding(BROKEN, "kb", error.problem, error.remedy)
        return
    with kb:
        size = f"{kb.n_bytes() / 2**20:,.0f} MiB"
        found = f"{kb.path}: {len(kb):,} entities, schema {kb.settings['schema_version']}, {size}"
        yield Finding(OK, "kb", found)
        embed = f"python -m spacy pel kb embed {kb.path} PIPELINE"
        if kb.has_vectors:
            found = f"{kb.settings['vectors']['rows']:,} of {kb.stored_dim} dimensions"
            yield Finding(OK, "vectors", found)
        else:
            yield Finding(BROKEN, "vectors", "none: nothing can be linked to the KB", embed)
        if any(kb.path.glob(f"{CHUNKS_PREFIX}*")):
            found = "an embedding of the KB was interrupted"
            yield Finding(NOTE, "vectors", found, f"finish it: {embed}")


def _pipeline_findings(nlp: Language, linker: ProxyLinker) -> Iterator[Finding]:
    """Check that a pipeline can link and that its KB has vectors of its encoder."""
    required, installed = nlp.meta.get("spacy_version", ""), version("spacy")
    yield Finding(OK, "pipeline", f"{nlp.path}: {', '.join(nlp.pipe_names)}")
    if not SpecifierSet(required).contains(installed, prereleases=True):
        found = f"saved for spaCy {required}, but {installed} is installed"
        yield Finding(NOTE, "pipeline", found, "load it with that spaCy if it behaves oddly")
    if nlp.pipe_names[0] == linker.name:
        remedy = (
            'add a component before the linker that finds mentions, such as "ner" or "kb_matcher"'
        )
        yield Finding(
            NOTE, "mentions", "the pipeline finds no mentions: texts must have them", remedy
        )
    try:
        subject, fingerprint = "weights", entity_fingerprint(linker.retriever)
        subject, kb = "fit", linker.kb
        kb.check_fingerprint(fingerprint)
    except PelError as error:
        yield Finding(BROKEN, subject, error.problem, error.remedy)
        if subject == "weights":
            return
    else:
        yield Finding(OK, "fit", f"the vectors of the KB are of this encoder ({fingerprint})")
        wanted = linker.cfg["index_unit"]
        if kb.index_unit != wanted:
            found = f'the KB has a row for each {kb.index_unit}, the pipeline is set to "{wanted}"'
            remedy = f"embed it again: python -m spacy pel kb embed {kb.path} PIPELINE"
            yield Finding(NOTE, "fit", found, remedy)
    threshold, ranking = linker.nil_threshold, linker.ranking
    nil = "no mention is NIL" if threshold is None else f"a mention below {threshold:.3f} is NIL"
    if ranking is None:
        remedy = "python -m spacy pel calibrate PIPELINE DEV"
        yield Finding(NOTE, "calibration", f"none: no probabilities; {nil}", remedy)
    else:
        found = f"probabilities, fitted on mentions of {ranking.fitted_on}; {nil}"
        yield Finding(OK, "calibration", found)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
