"""thinc models around ``models/``: what the pipeline trains, saves and loads."""

from .encoder_sources import (
    PretrainedEncoder,
    ScratchEncoder,
    TrainedEncoder,
    linker_folder,
    pipeline_folder,
)
from .retrievers import (
    Architecture,
    BiEncoder,
    DocumentEncoder,
    Retriever,
    SharedEncoder,
    entity_fingerprint,
    entity_vectors,
    fingerprint,
    make_retriever,
    pack_retriever,
    retriever_from_settings,
    saved_settings,
    unpack_retriever,
)
from .towers import (
    AnyModel,
    EncoderSource,
    Tower,
    check_choice,
    encoder_of,
    is_initialized,
    load_encoder,
    pack_model,
    set_dropout,
    towers_of,
    unpack_model,
)
