"""Make texts of annotated ones: to learn from, and to calibrate on. "project.yml" has the calls.

WEAK_LABELS is the output of "pel kb learn --acronyms --weak-labels": texts without definitions of acronyms.
"""

import csv
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

import spacy
import typer
from release_pipeline import SPLITS
from spacy.language import Language
from spacy.util import compile_infix_regex
from tqdm import tqdm

from spacy_pel.corpora.document import Document, Mention, mention_at
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.corpora.formats.pubtator import pubtator_text
from spacy_pel.corpora.open_documents import open_documents
from spacy_pel.errors import PelError
from spacy_pel.io.whole_files import whole_file
from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.readers.mesh import PARTS
from spacy_pel.linking.ordering import is_acronym
from spacy_pel.text.abbreviations import defined_abbreviations

app = typer.Typer()

CORPORA = ("bc5cdr", "ncbi_disease", "biored")
# The package's labels, by those of the corpora and by MeSH's types.
LABELS = {
    "Disease": ("SpecificDisease", "DiseaseClass", "Modifier", "CompositeMention")
    + ("DiseaseOrPhenotypicFeature", "Diseases"),
    "Chemical": ("ChemicalEntity", "Chemical or Drug", "Chemicals and Drugs"),
}
LABEL_OF = {other: label for label, own in LABELS.items() for other in (label, *own)}
# Corpora differ in whether these are chemicals: proteins, enzymes, and classes of drugs by their use.
UNSURE = {PARTS[code] for code in ("D08", "D12", "D27")}
NAMES_OF_TEXT = 32
LONGEST = 80  # characters of a name
SUPPLEMENTARY = (
    0.2  # the share of supplementary chemicals whose names are drawn: they are most of MeSH
)
# Sentences for each sense of an acronym: where it has several, and where it has one.
AMBIGUOUS, SOLE = 12, 1
# Of names that take the place of others.
SHORT, MOST_WORDS = 50, 5  # characters and words
DOCUMENTS, MENTIONS = 0.5, 0.7  # the shares that are changed
# The places of a frame, such as {D} or {D:mets}.
PLACE = r"\{([CD]):?(.*?)\}"
LABEL_OF_PLACE = {"D": "Disease", "C": "Chemical"}
# Of notes: how many, sentences of each, and the shares of acronyms, mentions, names, and current names.
NOTES, FRAMES_OF_NOTE = 2_500, 5
CALIBRATED = 60  # notes that the ranking is fitted to
SOURCES = {"Disease": (3, 4, 2, 2), "Chemical": (1, 5, 2, 4)}
# Of the senses of acronyms: the smallest share, the texts that an acronym of a list counts for, and the notes
# to calibrate on.
RARE, COUNTED, DRAWN = 0.1, 100, 100
# The weakly labelled texts and the sentences that teachers mark, and sentences per text.
TAUGHT, VOTED, SENTENCES = 1_200, 50_000, 10


def write(out: Path, name: str, documents: Iterable[Document]) -> None:
    """Write documents to the file OUT/NAME.pubtator, and say how many they are."""
    texts = list(map(pubtator_text, documents))
    with whole_file(out / f"{name}.pubtator") as file:
        file.writelines(texts)
    print(f"{out / name}.pubtator: {len(texts):,} documents")


def with_mentions(
    text: str, id: str, changes: Iterable[tuple[int, int, str, str, tuple[str, ...]]]
) -> Document:
    """Return a text with changed words, which are its mentions, with labels and ids."""
    made, mentions, at = "", [], 0
    for start, end, words, label, ids in changes:
        made += text[at:start]
        mentions.append((len(made), len(made) + len(words), label, ids))
        made, at = made + words, end
    made += text[at:]
    return Document(made, id, tuple(mention_at(made, *mention) for mention in mentions))


