"""Make texts that a linker learns from beside annotated documents: names, and acronyms in contexts.

    python scripts/made_texts.py kb/MeSH LESSONS.pubtator SENTENCES OUT --names 18000

LESSONS are what "pel kb learn --acronyms --lessons" wrote: texts that define an acronym, with the definition
hidden. OUT gets them, and sentences of SENTENCES that have the long form of such an acronym, with the acronym
in its place; so each of its senses has some. OUT also gets names of the KB, drawn at random, many in one text.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import typer

from spacy_pel.documents.document import Document, mention_at
from spacy_pel.documents.open_documents import open_documents
from spacy_pel.documents.pubtator import pubtator_text
from spacy_pel.kb import KnowledgeBase
from spacy_pel.linking.ordering import is_acronym
from spacy_pel.system.whole_files import whole_file

NAMES_OF_TEXT = 32
LONGEST = 80  # characters of a name
# Sentences for each sense of an acronym: where it has several, and where it has one.
AMBIGUOUS, SOLE = 12, 1


def main(kb: Path, lessons: Path, sentences: Path, out: Path, names: int = 18000) -> None:
    """Write names.pubtator and lessons.pubtator to the folder OUT."""
    rng = random.Random(0)
    base = KnowledgeBase.open(kb)
    out.mkdir(parents=True, exist_ok=True)
    all_names = [(n, e.concept_id) for e in base for n in e.names if len(n) < LONGEST]
    chosen = rng.sample(all_names, min(names, len(all_names)))
    parts = range(0, len(chosen), NAMES_OF_TEXT)
    lists = [joined(f"names-{i}", chosen[i : i + NAMES_OF_TEXT]) for i in parts]
    given = [raw.document(None) for raw in open_documents(str(lessons))]
    texts = [raw.document(None).text for raw in open_documents(str(sentences))]
    rng.shuffle(texts)
    made = list(replaced(base, texts, given, rng))
    for name, documents in (("names", lists), ("lessons", [*given, *made])):
        with whole_file(out / f"{name}.pubtator") as file:
            file.writelines(map(pubtator_text, documents))
    print(f"{out}: {len(chosen):,} names, {len(made):,} sentences with an acronym put in")


def joined(id: str, names: list[tuple[str, str]]) -> Document:
    """Names, each with the id of its entity, as one text."""
    text, mentions = "", []
    for name, concept_id in names:
        text += ", " if text else ""
        mentions.append((len(text), len(text) + len(name), "Name", (concept_id,)))
        text += name
    return Document(text, id, tuple(mention_at(text, *mention) for mention in mentions))


def replaced(
    kb: KnowledgeBase, texts: list[str], lessons: list[Document], rng: random.Random
) -> Iterator[Document]:
    """Texts in which an acronym of the lessons stands for the long names of one entity."""
    senses = defaultdict(set)
    for lesson in lessons:
        for mention in lesson.mentions:
            senses[lesson.text[mention.start : mention.end]].add(mention.ids[0])
    acronyms = defaultdict(list)
    for acronym, ids in sorted(senses.items()):
        for id in sorted(ids):
            acronyms[kb.number(id)].append((acronym, id))
    finder, counts = kb.name_finder(), Counter()
    for text in texts:
        found = [
            (start, end, int(owners[0]))
            for start, end, owners in finder.found(text)
            if len(owners) == 1 and int(owners[0]) in acronyms and not is_acronym(text[start:end])
        ]
        if not found:
            continue
        meant = found[0][2]
        acronym, id = rng.choice(acronyms[meant])
        most = AMBIGUOUS if len(senses[acronym]) > 1 else SOLE
        if counts[acronym, id] >= most or acronym in text:
            continue
        counts[acronym, id] += 1
        places, short, after = [], "", 0
        for start, end, number in found:
            if number == meant:
                short += text[after:start]
                places.append((len(short), len(short) + len(acronym)))
                short, after = short + acronym, end
        short += text[after:]
        mentions = (mention_at(short, *place, "Acronym", (id,)) for place in places)
        yield Document(short, f"replaced-{counts.total()}", tuple(mentions))


if __name__ == "__main__":
    typer.run(main)
