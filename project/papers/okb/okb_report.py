"""What was taken out of a KB, and whether it is like the rest: counts, tables and warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from statistics import mean, median
from typing import Any

from spacy_pel.evaluation.markdown_table import markdown_table
from spacy_pel.kb import KnowledgeBase

from .census import Census, split_statistics

TRAIN = "train"
_AT_ONCE = 1_000  # entities read together
# The shares of SplitStatistics, and their names.
SHARES = {
    "entities_seen": "entities seen in train",
    "mentions_seen": "mentions of entities seen in train",
    "forms_seen": "distinct surface forms that are in train",
}


def report_of(
    kb: KnowledgeBase,
    censuses: Mapping[str, Census],
    types: Sequence[str],
    of_types: Collection[str],
    taken: Collection[str],
    *,
    tolerance: float,
    seed: int,
) -> dict[str, Any]:
    """The report on a data set, as plain data that is ready for JSON.

    For each split it has ``SplitStatistics`` of three sets of mentions: "okb", those that become
    NIL; "of_types", all mentions of entities of the types, even if the entity stays in the KB; and
    "whole", all mentions that had an entity in the KB before.

    Args:
        kb: The KB before.
        censuses: The census of each split.
        types: The types that were asked for.
        of_types: The entities of the types.
        taken: The entities that are taken out.
        tolerance: The largest difference of shares that gives no warning, from 0 to 1.
        seed: The seed of the choice, for the record.
    """
    train = censuses[TRAIN]
    mentioned = set().union(*(census.entities for census in censuses.values()))
    report: dict[str, Any] = {
        "kb": str(kb.path),
        "kb_entities": {"before": len(kb), "after": len(kb) - len(taken)},
        "types": list(types),
        "tolerance": tolerance,
        "seed": seed,
        "entities": {
            "of_types": len(of_types),
            "taken_out": len(taken),
            "taken_out_and_mentioned": len(mentioned.intersection(taken)),
            "kept_in_line": len(of_types) - len(taken),
        },
        "splits": {
            name: {
                "documents": census.documents,
                "mentions": census.mentions,
                "without_entity_in_kb": census.mentions - sum(census.kinds.values()),
                "okb": split_statistics(census, train, taken)._asdict(),
                "of_types": split_statistics(census, train, of_types)._asdict(),
                "whole": split_statistics(census, train)._asdict(),
            }
            for name, census in censuses.items()
        },
        "mentions_by_type": _mentions_by_type(kb, censuses, taken),
        "descriptions": {
            "okb": _descriptions(kb, mentioned.intersection(taken)),
            "whole": _descriptions(kb, mentioned),
        },
    }
    return {**report, "warnings": _warnings(report)}


def markdown(report: Mapping[str, Any]) -> str:
    """A report as Markdown: the counts of the paper's Table 7, and the shares that should agree."""
    splits = report["splits"].values()
    header = ["", *report["splits"]]
    table_7 = [
        ["Mentions", *(f"{split['okb']['mentions']:,}" for split in splits)],
        ["Entities", *(f"{split['okb']['entities']:,}" for split in splits)],
        ["% Entities seen", *(_percent(split["okb"]["entities_seen"]) for split in splits)],
    ]
    shares = [
        [
            title[0].upper() + title[1:],
            *(f"{_percent(s['okb'][field])} / {_percent(s['whole'][field])}" for s in splits),
        ]
        for field, title in SHARES.items()
    ]
    both = [report["descriptions"][which] for which in ("okb", "whole")]
    descriptions = [
        ["Entities", *(f"{of['entities']:,}" for of in both)],
        ["% with a description", *(_percent(of["described"]) for of in both)],
        ["Words, mean", *(_one_decimal(of["mean"]) for of in both)],
        ["Words, median", *(_one_decimal(of["median"]) for of in both)],
    ]
    parts = [
        "Mentions out of the KB (Table 7)",
        markdown_table(header, table_7),
        "Seen in train, in % (out of the KB / all with an entity in it)",
        markdown_table(header, shares),
        "Descriptions of the mentioned entities",
        markdown_table(["", "out of the KB", "whole"], descriptions),
    ]
    return "\n\n".join(parts) + "\n"


def _mentions_by_type(
    kb: KnowledgeBase, censuses: Mapping[str, Census], taken: Collection[str]
) -> dict[str, dict[str, int]]:
    """The number of mentions that become NIL, by semantic type and split."""
    counts: dict[str, Counter[str]] = {}
    for name, census in censuses.items():
        for kind, count in census.without(taken):
            for type in kb[kind.entities[0]].types:
                counts.setdefault(type, Counter())[name] += count
    return {type: {name: counts[type][name] for name in censuses} for type in sorted(counts)}


def _descriptions(kb: KnowledgeBase, ids: Collection[str]) -> dict[str, Any]:
    """The share of the entities that have a definition, and how many words these have."""
    numbers = [kb.number(id) for id in sorted(ids)]
    words = [
        len(entity.definition.split())
        for start in range(0, len(numbers), _AT_ONCE)
        for entity in kb.entities(numbers[start : start + _AT_ONCE])
        if entity.definition
    ]
    return {
        "entities": len(numbers),
        "described": len(words) / len(numbers) if numbers else None,
        "mean": mean(words) if words else None,
        "median": median(words) if words else None,
    }


def _warnings(report: Mapping[str, Any]) -> list[str]:
    tolerance = report["tolerance"]
    warnings = []
    for name, split in report["splits"].items():
        if not split["okb"]["mentions"]:
            warnings.append(f"{name}: no mention is taken out of the KB")
        elif name != TRAIN:
            for field, title in SHARES.items():
                warnings += _difference(f"{name}: {title}", split, field, tolerance)
    described = {key: of["described"] for key, of in report["descriptions"].items()}
    if None not in described.values():
        pair = {key: {"described": share} for key, share in described.items()}
        warnings += _difference("entities with a description", pair, "described", tolerance)
    return warnings


def _difference(
    what: str, pair: Mapping[str, Mapping[str, Any]], field: str, tolerance: float
) -> list[str]:
    """A warning where a share of what is out of the KB differs from that of the whole."""
    okb, whole = pair["okb"][field], pair["whole"][field]
    if abs(okb - whole) <= tolerance:
        return []
    return [
        f"{what}: {_percent(okb)} % of what is out of the KB, {_percent(whole)} % of the whole, "
        f"which is more than {_percent(tolerance)} points apart"
    ]


def _percent(share: float | None) -> str:
    return _one_decimal(None if share is None else 100 * share)


def _one_decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