@app.command()
def learn(
    kb: Path,
    weak_labels: Path,
    acronyms: Path,
    of_notes: Path,
    sentences: Path,
    out: Path,
    names: int = 18000,
) -> None:
    """Write names.pubtator and weak-labels.pubtator to the folder OUT.

    The first has names of KB, drawn at random, many in one text. The second has WEAK_LABELS, the annotated
    texts OF_NOTES, and SENTENCES with the long form of an acronym replaced by the acronym, some for each of
    its senses. The acronyms are those of WEAK_LABELS and of ACRONYMS ("long form (SHORT)" in each line).
    """
    rng = random.Random(0)
    base = KnowledgeBase.open(kb)
    all_names = [
        (n, e.concept_id)
        for e in base
        if e.concept_id.startswith("D") or has_label(e, "Disease") or rng.random() < SUPPLEMENTARY
        for n in e.names
        if len(n) < LONGEST
    ]
    chosen = rng.sample(all_names, min(names, len(all_names)))
    parts = range(0, len(chosen), NAMES_OF_TEXT)
    write(out, "names", (joined(f"names-{i}", chosen[i : i + NAMES_OF_TEXT]) for i in parts))
    given = list(open_corpus(weak_labels).documents())
    texts = [raw.document().text for raw in open_documents(sentences)]
    rng.shuffle(texts)
    pairs = {(m.text, m.ids[0]) for document in given for m in document.mentions}
    for long, short in long_and_short(acronyms):
        pairs.update((short, id) for id, _ in base.labels(base.numbers_named(long)))
    notes, _ = learnt_and_fitted(of_notes)
    write(out, "weak-labels", [*given, *notes, *replaced(base, texts, sorted(pairs), rng)])


def long_and_short(acronyms: Path) -> list[tuple[str, str]]:
    """Return the long and short forms of a file with "long form (SHORT)" in each line."""
    lines = (line.rstrip(")").rsplit(" (", 1) for line in acronyms.read_text("utf8").splitlines())
    return [(long, short) for long, short in lines]


def learnt_and_fitted(texts: Path) -> tuple[list[Document], list[Document]]:
    """Return the documents that models learn from, and every third, which the ranking is fitted to."""
    documents = list(open_corpus(texts).documents())
    return [d for n, d in enumerate(documents) if n % 3], documents[::3]


def joined(id: str, names: list[tuple[str, str]]) -> Document:
    """Names, each with the id of its entity, as one text: with a comma between any two."""
    places = ((2 * n, 2 * n, name, "Name", (own,)) for n, (name, own) in enumerate(names))
    return with_mentions(", " * (len(names) - 1), id, places)


def replaced(
    kb: KnowledgeBase, texts: list[str], pairs: list[tuple[str, str]], rng: random.Random
) -> Iterator[Document]:
    """Yield texts with the long names of one entity replaced by one of its acronyms.

    ``pairs`` are acronyms and ids.
    """
    senses = Counter(acronym for acronym, _ in pairs)
    acronyms = defaultdict(list)
    for acronym, id in pairs:
        acronyms[kb.number(id)].append((acronym, id))
    finder, counts = kb.name_finder(), Counter()
    for text in texts:
        found = [
            (start, end, int(owners[0]))
            for start, end, owners in finder.find(text)
            if len(owners) == 1 and int(owners[0]) in acronyms and not is_acronym(text[start:end])
        ]
        if not found:
            continue
        meant = found[0][2]
        acronym, id = rng.choice(acronyms[meant])
        most = AMBIGUOUS if senses[acronym] > 1 else SOLE
        if counts[acronym, id] >= most or acronym in text:
            continue
        counts[acronym, id] += 1
        own = (acronym, "Acronym", (id,))
        places = ((start, end, *own) for start, end, number in found if number == meant)
        yield with_mentions(text, f"replaced-{counts.total()}", places)


@app.command()
def rename(kb: Path, out: Path, texts: Annotated[list[Path], typer.Option()]) -> None:
    """Write TEXTS with other names of KB in place of most mentions, for a recogniser, to the folder OUT.

    diseases.pubtator is of the files that annotate no chemicals, and both.pubtator of the others. Half of the
    documents are made so. A mention gets the same name wherever a document has it.
    """
    rng = random.Random(0)
    base = KnowledgeBase.open(kb)
    names = {label: names_of(base, label) for label in LABELS}
    made: dict[str, list[Document]] = {"diseases": [], "both": []}
    for path in texts:
        documents = list(open_corpus(path).documents())
        labels = {LABEL_OF.get(m.label) for document in documents for m in document.mentions}
        of_file = made["both" if "Chemical" in labels else "diseases"]
        chosen = [document for document in documents if rng.random() < DOCUMENTS]
        of_file += [with_other_names(document, names, rng) for document in chosen]
    for name, documents in made.items():
        write(out, name, documents)


