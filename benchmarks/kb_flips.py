"""Flip bits in every file of a KB: does ``verify`` find each one that changes an answer?

    python -m benchmarks.kb_flips 1000 [fresh add update ...]

It is run in the root of the repository. For each kind of change a small KB is made, then changed so. The
flips are spread over its files, one at a time. A flip is "found" if ``verify`` finds it, and "harmless" if it
does not and all tables and answers are as they were. Anything else is a fault, and is printed.
"""

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.kb.corrections import Decision, change_corrections
from spacy_pel.kb.knowledge_base import verify
from spacy_pel.kb.transaction import write_checksums
from tests.kb.living import name_vector
from tests.kb.test_damage import CHANGES, PEOPLE, TYPES, contents, made

PEOPLE[60:] = []  # a smaller KB is checked faster
NAMES = ["Name 5", "alias 8", "Gout", "Podagra", "New", "Other", "name", "C9"]
GOUT = Decision(1, "Gout", "C5", "always")


def corrected(folder: Path) -> None:
    """Decide about a name, as ``pel fix`` does."""
    change_corrections(folder, lambda present, number: [GOUT, GOUT._replace(number=2, name="MS")])


def built(folder: Path) -> None:
    """Build the KB anew, with records alone."""
    build_kb(PEOPLE, folder, types=TYPES, sources=["people"]).close()


Change = Callable[[Path], object]
KINDS: dict[str, tuple[str, Change]] = {
    "fresh": ("codes", write_checksums),
    "built": ("codes", built),
    "lists": ("lists", write_checksums),
    "reduced": ("reduced", lambda folder: None),
    **{name: ("codes", change) for name, change in CHANGES.items()},
    "corrections": ("codes", corrected),
}


def answers(folder: Path) -> list[object]:
    """What a KB says of everything in it."""
    with KnowledgeBase.open(folder) as kb:
        numbers = kb.numbers()
        asked = ("named", "found", "numbers_named", "number", "definitions")
        said: list[object] = [repr(getattr(kb, ask)(name)) for ask in asked for name in NAMES]
        said += [kb.settings, list(kb), kb.labels(numbers), kb.of_types("Disease").tolist()]
        said += [repr(kb.semantic_types), kb.corrections.decisions, kb.near(NAMES, 3).tolist()]
        finder = kb.name_finder()
        said += [finder.found(name) for name in NAMES]
        said += [kb.mentions.counts(), kb.mentions.passages()]
        if kb.has_vectors:
            queries = np.array([name_vector(name) for name in NAMES])
            for with_mentions in (False, True):
                found = kb.search(queries, 5, with_mentions=with_mentions)
                said += [found.numbers.tolist(), found.scores.tolist()]
            said += [part.tobytes() for part in kb.rows(numbers)]
        return said


def outcome(folder: Path, path: Path, whole: tuple[object, object]) -> str:
    """What became of a flip in a file."""
    try:
        if verify(folder):
            return "found"
        return "harmless" if (contents(folder), answers(folder)) == whole else "MISSED"
    except BaseException as error:
        return f"CRASH {error!r:.200}"


def main(n: int, *kinds: str) -> None:
    """Print for each kind of change how many flips in each file had which outcome."""
    for name in kinds or KINDS:
        kind, change = KINDS[name]
        with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
            folder, chance = Path(scratch) / "kb", random.Random(name)
            made(folder, kind, patch)
            change(folder)
            KnowledgeBase.open(folder).name_finder()
            assert verify(folder) == []
            whole, counts = (contents(folder), answers(folder)), Counter[str]()
            paths = [path for path in sorted(folder.iterdir()) if path.stat().st_size]
            for number in range(n):
                path = paths[number % len(paths)]
                data = path.read_bytes()
                place, bit = chance.randrange(len(data)), 1 << chance.randrange(8)
                flipped = bytes([data[place] ^ bit])
                path.write_bytes(data[:place] + flipped + data[place + 1 :])
                result = outcome(folder, path, whole)
                path.write_bytes(data)
                counts[f"{path.name.split('-')[0]} {result}"] += 1
                if result.isupper() or "CRASH" in result:
                    print("FAULT", name, path.name, place, bit, result)
            print(name, dict(counts), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
