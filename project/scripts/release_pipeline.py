"""Make the pipeline of the release: a recogniser before a linker of averaged, rounded weights.

It starts from a blank pipeline, so that no word of a training text stands in its vocabulary.
"""

from pathlib import Path

import spacy
import typer
from torch import Tensor

from spacy_pel.architectures import encoder_of, linker_folder, unpack_retriever
from spacy_pel.models.packed_weights import rounded

# The share of the weights after the training on documents; the rest is that of the weights before it.
AFTER = 0.5


def main(recogniser: Path, distilled: Path, linker: Path, kb: Path, output: Path) -> None:
    """Save the "ner" of RECOGNISER and the linker of LINKER to OUTPUT, with KB as its KB.

    DISTILLED is the pipeline that LINKER was trained from. The weights lie between those of the two. So
    the linker links better to other KBs, and no worse to its own ("WiSE-FT", Wortsman et al. 2022). They
    are rounded to float16 numbers, which are saved in half the bytes. So KB has to be embedded after this.
    """
    trained = spacy.load(recogniser)
    nlp = spacy.blank(trained.lang, config={"nlp": {"batch_size": 100}})
    config = trained.get_pipe_config("ner")
    nlp.add_pipe("ner", config={"model": config["model"]})
    nlp.get_pipe("ner").from_disk(recogniser / "ner", exclude=["vocab"])
    # "agree": mentions of a document with the same words get one answer, and are searched once.
    settings = {"path": str(linker), "kb": str(kb), "agree": True}
    nlp.add_pipe("proxy_linker", config=settings)
    before = unpack_retriever(linker_folder(distilled) / "model")
    for tower, other in zip(nlp.get_pipe("proxy_linker").model.layers, before.layers):
        encoder = encoder_of(tower)
        weights = averaged(encoder_of(other).weights(), encoder.weights())
        encoder.restore(encoder.description(), rounded(weights))
    nlp.to_disk(output)
    print(f"{output}: {', '.join(nlp.pipe_names)}")


def averaged(before: dict[str, Tensor], after: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights between those before and those after a training."""
    return {name: AFTER * after[name] + (1 - AFTER) * before[name] for name in after}


if __name__ == "__main__":
    typer.run(main)