def has_label(entity: Entity, label: str) -> bool:
    """Tell whether mentions of an entity have this label, by its types."""
    return any(LABEL_OF.get(type) == label for type in entity.types)


def names_of(kb: KnowledgeBase, label: str) -> list[list[tuple[str, tuple[str, ...]]]]:
    """Return the names, with the id, of each entity with this label, except inverted ones ("X, type Y").

    Entities that corpora may not annotate are left out.
    """
    entities = (e for e in kb if has_label(e, label) and not UNSURE & set(e.types))
    fitting = (
        [
            (n, (e.concept_id,))
            for n in e.names
            if ", " not in n and len(n) < SHORT and len(n.split()) <= MOST_WORDS
        ]
        for e in entities
    )
    return list(filter(None, fitting))


def with_other_names(
    document: Document, names: dict[str, list[list[tuple]]], rng: random.Random
) -> Document:
    """Return a document with other names, and mentions without ids. Overlapping mentions are dropped."""
    places, at, chosen = [], 0, {}
    for mention in sorted(document.mentions):
        label = LABEL_OF.get(mention.label)
        if label is None or mention.start < at:
            continue
        old, at = mention.text.casefold(), mention.end
        if (old, label) not in chosen:
            new = mention.text
            if rng.random() < MENTIONS:
                new, _ = rng.choice(rng.choice(names[label]))
            is_lower = mention.text[:1].islower() and not any(map(str.isupper, new[1:]))
            chosen[old, label] = new.lower() if is_lower else new
        places.append((mention.start, at, chosen[old, label], label, ()))
    return with_mentions(document.text, document.id, places)


@app.command()
def notes(
    kb: Path,
    frames: Path,
    acronyms: Path,
    current_names: Path,
    out: Path,
    texts: Annotated[list[Path], typer.Option()],
) -> None:
    """Write notes.pubtator, for a recogniser, to OUT: FRAMES filled with diseases and chemicals.

    {D} and {C} of a frame become ACRONYMS ("long form (SHORT)" in each line), mentions of TEXTS, names of
    KB and CURRENT_NAMES.
    {D:mets} is a disease as it stands there.
    """
    rng = random.Random(0)
    base = KnowledgeBase.open(kb)
    pairs = long_and_short(acronyms)
    meant = {long: base.entities(base.numbers_named(long)) for long, _ in pairs}
    mentions = [m for path in texts for d in open_corpus(path).documents() for m in d.mentions]
    current = [line.split("\t") for line in current_names.read_text().splitlines()]
    names = {}
    for label in LABELS:
        short = [
            (a, tuple(e.concept_id for e in meant[long]))
            for long, a in pairs
            if any(has_label(e, label) for e in meant[long])
        ]
        said = {
            m.text: m.ids
            for m in mentions
            if LABEL_OF.get(m.label) == label and len(m.text) < SHORT
        }
        new = [
            (name, (id,))
            for id, _, name, *_ in current
            if id in base and has_label(base[id], label)
        ]
        names[label] = (
            sorted(short),
            sorted(said.items()),
            list(chain.from_iterable(names_of(base, label))),
            new,
        )

    def filling(place: re.Match) -> tuple[int, int, str, str, tuple]:
        label = LABEL_OF_PLACE[place[1]]
        words, ids = place[2], ()
        if not words:
            words, ids = rng.choice(rng.choices(names[label], SOURCES[label])[0])
        if place.start() and rng.random() < DOCUMENTS and not any(map(str.isupper, words[1:])):
            words = words.lower()
        return place.start(), place.end(), words, label, ids

    lines = frames.read_text().splitlines()
    texts_with_places = (" ".join(rng.sample(lines, FRAMES_OF_NOTE)) for _ in range(NOTES))
    made = (
        with_mentions(frame, f"note-{i}", map(filling, re.finditer(PLACE, frame)))
        for i, frame in enumerate(texts_with_places)
    )
    write(out, "notes", made)


