"""What the tests of blocks link, and how they look at what comes of it."""

from __future__ import annotations

from pathlib import Path

TEXTS = [f"Case {n}: the patient has MS." for n in range(5)]


def files(folder: Path) -> dict[str, bytes]:
    found = {path.name.removesuffix(".jsonl"): path for path in folder.iterdir() if path.is_file()}
    return {name: found[name].read_bytes() for name in sorted(found)}
