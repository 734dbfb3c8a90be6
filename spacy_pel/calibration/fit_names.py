"""Fit a ranking without annotations: remove names from a KB, then link them."""

import random
import shutil
from collections import Counter
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Span
from spacy.training import Example

from ..batch.document_blocks import NoBar
from ..batch.embed import embed_kb
from ..evaluation.evaluate import Bars, link_examples
from ..kb.build import build_kb
from ..pipeline.pipelines import linker_of
from ..spans import NIL
from .calibrate import fit

_MAX_ENTITIES, _MIN_ENTITIES = 1000, 100
# The shares of the entities that are removed from the KB, and that lose the name. The others keep it.
_REMOVED, _RENAMED = 0.2, 0.4


def fit_to_names(nlp: Language, scratch: Path, progress: Bars = NoBar) -> bool:
    """Fit the ranking and the NIL threshold of a linker to names of its own KB.

    A name of each sampled entity becomes a mention, a text of its own. These are linked to a KB of
    their candidates that lacks some of the entities and some of the names. So the ranking learns from
    entities that have the name, that have other names, and that are missing. The time does not depend on
    the size of the KB, except to count types.

    Args:
        nlp: The pipeline of the linker.
        scratch: A folder for the KB; it is removed in the end.
        progress: Makes progress bars, as for ``evaluate``.

    Returns:
        Whether the KB has enough entities. Otherwise, the linker has no ranking.

    Raises:
        PelError: No candidate is correct, or the KB has no vectors of the linker's encoder.
    """
    linker = linker_of(nlp)
    kb = linker.kb
    linker.fitted.forget(keep_threshold=False)  # it was fitted to another KB
    rng = random.Random(0)
    numbers = kb.numbers().tolist()
    if len(numbers) < _MIN_ENTITIES:
        return False
    examples, renamed, removed = [], {}, set()
    sample = kb.entities(sorted(rng.sample(numbers, min(_MAX_ENTITIES, len(numbers)))))
    for entity in sample:
        name, part = rng.choice(entity.names), rng.random()
        other_names = entity.without(name)
        gold = entity.concept_id
        if part < _REMOVED and len(kb.numbers_named(name)) == 1:
            removed.add(gold)
            gold = NIL
        elif other_names and part < _REMOVED + _RENAMED:
            renamed[gold] = other_names
        predicted, reference = nlp.make_doc(name), nlp.make_doc(name)
        predicted.ents = [Span(predicted, 0, len(predicted), label="ENTITY")]
        reference.ents = [Span(reference, 0, len(reference), label="ENTITY", kb_id=gold)]
        examples.append(Example(predicted, reference))
    link_examples(nlp, linker, examples, progress)
    candidates = (c["id"] for e in examples for c in e.predicted.ents[0]._.kb_candidates)
    kept = sorted({entity.concept_id for entity in sample}.union(candidates) - removed)
    entities = (renamed.get(e.concept_id, e) for e in kb.entities(kb.numbers_of(kept)))
    word_forms = bool(kb.settings.get("word_forms"))
    build_kb(entities, scratch, types=kb.semantic_types, word_forms=word_forms)
    embed_kb(scratch, linker, index="exact", reuse=kb.path)
    linker.set_kb(scratch)
    try:
        fit(nlp, linker, examples, progress, kb_types=Counter(entity.types for entity in kb))
    finally:
        linker.set_kb(kb.path)
        shutil.rmtree(scratch)
    return True
