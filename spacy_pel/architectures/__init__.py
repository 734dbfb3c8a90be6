"""thinc models around ``models/``: what the pipeline trains, saves and loads.

The reranker is in ``architectures.crossencoder``, which is imported only where there is one.
"""

from .biencoder import BiEncoder
from .document_encoder import DocumentEncoder
from .encoder_sources import EncoderSource, PretrainedEncoder, ScratchEncoder
from .retriever_model import (
    Architecture,
    architecture_of,
    entity_reader,
    give_tree_numbers,
    make_retriever,
    mention_reader,
    tok2vec_of,
)
from .saved_retriever import (
    pack_retriever,
    retriever_from_settings,
    saved_settings,
    unpack_retriever,
)
from .shared_encoder import SharedEncoder
from .towers import (
    Tower,
    encoder_of,
    is_initialized,
    load_encoder,
    set_dropout,
    set_gradient_caching,
)
from .trained_encoder import TrainedEncoder, linker_folder, pipeline_folder

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
