import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, SearchFilter
from spacy_pel.kb.change import change_entities

from .living import MentionRows, embed, learn, living_kb, name_vector

N = 300
SECONDS = 2  # by hand: 600


def entities(state: str) -> list[Entity]:
    rest = (f"common {state}",), ("Disease",)
    return [Entity(f"C{i:03}", f"Name {i} {state}", *rest) for i in range(N)]


def looked_up(kb: KnowledgeBase, i: int) -> Iterator[str]:
    """The states that several questions find, each of which sees one state alone."""
    yield kb[f"C{i:03}"].aliases[0].split()[-1]
    yield from {entity.aliases[0].split()[-1] for entity in kb.by_id()}
    for state in ("even", "odd"):
        assert len(kb.named(f"name {i} {state}")) in (0, 1)
        found = kb.search_names(f"common {state}", 500)
        assert len(found) in (0, N) and {state} >= {e.aliases[0].split()[-1] for e in found}
    now = kb.snapshot()
    only = SearchFilter(types=("Disease",), ids=[f"C{n:03}" for n in range(i % 7, N, 7)])
    assert len(now.matching(only)) == len(range(i % 7, N, 7))
    query = name_vector(f"Name {i} even")[None]
    assert (now.search(query, 3).numbers >= 0).all()  # with the mentions that it has learnt
    [best] = now.labels(now.search(query, 1, with_mentions=False).numbers[0])
    [second] = now.labels(now.search(query, 1, only, with_mentions=False).numbers[0])
    assert int(second[0][1:]) % 7 == i % 7
    states = {best[1].split()[-1], second[1].split()[-1], now[best[0]].canonical_name.split()[-1]}
    assert len(states) == 1 and (states == {"odd"} or best[0] == f"C{i:03}")
    yield from states


@pytest.mark.timeout(SECONDS + 300)
def test_reading_while_the_kb_is_changed_refreshed_and_closed(tmp_path: Path) -> None:
    folder = living_kb(tmp_path / "kb", entities("even"))
    kb, end, failures, n_read = KnowledgeBase.open(folder), threading.Event(), [], [0]

    def read(seed: int) -> None:
        chance = random.Random(seed)
        while not end.is_set():
            try:
                assert {"even", "odd"} >= set(looked_up(kb, chance.randrange(N)))
                n_read[0] += 1
            except BaseException as error:
                if not isinstance(error, PelError) or "meanwhile" not in str(error):
                    failures.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    stop, change = time.monotonic() + SECONDS, 0
    while time.monotonic() < stop and not failures:
        change += 1
        change_entities(folder, "update", entities(("even", "odd")[change % 2]), MentionRows())
        if change % 3 == 1:
            learn(folder, "some", [("Gout", f"C{change % N:03}"), ("?", "C007")])
        if change % 3 == 2:
            embed(folder, dtype=("int8", "float16")[change % 2], mentions=MentionRows()).close()
        with suppress(PelError):
            for _ in range(20):
                kb.close()
                kb.refresh()
    end.set()
    for thread in threads:
        thread.join()
    assert not failures and n_read[0] and change > 1
