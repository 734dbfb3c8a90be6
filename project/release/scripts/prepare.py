"""Make corpora and knowledge bases from the downloads of "spacy project assets"."""

import gzip
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import typer
from tqdm import tqdm
from wasabi import msg

from spacy_pel.corpora import Document
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.corpora.formats.pubtator import pubtator_text
from spacy_pel.errors import PelError
from spacy_pel.io.whole_files import whole_file
from spacy_pel.kb import Entity
from spacy_pel.kb.build import united
from spacy_pel.kb.readers import open_source
from spacy_pel.kb.readers.tables import read_mapping
from spacy_pel.kb.records.entity import plain_id

app = typer.Typer()

# Test documents go to "held_out": no workflow that trains or chooses settings reads it.
FOLDERS = {"train": "corpora", "dev": "corpora", "test": "held_out"}
# Archive, split, file in the archive, documents and mentions as published.
ZIPPED = """
bc5cdr/CDR_Data.zip train CDR_TrainingSet.PubTator.txt 500 9385
bc5cdr/CDR_Data.zip dev CDR_DevelopmentSet.PubTator.txt 500 9591
bc5cdr/CDR_Data.zip test CDR_TestSet.PubTator.txt 500 9809
ncbi_disease/NCBItrainset_corpus.zip train NCBItrainset_corpus.txt 593 5145
ncbi_disease/NCBIdevelopset_corpus.zip dev NCBIdevelopset_corpus.txt 100 787
ncbi_disease/NCBItestset_corpus.zip test NCBItestset_corpus.txt 100 960
biored/BIORED.zip train Train.PubTator 301 10023
biored/BIORED.zip dev Dev.PubTator 77 2680
"""
# BioRED took documents of these. Without those of their dev and test splits it has the numbers above.
BEFORE_BIORED = ("bc5cdr", "ncbi_disease")
MEDMENTIONS = {"train": (2635, 122241), "dev": (878, 40884), "test": (879, 40157)}


@app.command()
def corpus(corpus: str, assets: Path, data: Path) -> None:
    """Write CORPUS (bc5cdr, ncbi_disease, biored, medmentions), fetched to ASSETS, to the folder DATA.

    BioRED comes after the first two, and without the documents of their dev and test splits.
    Test documents go to DATA/held_out. A download that differs from the one that the figures of the
    docs were taken with is reported and used.
    """
    for line in ZIPPED.splitlines():
        if line.startswith(f"{corpus}/"):
            archive, split, member, documents, mentions = line.split()
            text = text_in(assets / archive, member)
            parts = without_measured(text, data) if corpus == "biored" else [text]
            write_split(data, corpus, split, parts, (int(documents), int(mentions)))
    for split, counts in MEDMENTIONS.items() if corpus == "medmentions" else ():
        documents = _of_medmentions(assets / "medmentions" / "st21pv", split)
        write_split(data, corpus, split, (pubtator_text(d).encode() for d in documents), counts)


def _of_medmentions(folder: Path, split: str) -> Iterator[Document]:
    """Yield the documents of a split, whose ids are listed in the folder "full" beside the corpus."""
    name = f"corpus_pubtator_pmids_{'trng' if split == 'train' else split}.txt"
    pmids = set((folder.parent / "full" / "data" / name).read_text("utf8").split())
    corpus = open_corpus(folder / "data" / "corpus_pubtator.txt.gz")
    return (document for document in corpus.documents() if document.id in pmids)


def text_in(archive: Path, member: str) -> bytes:
    """Return the text of a split in a zip archive; PelError if it is missing or damaged."""
    try:
        with zipfile.ZipFile(archive) as file:
            for path in file.namelist():  # archives made on a Mac also have ._NAME in __MACOSX
                if path.rpartition("/")[2] == member:
                    return file.read(path)
            held = ", ".join(file.namelist()[:5])
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise PelError(f"{archive}: damaged ({error})", "delete it and fetch it again") from error
    remedy = "fetch the archive that project/README.md names"
    raise PelError(f"{archive}: holds no {member}, but {held}", remedy)