def rows_of(table: Path) -> Iterable[dict[str, str]]:
    """Return the rows of a table, by column."""
    return csv.DictReader(table.read_text("utf8").splitlines(), delimiter="\t")


@app.command()
def senses(
    kb: Path,
    frames: Path,
    out: Path,
    lists: Annotated[list[Path], typer.Option(help="Acronyms, and how often notes mean what")],
    others: Annotated[Path, typer.Option(help="Acronyms in senses that are no entity")],
) -> None:
    """Write how often notes mean which sense of an acronym, by LISTS and OTHERS, to the folder OUT.

    A list has the columns "abbreviation", "sense" and "frequency", the share of the sense. Shares are those
    among the diseases and chemicals that KB knows. OTHERS has "texts" instead, as how many texts a sense
    counts. senses.txt has "long form (SHORT)" as often as notes mean it, for "pel kb learn --acronyms".
    senses.pubtator, to calibrate on, has FRAMES with acronyms whose senses are drawn by the shares of LISTS.

    Raises:
        PelError: KB does not know both a disease and a chemical of LISTS, or has one sense of each acronym.
    """
    rng = random.Random(0)
    base = KnowledgeBase.open(kb)
    counts: dict[str, Counter[tuple[str, str, str]]] = defaultdict(Counter)
    for path in lists:
        shares = defaultdict(Counter)
        for row in rows_of(path):
            short, long, share = row["abbreviation"].upper(), row["sense"], float(row["frequency"])
            owners = base.entities(base.numbers_named(long))
            known = [label for label in LABELS if len(owners) == 1 and has_label(owners[0], label)]
            if known and share >= RARE and short in defined_abbreviations(f"{long} ({short})"):
                shares[short][long, owners[0].concept_id, known[0]] += share
        for short, senses in shares.items():
            for sense, share in senses.items():
                counts[short][sense] += round(COUNTED * share / senses.total())
    # Half of the places have an acronym that the KB has several senses of.
    ambiguous = [short for short in sorted(counts) if len(base.numbers_named(short)) > 1]
    found = {label for senses in counts.values() for *_, label in senses}
    if not ambiguous or found < set(LABELS):
        problem = f"{kb}: knows too few senses of the lists to draw from"
        raise PelError(problem, "use a KB with names of diseases and chemicals, and acronyms")
    with whole_file(out / "senses.txt") as file:
        for short, senses in sorted(counts.items()):
            file.writelines(f"{long} ({short})\n" for long, *_ in sorted(senses.elements()))
        for row in rows_of(others):
            file.writelines(int(row["texts"]) * [f"{row['sense']} ({row['abbreviation']})\n"])

    def filling(place: re.Match) -> tuple[int, int, str, str, tuple]:
        label = ""
        while label != LABEL_OF_PLACE[place[1]]:
            short = rng.choice(rng.choice((sorted(counts), ambiguous)))
            [(_, id, label)] = rng.choices(list(counts[short]), counts[short].values())
        return place.start(), place.end(), short, label, (id,)

    # Frames without words that are mentions as they stand.
    lines = frames.read_text().splitlines()
    lines = [line for line in lines if re.search(PLACE, line) and not re.search(r"\{\w:", line)]
    made = (
        with_mentions(frame, f"senses-{i}", map(filling, re.finditer(PLACE, frame)))
        for i, frame in enumerate(rng.choices(lines, k=DRAWN))
    )
    write(out, "senses", made)


