"""Put a finder of mentions before a trained linker: spaCy's entity_ruler over the KB's names."""

from pathlib import Path

import spacy
import typer

from spacy_pel import KnowledgeBase


def main(pipeline: Path, kb: Path, output: Path) -> None:
    """Save to OUTPUT a pipeline that finds the names of KB and links them as PIPELINE does."""
    nlp = spacy.blank("en")
    # Acronyms are matched as they are written, other names in any case.
    ruler = nlp.add_pipe("entity_ruler")
    patterns = [
        {"label": entity.types[0] if entity.types else "ENTITY", "pattern": pattern}
        for entity in KnowledgeBase.open(kb)
        for name in entity.names
        for pattern in [name if name.isupper() else _in_any_case(nlp, name)]
    ]
    with nlp.select_pipes(enable=[]):
        ruler.add_patterns(patterns)
    linker = nlp.add_pipe("proxy_linker", config={"path": str(pipeline)})
    linker.set_kb(kb)
    nlp.to_disk(output)
    print(f"{output}: {len(patterns):,} names to find, then {nlp.pipe_names[-1]}")


def _in_any_case(nlp: spacy.Language, name: str) -> list:
    return [{"LOWER": token.lower_} for token in nlp.make_doc(name)]


if __name__ == "__main__":
    typer.run(main)
