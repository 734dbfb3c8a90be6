"""Seconds and memory of each reader over the size of what it reads, hostile shapes included.

    python benchmarks/reading.py [WORD ...] [--factor 1]

Reads each shape whose name holds one of the words in four sizes, each twice the one before. Every
reading is a process of its own, forked from one that has imported everything. Prints the seconds of
CPU, the memory that was needed beyond that, and the exponent of the last doubling: 1 is a straight
line, 2 a square. Ends with 1 if a line bends (an exponent above 1.4).
"""

from __future__ import annotations

import gc
import gzip
import json
import math
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import duckdb
import fastobo  # noqa: F401  (imported before the processes are forked)
import spacy
import typer
from spacy.tokens import DocBin

from spacy_pel.documents import Document, make_doc, open_documents
from spacy_pel.documents.document import mention_at
from spacy_pel.errors import PelError
from spacy_pel.evaluation.markdown_table import markdown_table
from spacy_pel.kb.readers import open_source
from spacy_pel.kb.readers.sssom import read_mapping
from spacy_pel.pipeline.extensions import install_extensions

BENDS = 1.4
NLP = spacy.blank("en")
install_extensions()


class Shape(NamedTuple):
    """What is read.

    Attributes:
        name: What it is.
        file: The name of the file or folder.
        make: Writes it: takes its path and a number of records.
        read: Reads it.
        records: The smallest number of records.
    """

    name: str
    file: str
    make: Callable[[Path, int], object]
    read: Callable[[Path], object]
    records: int


def entities(path: Path) -> None:
    for _ in open_source(path).entities:
        pass


def mapping(path: Path) -> None:
    read_mapping([path])


def documents(path: Path) -> None:
    for raw in open_documents(str(path)):
        try:
            raw.document()
        except PelError:
            pass


def tokens(path: Path) -> None:
    for raw in open_documents(str(path)):
        with NLP.memory_zone():
            raw.doc(NLP, "mentions")


def spacys_tokens(path: Path) -> None:
    for line in path.read_text("utf8").splitlines():
        NLP.make_doc(line)


def lines(head: str, line: Callable[[int], str], tail: str = "") -> Callable[[Path, int], None]:
    """Writes a file: head, a line for each number, and tail. Packed if its name ends in ".gz"."""

    def make(path: Path, n: int) -> None:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "wt", encoding="utf8", newline="\n") as file:
            file.write(head)
            file.writelines(map(line, range(n)))
            file.write(tail)

    return make


def in_folder(**files: Callable[[int], str]) -> Callable[[Path, int], None]:
    """Writes a folder of such files; "_" in a name is a dot."""

    def make(path: Path, n: int) -> None:
        path.mkdir()
        for name, line in files.items():
            lines("", line)(path / name.replace("_", "."), n)

    return make


def zeshel(path: Path, n: int) -> None:
    for name in ("mentions", "documents"):
        (path / name).mkdir(parents=True)
    lines("", lambda i: json.dumps(ZESHEL_MENTION | {"context_document_id": f"d{i}"}) + "\n")(
        path / "mentions" / "val.json", n
    )
    lines("", zeshel_document)(path / "documents" / "world.json", n)


def docbin(doc: Callable[[int], Document]) -> Callable[[Path, int], None]:
    def make(path: Path, n: int) -> None:
        docs = (make_doc(NLP, doc(i), "mentions") for i in range(n))
        DocBin(store_user_data=True, docs=docs).to_disk(path)

    return make


def one_docbin(path: Path, n: int) -> None:
    docbin(lambda _: Document(TEXT * n, mentions=tuple(marked(TEXT * n, n))))(path, 1)


def parquet(query: str) -> Callable[[Path, int], object]:
    """Writes what an SQL query of a number gives."""
    return lambda path, n: duckdb.sql(query.format(n=n)).write_parquet(str(path))


def marked(text: str, n: int, step: int = 0) -> list:
    """A mention in each of n equal parts of a text."""
    step = step or len(text) // n
    return [mention_at(text, step * i + 4, step * i + 6, "D") for i in range(n)]


