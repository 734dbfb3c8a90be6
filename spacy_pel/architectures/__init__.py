"""thinc models around ``models/``: what the pipeline trains, saves and loads.

The reranker's is in ``architectures.crossencoder``, which is imported where there is one.
"""

from .biencoder import BiEncoder
from .document import DocumentEncoder
from .retrievers import (
    entity_settings,
    from_packed,
    from_settings,
    input_builder,
    reads_documents,
    settings,
    shares_reading,
    tok2vec_of,
)
from .shared import SharedEncoder
from .sources import EncoderSource, PretrainedEncoder, ScratchEncoder, TrainedEncoder
from .towers import (
    Tower,
    TowerInputs,
    encoder_of,
    is_initialized,
    pack_model,
    set_dropout,
    set_gradient_caching,
)

__all__ = [
    "BiEncoder",
    "DocumentEncoder",
    "EncoderSource",
    "PretrainedEncoder",
    "ScratchEncoder",
    "SharedEncoder",
    "Tower",
    "TowerInputs",
    "TrainedEncoder",
    "encoder_of",
    "entity_settings",
    "from_packed",
    "from_settings",
    "input_builder",
    "is_initialized",
    "pack_model",
    "reads_documents",
    "set_dropout",
    "set_gradient_caching",
    "settings",
    "shares_reading",
    "tok2vec_of",
]