@app.command()
def taught(
    kb: Path,
    weak_labels: Path,
    of_notes: Path,
    sentences: Path,
    kinds: Path,
    out: Path,
    teachers: Annotated[list[Path], typer.Option(help="Pipelines with a recogniser")],
) -> None:
    """Write texts, for a recogniser, to the folder OUT, with the mentions that most TEACHERS find.

    taught.pubtator has WEAK_LABELS, where an acronym is what KB says of its sense: a disease, a chemical, or
    no mention, and the annotated texts OF_NOTES. voted.pubtator has SENTENCES. kinds.pubtator has KINDS, a
    corpus with mentions of every kind: those of its mentions that the teachers do not know have the label
    Entity.
    """
    base = KnowledgeBase.open(kb)
    loaded = [spacy.load(path) for path in teachers]
    for nlp in loaded:
        nlp.tokenizer.infix_finditer = compile_infix_regex(SPLITS).finditer
    given = list(open_corpus(weak_labels).documents())
    given = random.Random(0).sample(given, min(TAUGHT, len(given)))
    given += learnt_and_fitted(of_notes)[0]
    told = [[m for m in d.mentions if not UNSURE & set(base[m.ids[0]].types)] for d in given]
    known = (labelled(marked(d, own), base).mentions for d, own in zip(given, told))
    found = map(apart, voted(loaded, given), told)
    write(out, "taught", map(marked, given, found, known))
    lines = [raw.document().text for raw in islice(open_documents(sentences), VOTED)]
    parts = range(0, len(lines), SENTENCES)
    given = [Document(" ".join(lines[i : i + SENTENCES]), f"voted-{i}") for i in parts]
    write(out, "voted", map(marked, given, voted(loaded, given)))
    given = list(open_corpus(kinds).documents())
    found = list(voted(loaded, given))
    others = (
        [m._replace(label="Entity") for m in apart(document.mentions, own)]
        for document, own in zip(given, found)
    )
    write(out, "kinds", map(marked, given, found, others))


def voted(teachers: list[Language], documents: list[Document]) -> Iterator[list[Mention]]:
    """Yield the mentions of each document that most of the teachers find."""
    found = [nlp.pipe(document.text for document in documents) for nlp in teachers]
    for document, *docs in zip(tqdm(documents, unit=" texts"), *found):
        votes = Counter((e.start_char, e.end_char, e.label_) for doc in docs for e in doc.ents)
        most = sorted(own for own, count in votes.items() if 2 * count > len(teachers))
        yield [mention_at(document.text, *own) for own in most]


def apart(mentions: Iterable[Mention], others: list[Mention]) -> list[Mention]:
    """Return the mentions that do not overlap with others."""
    return [m for m in mentions if not any(m.start < o.end and o.start < m.end for o in others)]


def marked(document: Document, *mentions: Iterable[Mention]) -> Document:
    """Return the document with other mentions."""
    return Document(document.text, document.id, tuple(sorted(chain(*mentions))))


@app.command()
def calibrate(
    data: Path, kb: Path, weak_labels: Path, of_notes: Path, notes: Path, out: Path
) -> None:
    """Write the dev splits of DATA, WEAK_LABELS, OF_NOTES and some NOTES, with the package's labels, to OUT.

    WEAK_LABELS must be of texts that KB did not learn acronyms from, or its counts would know the answers.
    """
    base = KnowledgeBase.open(kb)
    files = {name: data / "corpora" / name / "dev.pubtator.txt.gz" for name in CORPORA}
    given = {
        name: open_corpus(path).documents()
        for name, path in {**files, "acronyms": weak_labels}.items()
    }
    given["acronyms-of-notes"] = iter(learnt_and_fitted(of_notes)[1])
    # A word that stands in a frame has no id.
    given["notes"] = (
        marked(document, (m for m in document.mentions if m.ids))
        for document in open_corpus(notes, limit=CALIBRATED).documents()
    )
    for name, documents in given.items():
        documents = (labelled(document, base) for document in documents)
        write(out, name, filter(lambda document: document.mentions, documents))


def labelled(document: Document, kb: KnowledgeBase) -> Document:
    """Return a document with the mentions of diseases and chemicals, and their current ids.

    If the KB has none of the ids, but one entity alone has the words as a name, they are its id.
    """
    mentions = []
    for mention in document.mentions:
        ids, owners = mention.ids, kb.numbers_named(mention.text)
        # MeSH renames records: the corpora have C069541, and MeSH has D000069348, "Quetiapine Fumarate".
        if ids and not any(id in kb for id in ids) and len(owners) == 1:
            ids = (kb.labels(owners)[0][0],)
        known = [mention.label]
        if mention.label == "Acronym":
            known = [type for id in ids if id in kb for type in kb[id].types]
        labels = [LABEL_OF[each] for each in known if each in LABEL_OF]
        if labels:
            mentions.append(mention._replace(label=labels[0], ids=ids))
    return document._replace(mentions=tuple(mentions))


if __name__ == "__main__":
    app()