def zeshel_document(i: int) -> str:
    text = f"title {i} " + "word " * 300 + TEXT
    return json.dumps({"document_id": f"d{i}", "title": f"title {i}", "text": text}) + "\n"


def one_jsonl(path: Path, n: int) -> None:
    mentions = [{"start": m.start, "end": m.end} for m in marked(TEXT * n, n)]
    path.write_text(json.dumps({"text": TEXT * n, "mentions": mentions}))


def inside_tokens(path: Path, n: int) -> None:
    mentions = [{"start": 4 * i + 1, "end": 4 * i + 2} for i in range(n)]
    path.write_text(json.dumps({"text": "abc " * n, "mentions": mentions}))


def one_pubtator(path: Path, n: int) -> None:
    rows = "".join(f"1\t{m.start}\t{m.end}\tMS\tD\tD1\n" for m in marked(TEXT * n, n))
    path.write_text(f"1|t|{TEXT * n}\n{rows}")


def conso(i: int, cui: str, name: str) -> str:
    return f"{cui}|ENG|P|L1|PF|S1|Y|A{i}||S9||MSH|MH|D{i}|{name}|0|N|256|\n"


TEXT = "Her MS relapsed in May, and she was given interferon for her fatigue. "
ZESHEL_MENTION = {
    **{"corpus": "world", "text": "MS", "category": "LOW", "label_document_id": "d1"},
    **{"start_index": 303, "end_index": 303},
}
ROW = "concept_id,canonical_name,aliases,definition\n"
CTD = (
    "# DiseaseName\tDiseaseID\tAltDiseaseIDs\tDefinition\tParentIDs\tTreeNumbers\tParentTreeNumbers"
    "\tSynonyms\tSlimMappings\n"
)
OWL = (
    '<?xml version="1.0"?>\n<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:owl="http://www.w3.org/2002/07/owl#" '
    'xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">\n'
)
OWL_CLASS = (
    '<owl:Class rdf:about="http://purl.obolibrary.org/obo/X_{0}"><rdfs:label>name {0}</rdfs:label>'
    "</owl:Class>\n"
)
EXACT = "subject_id\tpredicate_id\tobject_id\n"
TERM = (
    '[Term]\nid: X:{0}\nname: name {0}\ndef: "A disease {0}." [PMID:1]\nsynonym: "s{0}" EXACT []\n'
)
MESH = "*NEWRECORD\nUI = D{0}\nMH = {1}\nMN = C01.{0}\nENTRY = entry {0}|T047\nMS = A note.\n"
DESCRIPTOR = (
    "<DescriptorRecord><DescriptorUI>D{0}</DescriptorUI><DescriptorName><String>name {0}</String>"
    "</DescriptorName><TreeNumberList><TreeNumber>C{1}</TreeNumber></TreeNumberList><ConceptList>"
    "<Concept PreferredConceptYN='Y'><TermList>{2}</TermList></Concept></ConceptList>"
    "</DescriptorRecord>\n"
)
TERM_XML = "<Term><String>term {0}</String></Term>"
BIOC = (
    "<document><id>{0}</id><passage><offset>0</offset><text>" + TEXT + "</text>{1}</passage>"
    "</document>\n"
)
ANNOTATION = (
    "<annotation><infon key='identifier'>D1</infon><location offset='4' length='2'/>"
    "<text>MS</text></annotation>"
)
PASSAGE = {"offset": 0, "text": TEXT, "infons": {}}
PLACED = {"locations": [{"offset": 4, "length": 2}], "text": "MS", "infons": {"identifier": "D1"}}
HEAD, TAIL = "<collection>", "</collection>"

