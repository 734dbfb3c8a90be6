"""Put spaCy's entity_ruler before a trained linker, so that it finds mentions by their names."""

from collections.abc import Iterator
from pathlib import Path

import spacy
import typer

from spacy_pel import KnowledgeBase
from spacy_pel.corpora.document_corpus import open_corpus


def main(pipeline: Path, kb: Path, corpus: Path, output: Path) -> None:
    """Save PIPELINE to OUTPUT with an entity_ruler before its linker, and with KB as its KB.

    The ruler finds the names of the entities of KB, and the mentions of CORPUS (PubTator) whose
    entity KB lacks, which are NIL.
    """
    nlp = spacy.load(pipeline)
    # Acronyms are matched as they are written, other names whatever their case.
    ruler = nlp.add_pipe("entity_ruler", first=True)
    patterns = [
        {"label": label, "pattern": name if name.isupper() else _in_any_case(nlp, name)}
        for name, label in _names(KnowledgeBase.open(kb), corpus)
    ]
    with nlp.select_pipes(enable=[]):
        ruler.add_patterns(patterns)
    nlp.get_pipe("proxy_linker").set_kb(kb)
    nlp.to_disk(output)
    print(f"{output}: {len(patterns):,} names to find, then {nlp.pipe_names[-1]}")


def _names(kb: KnowledgeBase, corpus: Path) -> Iterator[tuple[str, str]]:
    """The names to find, each with the label of its mentions."""
    for entity in kb:
        for name in entity.names:
            yield name, entity.types[0] if entity.types else "ENTITY"
    mentions = [
        mention for document in open_corpus(corpus).documents() for mention in document.mentions
    ]
    for name in sorted({m.text for m in mentions if not any(id in kb for id in m.ids)}):
        yield name, "ENTITY"


def _in_any_case(nlp: spacy.Language, name: str) -> list:
    return [{"LOWER": token.lower_} for token in nlp.make_doc(name)]


if __name__ == "__main__":
    typer.run(main)
