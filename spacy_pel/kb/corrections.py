"""What people decided about names: a name, its entity or NIL, and where the decision holds.

Corrections are in the database of a KB as one setting. They are few, and each change writes all of them.
A KB reads them anew when they have changed, also while it is open: they name entities by concept id, so
they need no ``refresh``.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ..errors import PelError
from .records.names import american, normalised
from .store import Store, stored_text
from .transaction import keep_names, writing

ALWAYS, LABEL, TEXT = SCOPES = ("always", "label", "text")
_CONTENT, _STATE = "corrections", "state of the corrections"  # names of settings


class Decision(NamedTuple):
    """A correction as a KB stores it.

    Attributes:
        number: By which it is undone.
        name: The words of the mention.
        concept_id: The id of the entity, or "NIL".
        scope: ALWAYS; LABEL: for mentions with ``label``; TEXT: in the same text, and in texts alike.
        label: A label of mentions; "" unless the scope is LABEL.
        quote: The mention in its text, for people; "" unless the scope is TEXT, as of the following.
        digest: Of the text (``text_digest``).
        start: The first character of the mention in the text.
        words: The words of the text as hashes, each with its weight; see ``linking.corrections.weighted_words``.
    """

    number: int
    name: str
    concept_id: str
    scope: str
    label: str = ""
    quote: str = ""
    digest: str = ""
    start: int = -1
    words: Mapping[int, float] = MappingProxyType({})

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What it is about. A later decision about the same replaces it."""
        return name_key(self.name), self.scope, self.label, self.digest, self.start

    def __str__(self) -> str:
        where = {ALWAYS: "always", LABEL: f"with the label {self.label}", TEXT: f"in {self.quote}"}
        return f"{self.name} is {self.concept_id}, {where.get(self.scope, 'as a rule says')}"


class Corrections:
    """The decisions of a KB, looked up by name."""

    def __init__(self, decisions: Sequence[Decision] = ()) -> None:
        self.decisions = tuple(decisions)
        self._by_name: dict[str, list[Decision]] = defaultdict(list)
        for decision in decisions:
            self._by_name[name_key(decision.name)].append(decision)

    def __bool__(self) -> bool:
        return bool(self.decisions)

    def about(self, *names: str) -> list[Decision]:
        """The decisions about any of these names, the oldest first."""
        keys = dict.fromkeys(map(name_key, names))
        return [decision for key in keys for decision in self._by_name.get(key, ())]


class LiveCorrections:
    """Reads the corrections of a KB, and reads them again when they have changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: tuple[str | None, Corrections] = (None, Corrections())

    def now(self) -> Corrections:
        """The corrections that the KB has at this moment. Unchanged ones cost one look-up."""
        state = self._setting(_STATE)
        known, corrections = self._read
        if state != known:
            with self._store.reading():
                content = self._setting(_CONTENT)
                corrections = Corrections(_parsed(content) if content else ())
            self._read = state, corrections
        return corrections

    def _setting(self, name: str) -> str | None:
        query = "SELECT value FROM setting WHERE name = ?"
        rows = self._store.read(query, name, make=stored_text)
        return rows[0] if rows else None


def change_corrections(
    path: str | Path, change: Callable[[list[Decision], int], Iterable[Decision]]
) -> list[Decision]:
    """Replace the corrections of a KB in one transaction, and return the new ones.

    ``change`` gets the present ones and the lowest number that was never used, and gives what takes
    their place. PelError if there is no KB, or another process is writing to it.
    """
    with writing(path) as opened:
        get = "SELECT value FROM setting WHERE name = ?"
        found = opened.database.execute(get, (_CONTENT,)).fetchone()
        next_number, present = 1, []
        if found:
            present, next_number = _parsed(found[0]), json.loads(found[0])["next"]
        decisions = list(change(present, next_number))
        following = max([next_number, *(decision.number + 1 for decision in decisions)])
        content = json.dumps(
            {"next": following, "decisions": [_as_data(each) for each in decisions]}
        )
        state = hashlib.sha256(content.encode()).hexdigest()
        old = opened.settings["checksum"]
        with opened.transaction():
            rows = [(_CONTENT, content), (_STATE, state)]
            opened.database.executemany("INSERT OR REPLACE INTO setting VALUES (?, ?)", rows)
            opened.note(state)
        keep_names(opened, old)
    return decisions


def undo(path: str | Path, numbers: Iterable[int] | None = None) -> list[Decision]:
    """Take the corrections with these numbers, or all, out of a KB; returns what was taken out.

    PelError if it has none of a number, or as of ``change_corrections``.
    """
    gone: list[Decision] = []

    def without(present: list[Decision], _: int) -> list[Decision]:
        known = [decision.number for decision in present]
        wanted = set(known if numbers is None else numbers)
        if unknown := sorted(wanted.difference(known)):
            has = ", ".join(map(str, known)) or "none"
            raise PelError(f"{path}: has no correction {unknown[0]}", f"its corrections: {has}")
        gone.extend(decision for decision in present if decision.number in wanted)
        return [decision for decision in present if decision.number not in wanted]

    change_corrections(path, without)
    return gone


def name_key(name: str) -> str:
    """A name as corrections compare it: without case, punctuation and British spelling."""
    return american(normalised(name))


def text_digest(text: str) -> str:
    """By what a text is known again: texts of patients are not kept."""
    return hashlib.sha256(text.encode("utf8", "surrogatepass")).hexdigest()[:32]


def _as_data(decision: Decision) -> dict[str, Any]:
    return {**decision._asdict(), "words": list(decision.words.items())}


def _parsed(content: str) -> list[Decision]:
    """The decisions of the setting; ValueError or TypeError if they are none."""
    decisions = []
    for data in json.loads(content)["decisions"]:
        words = {int(hash): float(weight) for hash, weight in data["words"]}
        decision = Decision(**{**data, "words": words})
        for text in (decision.name, decision.concept_id, decision.label, decision.quote):
            stored_text(text)
        if decision.scope not in SCOPES:
            raise ValueError(f"a correction with the scope {decision.scope!r}")
        decisions.append(decision)
    return decisions
