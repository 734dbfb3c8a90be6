"""A ranking without annotations: names of a KB are taken out of it, and looked for again."""

import random
import shutil
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Span
from spacy.training import Example

from ..jobs.kb_rows import LinkerRows
from ..kb.change import change_entities, remove_entities
from ..kb.records.names import normalised
from ..pipeline.fitted import Fitted
from ..pipeline.pipelines import linker_of
from ..spans import NIL
from .calibrate import fit

_ENTITIES, _FEWEST = 1500, 100  # that are asked for at most, and at least
# The shares of them that are missing from the KB, and that lack the name. The others have it.
_MISSING, _UNNAMED = 0.2, 0.4


def fit_to_names(nlp: Language, scratch: Path) -> bool:
    """Fit the ranking and the NIL threshold of a linker to names of its own KB; whether it has enough.

    Of some entities a name is a question, a text of its own. A copy of the KB, the folder ``scratch``, has
    lost a part of these entities, and of another part the names. So the ranking learns what a right
    candidate looks like where the KB has the words, where it has others, and where it lacks the entity.
    PelError if no candidate is right, or the KB has no vectors of the linker's encoder.
    """
    linker = linker_of(nlp)
    kb = linker.kb
    chance = random.Random(0)
    numbers = kb.numbers().tolist()
    if len(numbers) < _FEWEST:
        return False
    questions, unnamed, missing = [], [], []
    for entity in kb.entities(sorted(chance.sample(numbers, min(_ENTITIES, len(numbers))))):
        name, drawn = chance.choice(entity.names), chance.random()
        others = [n for n in entity.names if normalised(n) != normalised(name)]
        gold = entity.concept_id
        if drawn < _MISSING and len(kb.numbers_named(name)) == 1:
            missing.append(gold)
            gold = NIL
        elif others and drawn < _MISSING + _UNNAMED:
            unnamed.append(entity._replace(canonical_name=others[0], aliases=tuple(others[1:])))
        questions.append((name, gold))
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(kb.path, scratch)
    change_entities(scratch, "update", unnamed, LinkerRows(linker))
    remove_entities(scratch, missing)
    examples = []
    for name, gold in questions:
        docs = nlp.make_doc(name), nlp.make_doc(name)
        for doc, id in zip(docs, ("", gold)):
            doc.ents = [Span(doc, 0, len(doc), label="ENTITY", kb_id=id)]
        examples.append(Example(*docs))
    linker.fitted = Fitted(configured_nil_threshold=linker.fitted.configured_nil_threshold)
    linker.set_kb(scratch)
    try:
        fit(nlp, linker, examples)
    finally:
        linker.set_kb(kb.path)
        shutil.rmtree(scratch)
    return True