def without_measured(text: bytes, data: Path) -> list[bytes]:
    """Return the documents of a PubTator text that are in no dev or test split made before."""
    paths = (
        data / FOLDERS[split] / other / f"{split}.pubtator.txt.gz"
        for other in BEFORE_BIORED
        for split in ("dev", "test")
    )
    measured = {d.id for path in paths for d in open_corpus(path).documents()}
    documents = text.replace(b"\r", b"").strip().split(b"\n\n")
    return [d + b"\n\n" for d in documents if d.split(b"|", 1)[0].decode() not in measured]


def write_split(
    data: Path, corpus: str, split: str, parts: Iterable[bytes], expected: tuple[int, int]
) -> None:
    """Write a split, print its size, and warn if it differs from the published one."""
    output = data / FOLDERS[split] / corpus / f"{split}.pubtator.txt.gz"
    write_gzip(output, parts)
    mentions = [len(document.mentions or ()) for document in open_corpus(output).documents()]
    msg.good(f"{output}: {len(mentions):,} documents, {sum(mentions):,} mentions")
    if (len(mentions), sum(mentions)) != expected:
        msg.warn("The source has changed: expected {:,} documents, {:,} mentions".format(*expected))


def write_gzip(output: Path, parts: Iterable[bytes]) -> None:
    """Write a gzip file atomically, with bytes that depend on its content alone."""
    with (
        whole_file(output, "xb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as zipped,
    ):
        zipped.writelines(parts)


# Knowledge bases

_CUI = re.compile(r"C\d{7}")
# The semantic group of UMLS of each ontology's terms. The first ontology gives the names.
_GROUPS = {"mondo": "DISO", "doid": "DISO", "hp": "DISO", "uberon": "ANAT"}
# The keys of every line in scispaCy's format. Other keys are written if they have a value.
_ALWAYS = {"concept_id", "canonical_name", "aliases", "types", "definition"}


def write_entities(output: Path, entities: Iterable[Entity]) -> None:
    """Write entities to a gzipped file, and print their number."""
    names: list[int] = []  # per entity

    def lines() -> Iterator[bytes]:
        for entity in entities:
            names.append(len(entity.names))
            fields = entity._replace(aliases=entity.names[1:])._asdict()
            kept = {key: value for key, value in fields.items() if value or key in _ALWAYS}
            yield (json.dumps(kept, ensure_ascii=False) + "\n").encode()

    write_gzip(output, lines())
    msg.good(f"{output}: {len(names):,} entities, {sum(names):,} names")


@app.command()
def joined(output: Path, sources: list[Path]) -> None:
    """Write the entities of SOURCES to OUTPUT, and join those with the same id."""
    write_entities(output, united(chain.from_iterable(map(_read, sources))))


@app.command()
def medmentions(output: Path, corpus: Path, mapping: Path, ontologies: list[Path]) -> None:
    """Write the concepts of UMLS with names in open sources to OUTPUT.

    They are the concepts of the terms of ONTOLOGIES (OBO files; for MONDO by the SSSOM file MAPPING), and
    those of the training documents of CORPUS (a folder of MedMentions), named by their mentions.
    """
    exact = read_mapping([mapping])
    concepts = (_concepts(_read(path), exact, _GROUPS[path.stem]) for path in ontologies)
    mentioned = (
        Entity(cui, mention.text, sources=("MedMentions",))
        for document in _of_medmentions(corpus, "train")
        for mention in document.mentions
        for cui in mention.ids
    )
    write_entities(output, united(chain(*concepts, mentioned)))


def _concepts(terms: Iterable[Entity], exact: dict[str, str], group: str) -> Iterator[Entity]:
    """Yield terms as concepts of UMLS, by the exact mapping or a single cross-reference to UMLS."""
    for term in terms:
        references = {id for id in map(plain_id, term.xrefs) if _CUI.fullmatch(id)}
        cui = exact.get(term.concept_id) or (references.pop() if len(references) == 1 else None)
        if cui and _CUI.fullmatch(cui):
            xrefs = (term.concept_id, *(x for x in term.xrefs if plain_id(x) != cui))
            yield Entity(
                cui,
                term.canonical_name,
                aliases=term.aliases,
                types=(group,),
                definition=term.definition,
                xrefs=xrefs,
                sources=term.sources,
            )


def _read(path: Path) -> Iterator[Entity]:
    """Yield the entities of a file or folder, with a progress bar."""
    yield from tqdm(open_source(path).entities, desc=path.name, unit=" records", leave=False)


if __name__ == "__main__":
    try:
        app()
    except PelError as error:
        msg.fail(str(error), exits=1)
