"""Put spaCy's entity_ruler before a trained linker, so that it finds mentions by their names."""

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
    opened = KnowledgeBase.open(kb)
    names = {(n, e.types[0] if e.types else "ENTITY") for e in opened for n in e.names}
    mentions = [m for document in open_corpus(corpus).documents() for m in document.mentions]
    names |= {(m.text, "ENTITY") for m in mentions if not any(id in opened for id in m.ids)}
    # Acronyms are matched as they are written, other names whatever their case.
    patterns = []
    for name, label in sorted(names):
        in_any_case = [{"LOWER": token.lower_} for token in nlp.make_doc(name)]
        patterns.append({"label": label, "pattern": name if name.isupper() else in_any_case})
    ruler = nlp.add_pipe("entity_ruler", first=True)
    with nlp.select_pipes(enable=[]):
        ruler.add_patterns(patterns)
    nlp.get_pipe("proxy_linker").set_kb(kb)
    nlp.to_disk(output)
    print(f"{output}: {len(patterns):,} names to find, then {nlp.pipe_names[-1]}")


if __name__ == "__main__":
    typer.run(main)
