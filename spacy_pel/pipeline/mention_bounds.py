"""Correct the bounds of recognised mentions: by the names of a KB, and by the abbreviations of the text."""

import re
from collections.abc import Mapping, Sequence, Set

from ..models.bio_tags import Tagged

# Words before or behind a name that corpora do not count as part of a mention.
_MODIFIER = "|".join(
    """
    absent active acute advanced baseline bilateral chronic diffuse focal hx incidental
    intravenous iv large left localized major massive mild minor moderate new occasional oral
    persistent po possible prior probable progressive prophylaxis recent recurrent resolved
    right seropositive severe significant small stable subcutaneous subtle suspected tiny
    topical transient upper worsening
    """.split()
)
_BEFORE = re.compile(rf"(?:(?:{_MODIFIER})\s+)*", re.IGNORECASE)
_BEHIND = re.compile(rf"(?:\s+(?:{_MODIFIER}|\d[\d.,%/]*))*\s*", re.IGNORECASE)
_BETWEEN = re.compile(rf"\s*(?:[,;]|\sand\s|\s-\s)\s*{_BEFORE.pattern}", re.IGNORECASE)
# No mention begins with one of the first or ends with one of the second.
_NOT_FIRST, _NOT_LAST = " ,;:/)]}", " ,;:/([{"


def with_names(
    text: str,
    mentions: Sequence[Tagged],
    names: Sequence[Tagged],
    listed: Set[str],
    add_all: bool,
) -> list[Tagged]:
    """Return the mentions in a text, and its names that overlap none: those listed, or all.

    A listed name replaces the mentions inside it: "calcium channel blockers" replaces "calcium".
    """
    found = list(mentions)
    for name in names:
        start, end, _ = name
        is_listed = text[start:end].lower() in listed
        if not (is_listed or add_all):
            continue
        if is_listed:
            found = [m for m in found if not (start <= m[0] and m[1] <= end)]
        if not any(start < m[1] and m[0] < end for m in found):
            found.append(name)
    return found


def without_modifiers(
    text: str, mentions: Sequence[Tagged], names: Sequence[Tagged]
) -> list[Tagged]:
    """Return the mentions in a text, without modifiers, numbers and separators that are part of no name.

    "Small right pleural effusion" becomes "pleural effusion", and "nausea, vomiting" becomes two mentions.
    A mention with any other word beside its names keeps its words. ``names`` are the unambiguous names in
    the text.
    """
    trimmed = []
    for start, end, label in mentions:
        end = start + len(text[start:end].rstrip(_NOT_LAST))
        start = end - len(text[start:end].lstrip(_NOT_FIRST))
        inside = [n for n in names if start <= n[0] and n[1] <= end and n[2] == label]
        kept: list[Tagged] = []
        for name in sorted(inside, key=lambda name: (name[0] - name[1], name)):  # the longest first
            if not any(name[0] < other[1] and other[0] < name[1] for other in kept):
                kept.append(name)
        kept.sort()
        if (
            kept
            and _BEFORE.fullmatch(text, start, kept[0][0])
            and _BEHIND.fullmatch(text, kept[-1][1], end)
            and all(_BETWEEN.fullmatch(text, a[1], b[0]) for a, b in zip(kept, kept[1:]))
        ):
            trimmed += kept
        elif start < end:
            trimmed.append((start, end, label))
    return trimmed


def with_first_words(mentions: Sequence[Tagged], names: Sequence[Tagged]) -> list[Tagged]:
    """Return the mentions in a text. One at the end of a longer name of its label becomes that name.

    "Gender dysphoria" replaces "dysphoria", but "dopamine receptor" does not replace "dopamine", which is no
    kind of it. A name that another mention touches replaces none.

    Args:
        mentions: The mentions, in order.
        names: The unambiguous names in the text.
    """
    longest = {(end, label): start for start, end, label in sorted(names, reverse=True)}
    completed = []
    before = 0  # the end of the last mention
    for start, end, label in mentions:
        first = longest.get((end, label), start)
        completed.append((first if before <= first < start else start, end, label))
        before = end
    return completed


def as_defined(
    text: str, mentions: Sequence[Tagged], long_forms: Mapping[str, str]
) -> list[Tagged]:
    """Return the mentions in a text, without abbreviations whose long form does not end with a mention.

    In "von Hippel-Lindau tumor suppressor gene (VHL)" the last word is in no mention, so VHL is none.
    """
    others = set()
    for short, long in long_forms.items():
        end = text.find(long) + len(long)
        if end >= len(long) and not any(start < end <= last for start, last, _ in mentions):
            others.add(short)
    return [mention for mention in mentions if text[mention[0] : mention[1]] not in others]
