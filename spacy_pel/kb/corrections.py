"""Corrections: people's decisions about names, each with an entity or NIL, and a scope.

A KB stores its few corrections as one setting. An open KB sees changes without ``refresh``, because
corrections name entities by concept id.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ..errors import PelError
from .records.names import american, normalised
from .store import Store, stored_text
from .transaction import keep_names, writing

ALWAYS, LABEL, TEXT = SCOPES = ("always", "label", "text")
_CONTENT, _STATE = "corrections", "state of the corrections"  # names of settings


class Decision(NamedTuple):
    """A correction as a KB stores it.

    Attributes:
        number: The number to undo it by.
        name: The text of the mention.
        concept_id: The id of the entity, or "NIL".
        scope: ALWAYS, LABEL (mentions with ``label``) or TEXT (the same text and similar texts).
        label: A label of mentions; "" unless the scope is LABEL.
        quote: The mention in its text, for display; like the following only if the scope is TEXT.
        digest: The digest of the text (``text_digest``).
        start: The first character of the mention in the text.
        words: From hashes of the words of the text to their weights; see
            ``linking.apply_corrections.weighted_words``.
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
        """The subject. A later decision with the same key replaces this one."""
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
        """Return the decisions about these names, in the order of the names, oldest first."""
        keys = dict.fromkeys(map(name_key, names))
        return [decision for key in keys for decision in self._by_name.get(key, ())]


class LiveCorrections:
    """Read the corrections of a KB, again whenever they have changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: tuple[list[str], Corrections] = ([], Corrections())

    def now(self) -> Corrections:
        """Return the current corrections. If they are unchanged, this costs one look-up."""
        query = "SELECT value FROM setting WHERE name = ?"
        state = self._store.read(query, _STATE, make=stored_text)
        known, corrections = self._read
        if state != known:
            with self._store.reading():
                content = self._store.read(query, _CONTENT, make=stored_text)
                corrections = Corrections(_parsed(content[0]) if content else ())
            self._read = state, corrections
        return corrections


def change_corrections(
    path: str | Path, change: Callable[[list[Decision], int], Iterable[Decision]]
) -> list[Decision]:
    """Replace the corrections of a KB in one transaction, and return the new ones.

    ``change`` receives the present corrections and the lowest unused number, and returns the new ones.

    Raises:
        PelError: There is no KB, or another process is writing to it.
    """
    with writing(path) as opened:
        get = "SELECT value FROM setting WHERE name = ?"
        row = opened.database.execute(get, (_CONTENT,)).fetchone()
        present = _parsed(row[0]) if row else []
        next_number = json.loads(row[0])["next"] if row else 1
        decisions = list(change(present, next_number))
        following = max([next_number, *(decision.number + 1 for decision in decisions)])
        data = [{**d._asdict(), "words": list(d.words.items())} for d in decisions]
        content = json.dumps({"next": following, "decisions": data})
        state = hashlib.sha256(content.encode()).hexdigest()
        old = opened.settings["checksum"]
        with opened.transaction():
            rows = [(_CONTENT, content), (_STATE, state)]
            opened.database.executemany("INSERT OR REPLACE INTO setting VALUES (?, ?)", rows)
            opened.note(state)
        keep_names(opened, old)
    return decisions


def undo(path: str | Path, numbers: Iterable[int] | None = None) -> list[Decision]:
    """Remove the corrections with these numbers, or all, from a KB, and return them.

    Raises:
        PelError: A number is unknown, or ``change_corrections`` raises it.
    """
    removed: list[Decision] = []

    def without(present: list[Decision], _: int) -> list[Decision]:
        known = [decision.number for decision in present]
        wanted = set(known if numbers is None else numbers)
        if unknown := sorted(wanted.difference(known)):
            numbers_known = ", ".join(map(str, known)) or "none"
            remedy = f"its corrections: {numbers_known}"
            raise PelError(f"{path}: has no correction {unknown[0]}", remedy)
        removed.extend(decision for decision in present if decision.number in wanted)
        return [decision for decision in present if decision.number not in wanted]

    change_corrections(path, without)
    return removed


def name_key(name: str) -> str:
    """Return the form in which corrections compare names: without case, punctuation, and British spelling."""
    return american(normalised(name))


def text_digest(text: str) -> str:
    """Return a digest that identifies a text, because the KB must not store texts of patients."""
    return hashlib.sha256(text.encode("utf8", "surrogatepass")).hexdigest()[:32]


def _parsed(content: str) -> list[Decision]:
    """Return the decisions of the setting; ValueError or TypeError if it is malformed."""
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
