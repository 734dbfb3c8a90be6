"""From source files to a pipeline that links, without a training: ``pel start``."""

import json
import logging
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import spacy
from spacy.language import Language
from spacy.util import fix_random_seed

from ..about import __version__
from ..batch.document_blocks import NoBar
from ..batch.embed import embed_kb
from ..calibration.fit_names import fit_to_names
from ..errors import PelError
from ..evaluation.evaluate import Bars
from ..io.whole_files import whole_file
from ..kb import Entity, KnowledgeBase
from ..kb.change import remove_entities
from ..kb.describe import copy_names
from ..kb.readers import ReadOptions
from ..kb.readers.build_from_sources import build_from_sources
from ..models.architectures import pipeline_folder
from .assemble import assemble, check_replaceable

logger = logging.getLogger(__name__)

# The pipeline that the project's workflow "release" makes.
RELEASED = "en_pel_mesh_sm"

# The settings that were best without annotations, those of project/configs/align.cfg: a vector for
# each name, from the states of the name's own tokens.
_UNTRAINED = {
    "@architectures": "spacy-pel.BiEncoder.v1",
    "shared": True,
    "pooling": "focus",
    "similarity": "cosine",
    "mention_length": 64,
    "entity_length": 32,
}


def start(
    sources: Sequence[Path],
    out: Path,
    *,
    encoder: str | None = None,
    below: Sequence[str] = (),
    format: str | None = None,
    columns: Mapping[str, str] = MappingProxyType({}),
    force: bool = False,
    reading: Callable[[Iterable[Entity], str], Iterable[Entity]] = lambda entities, name: entities,
    encoding: Callable[..., Any] = NoBar,
    fitting: Bars | None = None,
) -> KnowledgeBase:
    """Make a pipeline that marks the names of an ontology in texts and links them.

    It has a ``kb_matcher``, a ``proxy_linker`` whose ranking and NIL threshold are fitted to names of the KB
    (``fit_to_names``), and the KB, which is returned. After an error or an
    interruption, ``out`` is as it was. What is done is kept in a folder beside it, and the same call
    goes on from there.

    Args:
        sources: Files or folders that "kb build" can read.
        encoder: The name or folder of a BERT, or of a pipeline whose linker has trained encoders.
            None: the pipeline ``RELEASED``, if it is installed.
        below: Ids of entities; only these and all below them, by their parents, are linked to.
        format: The format of the sources; None: each by its files.
        columns: The field of each column of a table, as for "kb build".
        force: Whether a pipeline in ``out`` may be replaced.
        reading: Wraps the entities of a source, with its file name, to show progress.
        encoding: Makes a bar, as for ``embed_kb``.
        fitting: Makes bars, as for ``fit_to_names``.

    PelError if ``out`` holds something that may not be replaced, no encoder is given or found, a source
    is missing or faulty, or has none of the ids of ``below``.
    """
    check_replaceable(out, force=force)
    config = _encoder_config(encoder)
    parts = out.with_name(f"{out.name}.parts")  # what is unfinished
    kb, made_of = parts / "kb", parts / "made-of.json"
    state = _state(sources, below, format, columns)
    if not (made_of.is_file() and made_of.read_text("utf8") == state):
        made_of.unlink(missing_ok=True)
        built = build_from_sources(
            *(sources, kb),
            format=format,
            options=ReadOptions(columns=columns),
            in_any_order=True,
            progress=reading,
        )
        if below:
            remove_entities(kb, _not_below(built, below))
        with whole_file(made_of) as file:
            file.write(state)
    nlp = untrained_pipeline(kb, config)
    linker = nlp.get_pipe("proxy_linker")
    embed_kb(kb, linker, progress=encoding)
    linker.set_kb(kb)
    linker.kb.name_finder(partial(reading, name="names"))
    logger.info("fitting the ranking to names of the KB: minutes, however large it is")
    fit_to_names(nlp, parts / "taken-out", fitting)
    logger.info("putting the pipeline and its KB in %s", out)
    assemble(nlp, kb, out)
    made = KnowledgeBase.open(out / "proxy_linker" / "kb")
    copy_names(linker.kb, made.path)
    made_of.unlink()  # a folder that is half removed is no KB to go on with
    shutil.rmtree(parts)
    return made


def _state(sources: Sequence[Path], *options: object) -> str:
    """What decides the KB, as a text: the files of the sources are known by their sizes and times."""
    files = sorted(file for source in sources for file in (source, *source.rglob("*")))
    facts = [
        (str(f.absolute()), f.stat().st_size, f.stat().st_mtime_ns) for f in files if f.exists()
    ]
    return json.dumps([__version__, facts, *options], default=dict)


def untrained_pipeline(kb: Path, config: dict[str, Any]) -> Language:
    """An English pipeline that marks the names of a KB and links them, with weights and no vectors."""
    nlp = spacy.blank("en")
    nlp.add_pipe("kb_matcher", config={"kb": str(kb)})
    nlp.add_pipe("proxy_linker", config={**config, "kb": str(kb)})
    if "model" in config:
        fix_random_seed(0)  # the same encoder gives the same weights, whatever is added to it
        nlp.initialize()
    return nlp


def _not_below(kb: KnowledgeBase, tops: Sequence[str]) -> list[str]:
    """The ids of the entities that are neither one of the tops nor below one, by their parents."""
    children = defaultdict(list)
    for entity in kb:
        for parent in entity.parents:
            children[parent].append(entity.concept_id)
    below, found = list(tops), set(tops)
    for id in below:
        new = [child for child in children[id] if child not in found]
        below += new
        found.update(new)
    if missing := [id for id in tops if id not in kb]:
        raise PelError(
            f"--below {missing[0]}: no entity of the sources", "give an id that they have"
        )
    return [entity.concept_id for entity in kb if entity.concept_id not in found]


def _encoder_config(encoder: str | None) -> dict[str, Any]:
    """The settings of the linker; PelError if there is no encoder."""
    if encoder is None and pipeline_folder(RELEASED) is None:
        bert = "a BERT of Hugging Face such as cambridgeltl/SapBERT-from-PubMedBERT-fulltext"
        remedy = f"name one with --encoder: {bert}, its folder, or a trained pipeline"
        raise PelError(f"no encoder is given, and {RELEASED} is not installed", remedy)
    encoder = encoder or RELEASED
    folder = pipeline_folder(encoder)
    if folder is not None and (folder / "meta.json").is_file():
        return {"path": encoder}
    source = {"@misc": "spacy-pel.PretrainedEncoder.v1", "name": encoder}
    return {"model": {**_UNTRAINED, "encoder": source}}
