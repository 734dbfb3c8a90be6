"""What shows that a linker is not the one that was measured."""

import json

from spacy.language import Language

from spacy_pel.jobs.fingerprints import linker_state
from spacy_pel.kb.change import remove_entities


def test_the_state_says_what_was_built_and_fitted(tiny_nlp: Language, bare_kb) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    state = linker_state(tiny_nlp)
    linker.candidates = 3
    assert json.loads(json.dumps(state)) == state == linker_state(tiny_nlp)
    linker.nil_threshold = 0.1
    changed = linker_state(tiny_nlp)
    remove_entities(bare_kb.path, ["C01"])
    linker.set_kb(bare_kb.path)
    found = (state, changed, linker_state(tiny_nlp))
    assert len({json.dumps(each) for each in found}) == 3
