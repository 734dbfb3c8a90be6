"""A ranking without annotations: names of a KB are taken out of it, and looked for again."""

import random
import shutil
from collections import Counter
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Span
from spacy.training import Example

from ..batch.embed import embed_kb
from ..evaluation.evaluate import Bars, link_examples
from ..kb.build import build_kb
from ..kb.records.names import normalised
from ..pipeline.fitted import Fitted
from ..pipeline.pipelines import linker_of
from ..spans import NIL
from .calibrate import fit

_ENTITIES, _FEWEST = 2500, 100  # that are asked for at most, and at least
# The shares of them that are missing from the KB, and that lack the name. The others have it.
_MISSING, _UNNAMED = 0.2, 0.4


def fit_to_names(nlp: Language, scratch: Path, progress: Bars | None = None) -> bool:
    """Fit the ranking and the NIL threshold of a linker to names of its own KB; whether it has enough.

    Of some entities a name is a question, a text of its own. A KB of what the questions are compared with,
    in the folder ``scratch``, lacks a part of these entities, and of another part the names. So the ranking
    learns what a right candidate looks like where the KB has the words, where it has others, and where it
    lacks the entity. It takes no longer with a larger KB, but for a look at the types of all entities.
    ``progress`` makes bars, as for ``evaluate``.

    Raises:
        PelError: No candidate is correct, or the KB has no vectors of the linker's encoder.
    """
    linker = linker_of(nlp)
    kb = linker.kb
    chance = random.Random(0)
    numbers = kb.numbers().tolist()
    if len(numbers) < _FEWEST:
        return False
    questions, changed, missing = [], {}, set()
    drawn_from = kb.entities(sorted(chance.sample(numbers, min(_ENTITIES, len(numbers)))))
    for entity in drawn_from:
        name, drawn = chance.choice(entity.names), chance.random()
        others = [n for n in entity.names if normalised(n) != normalised(name)]
        gold = entity.concept_id
        if drawn < _MISSING and len(kb.numbers_named(name)) == 1:
            missing.add(gold)
            gold = NIL
        elif others and drawn < _MISSING + _UNNAMED:
            changed[gold] = entity._replace(canonical_name=others[0], aliases=tuple(others[1:]))
        questions.append((name, gold))
    examples = []
    for name, gold in questions:
        docs = nlp.make_doc(name), nlp.make_doc(name)
        for doc, id in zip(docs, ("", gold)):
            doc.ents = [Span(doc, 0, len(doc), label="ENTITY", kb_id=id)]
        examples.append(Example(*docs))
    linker.fitted = Fitted(configured_nil_threshold=linker.fitted.configured_nil_threshold)
    link_examples(nlp, linker, examples, progress)
    found = (c["id"] for e in examples for c in e.predicted.ents[0]._.kb_candidates)
    compared = sorted({entity.concept_id for entity in drawn_from}.union(found) - missing)
    left = (changed.get(e.concept_id, e) for e in kb.entities(kb.numbers_of(compared)))
    word_forms = bool(kb.settings.get("word_forms"))
    build_kb(left, scratch, types=kb.semantic_types, word_forms=word_forms)
    embed_kb(scratch, linker, index="exact", reuse=kb.path)
    linker.set_kb(scratch)
    try:
        fit(nlp, linker, examples, progress, types_of_kb=Counter(entity.types for entity in kb))
    finally:
        linker.set_kb(kb.path)
        shutil.rmtree(scratch)
    return True
