from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.errors import PelError
from spacy_pel.kb.readers import sssom
from spacy_pel.kb.readers.sssom import mapping_version, read_mapping

HEAD = (
    "# curie_map:\n#   UMLS: http://umls/\n# mapping_set_version: 2026-08-04\n"
    "subject_id\tsubject_label\tpredicate_id\tpredicate_modifier\tobject_id\n"
)


def table(folder: Path, *rows: tuple[str, str, str, str], name: str = "m.sssom.tsv") -> Path:
    lines = [f"{s}\tlabel\tskos:{p}\t{modifier}\t{o}\n" for s, p, modifier, o in rows]
    data = (HEAD + "".join(lines)).encode()
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["m.sssom.tsv", "m.sssom.tsv.gz"])
def test_exact_matches_without_the_prefix_of_umls(tmp_path: Path, name: str) -> None:
    path = table(
        tmp_path,
        ("MONDO:1", "exactMatch", "", "UMLS:C0012634"),
        ("MONDO:2", "broadMatch", "", "UMLS:C0000002"),
        ("MONDO:3", "exactMatch", "Not", "UMLS:C0000003"),
        ("MESH:D000001", "exactMatch", "", "DOID:4"),
        name=name,
    )
    assert read_mapping([path]) == {"MONDO:1": "C0012634", "D000001": "DOID:4"}
    assert read_mapping([path], ("skos:broadMatch",)) == {"MONDO:2": "C0000002"}
    assert mapping_version(path) == "2026-08-04"


def test_tables_are_taken_together(tmp_path: Path) -> None:
    first = table(tmp_path, ("A:1", "exactMatch", "", "B:1"), name="1.tsv")
    second = table(
        tmp_path,
        ("A:1", "exactMatch", "", "C:1"),
        ("D:1", "exactMatch", "", "C:1"),
        ("B:1", "exactMatch", "", "A:1"),
        name="2.tsv",
    )
    assert read_mapping([first, second]) == {"A:1": "B:1", "C:1": "B:1", "D:1": "B:1"}


@given(st.lists(st.tuples(st.sampled_from("abcdefg"), st.sampled_from("abcdefg")), max_size=12))
def test_linked_ids_lead_to_one_end(pairs: list[tuple[str, str]]) -> None:
    mapping: dict[str, str] = {}
    shortcuts: dict[str, str] = {}
    groups = {id: {id} for id in "abcdefg"}
    for subject, object in pairs:
        sssom._link(mapping, shortcuts, subject, object)
        union = groups[subject] | groups[object]
        groups.update(dict.fromkeys(union, union))
    for id, group in groups.items():
        assert {sssom._end({**mapping}, member) for member in group} == {
            sssom._end({**mapping}, id)
        }
        assert sssom._end({**mapping}, id) in group
        assert sssom._end(shortcuts, id) == sssom._end({**mapping}, id)


@pytest.mark.parametrize(
    "text, fault",
    [
        ("subject_id\tobject_id\n", "line 1: no column predicate_id"),
        (f"{HEAD}A:1\tx\tskos:exactMatch\n", "line 5: 3 columns, where the header has 5"),
        (f"{HEAD}A:1\tx\tskos:exactMatch\t\tC1\n", "line 5: 'C1' is not a CURIE"),
        (f"{HEAD}\tx\tskos:exactMatch\t\tB:1\n", "line 5: '' is not a CURIE"),
        (f"{HEAD}A:1\tx\tskos:exactMatch\t\tB:1\x012\n", "line 5: the id .* control characters"),
        (f"{HEAD}A:1\tx\tskos:exactMatch\t\tB:{'1' * 1000}\n", "line 5: the id .* has 1,002 char"),
        (f"{HEAD}A:1\t{'x' * 200_000}\tskos:exactMatch\t\tB:1\n", "line 5: field larger than"),
    ],
)
def test_a_bad_table_is_named(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "m.sssom.tsv").write_text(text)
    with pytest.raises(PelError, match=rf"m\.sssom\.tsv, {fault}"):
        read_mapping([tmp_path / "m.sssom.tsv"])