KB = [
    Shape("RRF", "umls", in_folder(MRCONSO_RRF=lambda i: conso(i, f"C{i // 3}", f"name {i}"),
          MRSTY_RRF=lambda i: f"C{i // 3}|T047|B2|Disease|AT1|256|\n"), entities, 20_000),
    Shape("RRF, names of one CUI", "umls", in_folder(MRCONSO_RRF=lambda i: conso(i, "C1", f"n{i}")),
          entities, 20_000),
    Shape("RRF, a chain of parents", "umls", in_folder(
        MRCONSO_RRF=lambda i: conso(i, f"C{i}", f"n{i}"),
        MRREL_RRF=lambda i: f"C{i}|A1|AUI|PAR|C{i + 1}|A2|AUI||R1||MSH|MSH|||N||\n"),
          entities, 20_000),
    Shape("JSONL", "a.jsonl", lines("", lambda i: json.dumps({"concept_id": f"C{i}",
          "canonical_name": f"name {i}", "aliases": [f"a{i}", f"b{i}"]}) + "\n"), entities, 10_000),
    Shape("JSONL, aliases of one entity", "a.jsonl", lines(
          '{"concept_id": "C1", "canonical_name": "x", "aliases": ["x"',
          lambda i: f', "alias {i}"', "]}"), entities, 50_000),
    Shape("CSV", "a.csv", lines(ROW, lambda i: f"C{i},name {i},a{i}|b{i},A disease\n"),
          entities, 10_000),
    Shape("TSV, packed", "a.tsv.gz", lines(ROW.replace(",", "\t"),
          lambda i: f"C{i}\tname {i}\ta{i}|b{i}\tA disease\n"), entities, 10_000),
    Shape("CSV, rows of one id", "a.csv", lines(ROW, lambda i: f"C1,name {i},a{i},\n"),
          entities, 10_000),
    Shape("CSV, columns", "a.csv", lines("concept_id,canonical_name", lambda i: f",c{i}", "\n"),
          entities, 2_000),
    Shape("Parquet table", "a.parquet", parquet("SELECT 'C' || i AS concept_id, 'name ' || i AS "
          "canonical_name, ['a' || i] AS aliases FROM range({n}) t(i)"), entities, 20_000),
    Shape("Parquet table, one long text", "a.parquet", parquet("SELECT 'C' || i AS concept_id, "
          "'x' AS canonical_name, repeat('word ', 20000) AS definition FROM range({n}) t(i)"),
          entities, 250),
    Shape("OBO", "a.obo", lines("format-version: 1.4\n", TERM.format), entities, 2_000),
    Shape("OBO, frames of one id", "a.obo",
          lines("", lambda i: f"[Term]\nid: X:1\nname: name {i}\n"), entities, 4_000),
    Shape("OBO, clauses of one frame", "a.obo", lines("[Term]\nid: X:1\nname: x\n",
          lambda i: f'synonym: "s{i}" EXACT []\n'), entities, 5_000),
    Shape("OBO, broken clauses", "a.obo", lines("[Term]\nid: X:1\nname: x\n",
          lambda i: f'synonym: "s{i}" EXACT [\n'), entities, 2_000),
    Shape("OBO, headers", "a.obo", lines("", "tag{0}: x\n".format), entities, 50_000),
    Shape("OBO Graph", "a.json", lines('{"graphs": [{"nodes": [', lambda i: json.dumps({"id":
          f"http://purl.obolibrary.org/obo/X_{i}", "lbl": f"name {i}", "type": "CLASS"}) + ",\n",
          '{"id": "http://purl.obolibrary.org/obo/X_x", "lbl": "x", "type": "CLASS"}]}]}'),
          entities, 5_000),
    Shape("OWL", "a.owl", lines(OWL, lambda i: OWL_CLASS.format(i), "</rdf:RDF>"), entities, 2_000),
    Shape("SSSOM", "a.sssom.tsv", lines(EXACT, "X:{0}\tskos:exactMatch\tY:{0}\n".format),
          mapping, 10_000),
    Shape("SSSOM, a chain", "a.sssom.tsv", lines(EXACT,
          lambda i: f"X:{i}\tskos:exactMatch\tX:{i + 1}\n"), mapping, 10_000),
    Shape("SSSOM, a chain backwards", "a.sssom.tsv", lines(EXACT,
          lambda i: f"X:{10**9 - i}\tskos:exactMatch\tX:{10**9 - i - 1}\n"), mapping, 10_000),
    Shape("MeSH ASCII", "d2024.bin", lines("", lambda i: MESH.format(i, f"name {i}")),
          entities, 5_000),
    Shape("MeSH ASCII, one heading", "d2024.bin", lines("", lambda i: MESH.format(i, "x")),
          entities, 2_000),
    Shape("MeSH ASCII, entries of one record", "d2024.bin", lines(MESH.format(1, "x"),
          "ENTRY = e{0}\n".format), entities, 50_000),
    Shape("MeSH XML", "desc2024.xml", lines("<A>",
          lambda i: DESCRIPTOR.format(i, i, TERM_XML.format(i)), "</A>"), entities, 5_000),
    Shape("MeSH XML, one place", "desc2024.xml", lines("<A>",
          lambda i: DESCRIPTOR.format(i, "01.1", ""), "</A>"), entities, 5_000),
    Shape("MeSH XML, terms of one record", "desc2024.xml", lines(
          "<A>" + DESCRIPTOR.partition("{2}")[0].format(1, 1), TERM_XML.format,
          DESCRIPTOR.partition("{2}")[2] + "</A>"), entities, 20_000),
    Shape("ZESHEL dictionary", "world.json", lines("", zeshel_document), entities, 1_000),
    Shape("MEDIC", "CTD_diseases.tsv", lines(CTD,
          lambda i: f"name {i}\tMESH:D{i}\tOMIM:{i}\t\tMESH:D{i + 1}\t\t\ta{i}|b{i}\t\n"),
          entities, 5_000),
    Shape("MEDIC, rows of one id", "CTD_diseases.tsv", lines(CTD,
          lambda i: f"name {i}\tOMIM:{i}\tMESH:D1\t\t\t\t\t\t\n"), entities, 5_000),
]  # fmt: skip
DOCUMENTS = [
    Shape("text", "a.txt", lines("", lambda i: TEXT + "\n"), tokens, 2_000),
    Shape("JSONL documents", "a.jsonl", lines("", lambda i: json.dumps(
          {"id": i, "text": TEXT, "mentions": [{"start": 4, "end": 6}]}) + "\n"), documents, 10_000),
    Shape("JSONL, mentions of one document", "a.jsonl", one_jsonl, documents, 5_000),
    Shape("JSONL, tokens of that", "a.jsonl", one_jsonl, tokens, 1_000),
    Shape("JSONL, mentions inside tokens", "a.jsonl", inside_tokens, tokens, 1_000),
    Shape("CSV documents", "a.csv", lines("id,text\n", lambda i: f'{i},"{TEXT}"\n'),
          documents, 20_000),
    Shape("CSV, a line of quotes", "a.csv", lines('text\n"', lambda i: '""""\n'), documents, 50_000),
    Shape("PubTator", "a.pubtator", lines("",
          lambda i: f"{i}|t|{TEXT}\n{i}\t4\t6\tMS\tD\tD1\n\n"), documents, 5_000),
    Shape("PubTator, mentions of one document", "a.pubtator", one_pubtator, documents, 5_000),
    Shape("PubTator, relations of one document", "a.pubtator", lines("1|t|x\n",
          "1\tCID\tD{0}\tD1\n".format), documents, 50_000),
    Shape("BioC XML", "a.xml", lines(HEAD, lambda i: BIOC.format(i, ANNOTATION), TAIL),
          documents, 4_000),
    Shape("BioC XML, annotations of one document", "a.xml", lines(
          HEAD + BIOC.partition("{1}")[0].format(1), lambda i: ANNOTATION,
          BIOC.partition("{1}")[2] + TAIL), documents, 5_000),
    Shape("BioC JSON", "a.bioc.json", lines('{"documents": [', lambda i: json.dumps({"id": i,
          "passages": [PASSAGE | {"annotations": [PLACED]}]}) + ",\n", '{"passages": []}]}'),
          documents, 5_000),
    Shape("BioC JSON, annotations of one document", "a.bioc.json", lines(
          '{"documents": [{"passages": [' + json.dumps(PASSAGE)[:-1] + ', "annotations": [',
          lambda i: json.dumps(PLACED) + ",", json.dumps(PLACED) + "]}]}]}"), documents, 10_000),
    Shape("DocBin", "a.spacy", docbin(lambda i: Document(TEXT, i, tuple(marked(TEXT, 1)))),
          documents, 500),
    Shape("DocBin, one document", "a.spacy", one_docbin, documents, 500),
    Shape("Parquet", "a.parquet", parquet(f"SELECT i AS id, '{TEXT}' AS text FROM range({{n}}) t(i)"),
          documents, 20_000),
    Shape("Parquet, one long text", "a.parquet", parquet(
          "SELECT repeat('word ', 20000) AS text FROM range({n}) t(i)"), documents, 500),
    Shape("ZESHEL mentions", "corpus:val", lambda path, n: zeshel(
          path.with_name("corpus"), n), documents, 500),
    Shape("a run of brackets", "a.txt", lines("", lambda i: "(#['"), tokens, 2_000),
    Shape("a run of brackets, by spaCy alone", "a.txt", lines("", lambda i: "(#['"),
          spacys_tokens, 250),
    Shape("base64", "a.txt", lines("", lambda i: f"iVBORw0KGgo{i}AAANSUhEUgAA/+"), tokens, 2_000),
]  # fmt: skip


