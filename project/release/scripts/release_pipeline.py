"""Make the pipeline of the release: a recogniser and a linker that listens to it, with rounded weights.

It starts from a blank pipeline, so that no word of a training text stands in its vocabulary.
"""

from pathlib import Path

import spacy
import typer
from spacy.util import compile_infix_regex

from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.readers.mesh import PARTS
from spacy_pel.models.architectures import encoder_of, towers_of
from spacy_pel.models.packed_weights import Packable

# A mention may begin or end at any hyphen or bracket, so a token does.
SPLITS = [r"[^\w\s]"]
# Weights are rounded to multiples of these. They differ by a hundredth or two of their size, and the wheel
# holds them in six tenths of the bytes.
STEPS = {"kb_ner": 2**-8, "proxy_linker": 2**-9}
NO_SOURCE = {"@misc": "spacy-pel.PretrainedEncoder.v1", "name": None}


def main(trained: Path, kb: Path, current_names: Path, output: Path) -> None:
    """Save the components of the pipeline TRAINED to OUTPUT, with KB as their KB.

    The recogniser always marks classes of drugs, such as "antibiotics", which corpora of chemicals leave out:
    those of CURRENT_NAMES, with all names that the KB has for them.
    Their weights are rounded, and saved as float16 numbers. So KB has to be embedded after this.
    """
    source = spacy.load(trained)
    nlp = spacy.blank(source.lang, config={"nlp": {"batch_size": 100}})
    nlp.tokenizer.infix_finditer = compile_infix_regex(SPLITS).finditer
    for name in source.pipe_names:
        config = source.get_pipe_config(name)
        config["model"]["encoder"] = NO_SOURCE
        config["model"].pop("layer", None)  # where it began; its weights are saved
        config["runtime"] = "auto"
        pipe = nlp.add_pipe(config.pop("factory"), name, config={**config, "kb": str(kb)})
        pipe.from_disk(trained / name)
        pipe.set_kb(kb)
        if name == "kb_ner":
            pipe.cfg["marked_names"] = names_of_classes(current_names, pipe.kb)
        for tower in towers_of(pipe.model):
            round_weights(encoder_of(tower), STEPS[name])
    nlp.to_disk(output)
    print(f"{output}: {', '.join(nlp.pipe_names)}")


def round_weights(encoder: Packable, step: float) -> None:
    """Round the weights of an encoder to multiples of a step, as float16 numbers."""
    weights = encoder.weights().items()
    rounded = {name: (w / step).round().mul(step).half().float() for name, w in weights}
    encoder.restore(encoder.description(), rounded)


def names_of_classes(current_names: Path, kb: KnowledgeBase) -> list[str]:
    """Return the names of the classes of drugs in a list, in lower case."""
    rows = [line.split("\t") for line in current_names.read_text("utf8").splitlines()]
    ids = dict.fromkeys(id for id, _, _, kind in rows if kind == "class")
    entities = (kb[id] for id in ids if id in kb)
    of_kb = {n for e in entities if PARTS["D27"] in e.types for n in e.names}
    listed = {name for _, _, name, kind in rows if kind == "class"}
    return sorted({name.lower() for name in of_kb | listed})


if __name__ == "__main__":
    typer.run(main)
