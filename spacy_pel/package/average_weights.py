"""The weights of a trained linker and of its encoder before training, averaged: ``pel average``.

Training on mentions that are easier than those of real texts gains and harms. The average often links
better than either, and takes no longer (Wortsman et al. 2022, "Robust fine-tuning of zero-shot
models", section 3: weight-space ensembles).
"""

import torch
from spacy.language import Language

from ..errors import PelError
from ..models.architectures import (
    PretrainedEncoder,
    TrainedEncoder,
    encoder_of,
    load_encoder,
    pipeline_folder,
    retriever_from_settings,
    saved_settings,
)
from ..pipeline.pipelines import linker_of
from ..text.token_inputs import MENTION_END, MENTION_START


def average_weights(
    nlp: Language, encoder: str, share: float = 0.5, *, component: str = "proxy_linker"
) -> None:
    """Average the weights of a linker's retriever with those of an encoder.

    The linker's KB then needs vectors of the new weights. What was calibrated is dropped. The
    embeddings of the tokens that mark a mention stay as they were trained: an encoder that comes
    without them has random ones.

    Args:
        encoder: What its training began with: the name or folder of a BERT, or of a pipeline.
        share: How much the trained weights count, 0 to 1; the encoder's count the rest.

    Raises:
        PelError: There is no linker, it has no encoder of mentions of its own, the encoder is
            missing, or it has other layers or another vocabulary than the linker.
    """
    linker = linker_of(nlp, component)
    retriever = linker.model
    if retriever.attrs["architecture"].listens:
        problem = (
            "the linker reads documents with another component, whose weights are not averaged"
        )
        remedy = "give a linker with a spacy-pel.BiEncoder.v1 or a spacy-pel.DocumentEncoder.v1"
        raise PelError(problem, remedy)
    folder = pipeline_folder(encoder)
    if folder is not None and (folder / "meta.json").is_file():
        source = TrainedEncoder(encoder)
    else:  # training may have kept its first layers alone
        layers = encoder_of(retriever.layers[-1]).transformer.config.num_hidden_layers
        source = PretrainedEncoder(encoder, layers)
    settings = saved_settings(retriever)
    before = load_encoder(source, settings["mention_layers"], retriever_from_settings(settings), ())
    for towers in zip(retriever.layers, before.layers):
        own, other = map(encoder_of, towers)
        if own.description() != other.description():
            problem = (
                f'the encoder "{encoder}" has other layers or another vocabulary than the linker'
            )
            raise PelError(problem, "give the encoder that the linker's training began with")
        markers = [own.tokenizer.token_to_id(token) for token in (MENTION_START, MENTION_END)]
        own.float()  # what was read as float16
        words = own.transformer.get_input_embeddings().weight
        with torch.no_grad():
            learnt = words[markers].clone()
            for weight, old in zip(own.parameters(), other.parameters(), strict=True):
                weight.lerp_(old, 1 - share)
            words[markers] = learnt
    linker.fitted.forget(keep_threshold=False)
    linker.forget_weights()
