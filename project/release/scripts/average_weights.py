"""Average the weights of a trained linker with those of its encoder before training.

Training on mentions that are easier than those of real texts both helps and harms. The average often links
better than either model, at the same cost (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models",
section 3: weight-space ensembles).
"""

from pathlib import Path

import spacy
import torch
import typer
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.io.whole_files import whole_folder
from spacy_pel.kb.location import pipeline_at
from spacy_pel.models.architectures import (
    PretrainedEncoder,
    TrainedEncoder,
    encoder_of,
    load_encoder,
    retriever_from_settings,
    saved_settings,
)
from spacy_pel.package.assemble import check_replaceable
from spacy_pel.pipeline.pipelines import linker_of
from spacy_pel.text.token_inputs import MENTION_END, MENTION_START


def main(pipeline: str, encoder: str, out: Path, share: float = 0.5, force: bool = False) -> None:
    """Average the linker of PIPELINE with ENCODER, and save the pipeline to OUT.

    SHARE is the weight of the trained linker. The new pipeline needs new vectors and a new calibration.
    """
    check_replaceable(out, force=force)
    nlp = spacy.load(pipeline)
    average_weights(nlp, encoder, share)
    with whole_folder(out) as folder:
        nlp.to_disk(folder)
    print(f"{out}: embed the KB with it: python -m spacy pel kb embed KB {out}")


def average_weights(nlp: Language, encoder: str, share: float = 0.5) -> None:
    """Average the weights of a linker's retriever with those of an encoder, and drop the calibration.

    The embeddings of the marker tokens of mentions stay as trained: an encoder without them has random ones.

    Args:
        nlp: The pipeline of the linker.
        encoder: The encoder before training: the name or folder of a BERT, or of a pipeline.
        share: The weight of the trained linker, 0 to 1.

    Raises:
        PelError: There is no linker, its encoder is another component's, or the encoder is missing or has
            other layers or another vocabulary.
    """
    linker = linker_of(nlp)
    retriever = linker.model
    if retriever.attrs["architecture"].listens:
        problem = "the linker listens to another component, whose weights are not averaged"
        remedy = "give a linker with a spacy-pel.BiEncoder.v1 or a spacy-pel.DocumentEncoder.v1"
        raise PelError(problem, remedy)
    folder = pipeline_at(encoder)
    if folder is not None and (folder / "meta.json").is_file():
        source = TrainedEncoder(encoder)
    else:  # the linker may have only the first layers of a BERT
        layers = encoder_of(retriever.layers[-1]).transformer.config.num_hidden_layers
        source = PretrainedEncoder(encoder, layers)
    settings = saved_settings(retriever)
    before = load_encoder(source, settings["mention_layers"], retriever_from_settings(settings), ())
    for trained_tower, old_tower in zip(retriever.layers, before.layers):
        trained, old = encoder_of(trained_tower), encoder_of(old_tower)
        if trained.description() != old.description():
            problem = (
                f'the encoder "{encoder}" has other layers or another vocabulary than the linker'
            )
            raise PelError(problem, "give the encoder that the linker's training began with")
        markers = [trained.tokenizer.token_to_id(token) for token in (MENTION_START, MENTION_END)]
        trained.float()  # weights may be stored as float16
        embeddings = trained.transformer.get_input_embeddings().weight
        with torch.no_grad():
            marker_embeddings = embeddings[markers].clone()
            for weight, old_weight in zip(trained.parameters(), old.parameters(), strict=True):
                weight.lerp_(old_weight, 1 - share)
            embeddings[markers] = marker_embeddings
    linker.fitted.forget(keep_threshold=False)
    linker.forget_weights()


if __name__ == "__main__":
    typer.run(main)
