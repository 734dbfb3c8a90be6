"""thinc models around ``models/``: what the pipeline trains, saves and loads.

The reranker is in ``architectures.crossencoder``, which is imported only where there is one.
"""

from .encoder_sources import (
    PretrainedEncoder,
    ScratchEncoder,
    TrainedEncoder,
    linker_folder,
    pipeline_folder,
)
from .retriever_model import (
    Architecture,
    architecture_of,
    entity_reader,
    give_tree_numbers,
    make_retriever,
    mention_reader,
    pack_retriever,
    retriever_from_settings,
    saved_settings,
    tok2vec_of,
    unpack_retriever,
)
from .retrievers import BiEncoder, DocumentEncoder, SharedEncoder
from .towers import (
    EncoderSource,
    Tower,
    check_choice,
    encoder_of,
    is_initialized,
    load_encoder,
    set_dropout,
    set_gradient_caching,
)

__all__ = [
    "Architecture",
    "BiEncoder",
    "DocumentEncoder",
    "EncoderSource",
    "PretrainedEncoder",
    "ScratchEncoder",
    "SharedEncoder",
    "Tower",
    "TrainedEncoder",
    "architecture_of",
    "check_choice",
    "encoder_of",
    "entity_reader",
    "give_tree_numbers",
    "is_initialized",
    "linker_folder",
    "load_encoder",
    "make_retriever",
    "mention_reader",
    "pack_retriever",
    "pipeline_folder",
    "retriever_from_settings",
    "saved_settings",
    "set_dropout",
    "set_gradient_caching",
    "tok2vec_of",
    "unpack_retriever",
]
