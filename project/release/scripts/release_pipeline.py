"""Make the pipeline of the release: a recogniser before a linker, both with rounded weights.

It starts from a blank pipeline, so that no word of a training text stands in its vocabulary.
"""

from pathlib import Path

import spacy
import typer
from spacy.util import compile_infix_regex

from spacy_pel.architectures import encoder_of
from spacy_pel.models.packed_weights import rounded

# A mention may begin or end at any hyphen or bracket, so a token does.
SPLITS = [r"[^\w\s]"]


def main(recogniser: Path, linker: Path, kb: Path, output: Path) -> None:
    """Save the "kb_ner" of RECOGNISER and the linker of LINKER to OUTPUT, with KB as their KB.

    Their weights are rounded to float16 numbers, which are saved in half the bytes. So KB has to be
    embedded after this.
    """
    trained = spacy.load(recogniser)
    nlp = spacy.blank(trained.lang, config={"nlp": {"batch_size": 100}})
    nlp.tokenizer.infix_finditer = compile_infix_regex(SPLITS).finditer
    config = trained.get_pipe_config("kb_ner")
    del config["factory"]
    config["model"]["encoder"] = {"@misc": "spacy-pel.PretrainedEncoder.v1", "name": None}
    nlp.add_pipe("kb_ner", config={**config, "kb": str(kb)})
    nlp.get_pipe("kb_ner").from_disk(recogniser / "kb_ner")
    # "agree": mentions of a document with the same words get one answer, and are searched once.
    settings = {"path": str(linker), "kb": str(kb), "agree": True}
    nlp.add_pipe("proxy_linker", config=settings)
    for name in nlp.pipe_names:
        for tower in nlp.get_pipe(name).model.layers:
            encoder = encoder_of(tower)
            encoder.restore(encoder.description(), rounded(encoder.weights()))
    nlp.to_disk(output)
    print(f"{output}: {', '.join(nlp.pipe_names)}")


if __name__ == "__main__":
    typer.run(main)
