"""Make a pipeline that links to an ontology, without training: ``pel start``."""

import json
import logging
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from thinc.api import fix_random_seed

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
from ..kb.location import pipeline_at
from ..kb.readers import ReadOptions
from ..kb.readers.build_from_sources import build_from_sources
from ..pipeline.pipelines import linker_of
from .assemble import assemble, check_replaceable

logger = logging.getLogger(__name__)

# The pipeline of the project's workflow "release".
RELEASED = "en_pel_mesh_sm"

# The share of the entities that makes a tree the main one.
_MAIN = 0.95
# The best settings without annotations, as in project/configs/align.cfg: one vector per name, from the states
# of the name's tokens.
UNTRAINED = {
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
    options: ReadOptions = ReadOptions(),
    force: bool = False,
    reading: Callable[[Iterable[Entity], str], Iterable[Entity]] = lambda entities, name: entities,
    encoding: Callable[..., Any] = NoBar,
    fitting: Bars = NoBar,
) -> KnowledgeBase:
    """Make a pipeline that finds the names of an ontology in texts and links them, and return its KB.

    It has a ``kb_matcher`` and a ``proxy_linker`` whose ranking and NIL threshold are fitted to names of the
    KB (``fit_to_names``). After an error or an interruption, ``out`` is unchanged; the finished work is in a
    folder beside it, and the same call resumes from there.

    Args:
        sources: Files or folders that "kb build" can read.
        out: The folder of the pipeline.
        encoder: The name or folder of a BERT, or of a pipeline whose linker has trained encoders.
            None: the pipeline ``RELEASED``, if it is installed.
        below: Ids of entities. Only these and their descendants are linked to. Without any, trees beside
            one that has nearly all entities are left out: in MONDO, "rare" and "inherited" describe
            diseases; in HPO, most are phenotypic abnormalities.
        format: The format of the sources; None infers it from the files.
        options: Options that only some formats use.
        force: Replace a pipeline in ``out``.
        reading: Wraps the entities of a source to show progress; it also gets the name of the file.
        encoding: Makes a progress bar, as for ``embed_kb``.
        fitting: Makes progress bars, as for ``fit_to_names``.

    Raises:
        PelError: ``out`` may not be replaced, no encoder is given or found, a source is missing or faulty, or
            the sources have no id of ``below``.
    """
    check_replaceable(out, force=force)
    config = _encoder_config(encoder)
    parts = out.with_name(f"{out.name}.parts")
    kb_path, state_path = parts / "kb", parts / "made-of.json"
    state = _source_state(sources, below, format, options)
    if not (state_path.is_file() and state_path.read_text("utf8") == state):
        state_path.unlink(missing_ok=True)
        built = build_from_sources(
            sources,
            kb_path,
            format=format,
            options=options,
            word_forms=True,
            progress=reading,
        )
        if left_out := _left_out(built, below):
            logger.info("leaving out %d entities", len(left_out))
            remove_entities(kb_path, left_out)
        with whole_file(state_path) as file:
            file.write(state)
    nlp = untrained_pipeline(kb_path, config)
    linker = linker_of(nlp)
    embed_kb(kb_path, linker, progress=encoding)
    linker.set_kb(kb_path)
    linker.kb.name_finder(lambda entities: reading(entities, "names"))
    logger.info("fitting the ranking to names of the KB: takes minutes for a KB of any size")
    fit_to_names(nlp, parts / "taken-out", fitting)
    logger.info("writing the pipeline and its KB to %s", out)
    assemble(nlp, kb_path, out)
    kb = KnowledgeBase.open(out / "proxy_linker" / "kb")
    copy_names(linker.kb, kb.path)
    state_path.unlink()  # first, so that no run resumes from a half removed folder
    shutil.rmtree(parts)
    return kb


def _source_state(
    sources: Sequence[Path],
    below: Sequence[str],
    format: str | None,
    options: ReadOptions,
) -> str:
    """Return what determines the KB, as text. Files of sources count by their sizes and times."""
    files = sorted(file for source in sources for file in (source, *source.rglob("*")))
    file_states = [
        (str(f.absolute()), f.stat().st_size, f.stat().st_mtime_ns) for f in files if f.exists()
    ]
    chosen = [list(below), format, dict(options.columns), list(options.prefixes)]
    return json.dumps([__version__, file_states, *chosen])


def untrained_pipeline(kb: Path, config: dict[str, Any]) -> Language:
    """Return an English pipeline that finds and links the names of a KB; the KB needs vectors."""
    nlp = spacy.blank("en")
    nlp.add_pipe("kb_matcher", config={"kb": str(kb)})
    nlp.add_pipe("proxy_linker", config={**config, "kb": str(kb), "runtime": "auto"})
    if "model" in config:
        fix_random_seed(0)  # the same encoder gets the same new weights
        nlp.initialize()
    return nlp


def _left_out(kb: KnowledgeBase, tops: Sequence[str]) -> list[str]:
    """Return the ids of the entities that are not linked to; see ``start`` for ``tops``."""
    parents = {entity.concept_id: entity.parents for entity in kb}
    if missing := [id for id in tops if id not in parents]:
        raise PelError(
            f"--below {missing[0]}: no entity of the sources", "give an id that they have"
        )
    children = defaultdict(list)
    for id, above in parents.items():
        for parent in parents.keys() & set(above):
            children[parent].append(id)

    def tree(tops: Sequence[str]) -> set[str]:
        queue, reached = list(tops), set(tops)
        for id in queue:
            new = [child for child in children.get(id, ()) if child not in reached]
            queue += new
            reached.update(new)
        return reached

    if tops:
        return sorted(parents.keys() - tree(tops))
    inner = {id for of_one in children.values() for id in of_one}
    roots = sorted(children.keys() - inner)
    if len(roots) == 1:
        [root] = kb.entities(kb.numbers_of(roots))
        branches = kb.entities(kb.numbers_of(children[root.concept_id]))
        # "All" names nothing, and its branches are trees. A "cell in vitro" is a "cell".
        if not any(f" {root.canonical_name} " in f" {b.canonical_name} " for b in branches):
            roots = children[root.concept_id]
    for top in roots:
        main = tree([top])
        if len(main) >= _MAIN * len(parents):
            return sorted((children.keys() | inner) - main)
    return []


def _encoder_config(encoder: str | None) -> dict[str, Any]:
    """Return the settings of the linker; PelError if there is no encoder."""
    if encoder is None and pipeline_at(RELEASED) is None:
        bert = "a BERT of Hugging Face such as cambridgeltl/SapBERT-from-PubMedBERT-fulltext"
        remedy = f"name one with --encoder: {bert}, its folder, or a trained pipeline"
        raise PelError(f"no encoder is given, and {RELEASED} is not installed", remedy)
    encoder = encoder or RELEASED
    folder = pipeline_at(encoder)
    if folder is not None and (folder / "meta.json").is_file():
        return {"path": encoder}
    source = {"@misc": "spacy-pel.PretrainedEncoder.v1", "name": encoder}
    return {"model": {**UNTRAINED, "encoder": source}}
