"""Real ontologies: each is built and counted in two ways, then four are merged by SSSOM mappings.

    python benchmarks/kb_scale/ontologies.py DATA

DATA is the folder that ``project/project.yml`` calls ``data``. The second count does not use the
readers: it reads the lines of the files by the rules of ``counted_*`` below. Tables and examples are
printed as Markdown.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from spacy_pel.kb import KnowledgeBase, build_kb, open_source
from spacy_pel.kb.readers.sssom import read_mapping
from spacy_pel.kb.records.merging import merged

MERGED = ("doid", "hp", "ordo", "uberon_subsets")
SSSOM = "ontologies/mondo_exactmatch_umls.sssom.tsv.gz"
EXAMPLES = 12

Counts = tuple[int, int, int]  # entities, synonyms, definitions


def lines_of(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8-sig", newline="\n") as file:
        for line in file:
            yield line.rstrip("\r\n")


def printed(text: str) -> str:
    """A text as a KB keeps it: control characters become blanks, and the ends are stripped."""
    return re.sub("[\x00-\x1f\x7f-\x9f]+", " ", text).strip()


def counted_obo(path: Path) -> Counts:
    """Term frames by id, without the obsolete and those without a name. A synonym is a different
    text between the first two unescaped quotes of a ``synonym:`` line; a further name counts as
    one, where frames of one id have different names."""
    names, synonyms, defined = {}, defaultdict(set), set()
    frame: list[str] = []

    def take() -> None:
        if frame[0] == "[Term]" and "is_obsolete: true" not in frame:
            id = next(line[4:] for line in frame if line.startswith("id: "))
            name = next((line[6:].strip() for line in frame if line.startswith("name: ")), None)
            if name is None:
                return
            name = re.sub(r" ! .*", "", name)
            if names.setdefault(id, name) != name:
                synonyms[id].add(name)
            for line in frame:
                quoted = re.match(r'(synonym|def): "((?:[^"\\]|\\.)*)"', line)
                if quoted and quoted[1] == "synonym":
                    synonyms[id].add(printed(unescaped(quoted[2])))
                elif quoted and quoted[2].strip():
                    defined.add(id)

    for line in lines_of(path):
        if line.startswith("["):
            if frame:
                take()
            frame = [line]
        elif frame and line:
            frame.append(line)
    take()
    return len(names), sum(map(len, synonyms.values())), len(defined)


def unescaped(text: str) -> str:
    """Without OBO's backslashes: \\n, \\t, \\W are white space, others stand for what follows."""
    return re.sub(r"\\(.)", lambda match: " " if match[1] in "ntW" else match[1], text)


def counted_mesh(path: Path) -> Counts:
    """Lines ``UI =``, ``ENTRY =`` (no entry twice in a record), and ``MS =`` with a text."""
    counts: Counter[str] = Counter()
    entries: set[str] = set()
    for line in lines_of(path):
        element, _, value = line.partition(" =")
        if element == "*NEWRECORD":
            entries = set()
        elif element == "ENTRY" and value.strip() not in entries:
            entries.add(value.strip())
            counts[element] += 1
        elif element in ("UI", "MS"):
            counts[element] += bool(value.strip())
    return counts["UI"], counts["ENTRY"], counts["MS"]


def counted_jsonl(path: Path) -> Counts:
    """Lines, different aliases of each, definitions that are not null or empty."""
    records = [json.loads(line) for line in lines_of(path)]
    aliases = sum(len({printed(alias) for alias in record["aliases"]}) for record in records)
    return len(records), aliases, sum(bool(record["definition"]) for record in records)


def sources_of(data: Path) -> dict[Path, Callable[[Path], Counts]]:
    ontologies = data / "ontologies"
    return {
        **dict.fromkeys(sorted(ontologies.glob("*.obo.gz")), counted_obo),
        **dict.fromkeys(sorted(ontologies.glob("*_d[0-9]*.bin.gz")), counted_mesh),
        **dict.fromkeys(sorted((data / "kb").glob("*.jsonl.gz")), counted_jsonl),
    }


def counts_of(kb: KnowledgeBase) -> Counts:
    counts = kb.settings["counts"]
    return counts["entities"], counts["aliases"], counts["definitions"]


def built_table(data: Path, scratch: Path) -> None:
    print("| source | entities | synonyms | definitions | lines of the file say | seconds |")
    print("|---|---:|---:|---:|---|---:|")
    for path, counted in sources_of(data).items():
        start = time.perf_counter()
        source = open_source(path)
        name = path.name.partition(".")[0]
        with build_kb(source.entities, scratch / name, types=source.types) as kb:
            built = counts_of(kb)
        seconds = time.perf_counter() - start
        expected = counted(path)
        verdict = "the same" if built == expected else " / ".join(f"{n:,}" for n in expected)
        cells = [f"{count:,}" for count in built]
        print(f"| {path.name} | {' | '.join(cells)} | {verdict} | {seconds:.1f} |")


def merged_table(data: Path, scratch: Path) -> None:
    mapping = read_mapping([data / SSSOM])
    print(f"\n{len(mapping):,} ids in the mapping.\n")
    print("| merged | records read | entities | joined records | of two sources | three | four |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for title, by_xref in (("by id and mapping", False), ("by cross-references too", True)):
        sources = [open_source(scratch / name).entities for name in MERGED]
        read = sum(len(KnowledgeBase.open(scratch / name)) for name in MERGED)
        kb = build_kb(merged(sources, mapping, by_xref=by_xref), scratch / f"merged-{by_xref}")
        joined = [entity for entity in kb if len(entity.sources) > 1]
        sizes = Counter(len(entity.sources) for entity in joined)
        cells = [read, len(kb), len(joined), sizes[2], sizes[3], sizes[4]]
        print(f"| {title} | {' | '.join(f'{cell:,}' for cell in cells)} |")
    print(f"\nEvery {len(joined) // EXAMPLES}th joined record, with the name in each source:\n")
    opened = [KnowledgeBase.open(scratch / name) for name in MERGED]
    for entity in joined[:: len(joined) // EXAMPLES][:EXAMPLES]:
        members = [
            f"{id} {kb[id].canonical_name}"
            for kb in opened
            for id in entity.alt_ids
            if id in kb and kb[id].concept_id == id
        ]
        print(f"- {entity.concept_id}: {'; '.join(members)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    with tempfile.TemporaryDirectory() as scratch:
        built_table(data, Path(scratch))
        merged_table(data, Path(scratch))


if __name__ == "__main__":
    main()
