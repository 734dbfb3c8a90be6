"""Make the pipeline of the release: a recogniser before a linker whose weights are rounded.

It starts from a blank pipeline, so that no word of a training text stands in its vocabulary.
"""

from pathlib import Path

import spacy
import typer

from spacy_pel.architectures import encoder_of
from spacy_pel.models.packed_weights import rounded


def main(recogniser: Path, linker: Path, kb: Path, output: Path) -> None:
    """Save the "ner" of RECOGNISER and the linker of LINKER to OUTPUT, with KB as its KB.

    The linker's weights are rounded to float16 numbers, which are saved in half the bytes. So KB has
    to be embedded after this.
    """
    trained = spacy.load(recogniser)
    nlp = spacy.blank(trained.lang, config={"nlp": {"batch_size": 100}})
    config = trained.get_pipe_config("ner")
    nlp.add_pipe("ner", config={"model": config["model"]})
    nlp.get_pipe("ner").from_disk(recogniser / "ner", exclude=["vocab"])
    # "agree": mentions of a document with the same words get one answer, and are searched once.
    settings = {"path": str(linker), "kb": str(kb), "agree": True}
    nlp.add_pipe("proxy_linker", config=settings)
    for tower in nlp.get_pipe("proxy_linker").model.layers:
        encoder = encoder_of(tower)
        encoder.restore(encoder.description(), rounded(encoder.weights()))
    nlp.to_disk(output)
    print(f"{output}: {', '.join(nlp.pipe_names)}")


if __name__ == "__main__":
    typer.run(main)