class Cost(NamedTuple):
    """What a reading took: seconds of CPU, and megabytes beyond those before."""

    seconds: float
    megabytes: float


def cost_of(read: Callable[[Path], object], path: Path) -> Cost:
    """The cost of a reading in a process of its own."""
    begin, end = os.pipe()
    if child := os.fork():
        os.close(end)
        with open(begin) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        return Cost(*json.loads(text))
    try:
        before = resource.getrusage(resource.RUSAGE_SELF)
        read(path)
        after = resource.getrusage(resource.RUSAGE_SELF)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        os.write(end, json.dumps([seconds, (after.ru_maxrss - before.ru_maxrss) / 1024]).encode())
    finally:
        os._exit(0)


def main(
    words: Annotated[
        list[str] | None, typer.Argument(help="Shapes with one of these words")
    ] = None,
    factor: Annotated[float, typer.Option(help="Multiplies all sizes")] = 1,
) -> None:
    """Print a table of seconds and megabytes over size."""
    gc.collect()
    gc.freeze()  # what is imported is not looked through again in each process
    rows, bent = [], []
    for shape in (*KB, *DOCUMENTS):
        if words and not any(word.lower() in shape.name.lower() for word in words):
            continue
        costs, size = [], 0.0
        for doubling in range(4):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, shape.file)
                shape.make(path, max(int(shape.records * factor), 1) << doubling)
                size = sum(file.stat().st_size for file in Path(folder).rglob("*")) / 2**20
                costs.append(cost_of(shape.read, path))
        exponent = math.log2(max(costs[3].seconds, 1e-3) / max(costs[2].seconds, 1e-3))
        if exponent > BENDS and "spaCy alone" not in shape.name:
            bent.append(shape.name)
        rows.append(
            [
                shape.name,
                f"{size:.1f}",
                *(f"{cost.seconds:.2f}" for cost in costs),
                f"{exponent:.2f}",
                *(f"{cost.megabytes:.0f}" for cost in costs[2:]),
            ]
        )
        print(*rows[-1], sep="\t", file=sys.stderr, flush=True)
    names = "what, MB, s at 1/8, 1/4, 1/2, 1, exponent, peak MB at 1/2, 1".split(", ")
    print(markdown_table(names, rows))
    if bent:
        sys.exit(f"Not straight: {', '.join(bent)}")


if __name__ == "__main__":
    typer.run(main)
