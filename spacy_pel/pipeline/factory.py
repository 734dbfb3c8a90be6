"""The factory of ``proxy_linker`` and its default config."""

from pathlib import Path
from typing import Callable, Dict, List, Optional

from spacy.language import Language
from thinc.api import Config, Model

from ..models.adversarial import FGSM
from ..models.losses import ScoreLoss
from .proxy_linker import ProxyLinker

DEFAULT_CONFIG = """
[proxy_linker]
# The folder of the knowledge base (made by: python -m spacy pel kb build SOURCE KB).
kb = null
# A trained linker to open: the folder of a pipeline, or its folder "proxy_linker".
path = null
# Where the mentions are: doc.ents (null), or doc.spans[spans_key], which may overlap.
spans_key = null
# Whether an acronym that its document defines, as in "multiple sclerosis (MS)", is read as its long
# form, in training and in linking. The paper does not.
expand_acronyms = true
# Entity types, by name or code, to which the search for mentions of a label is confined, such as
# {"DISEASE": ["T047", "T048"]}; "" stands for entities without a type, as a third of MeSH has none:
# {"Chemical": ["Chemical or Drug", ""]}. null, or a label that is not here: all entities.
label_types = null
# How many candidates a mention keeps.
candidates = 64
# A mention whose best score is below it is NIL: the KB lacks its entity. null: the threshold that
# "python -m spacy pel calibrate" has found, and before that no mention is NIL.
nil_threshold = null
# What a row of the index stands for: an "entity" (the paper), a "name" of one, or a
# "described-name", which has the definition with it.
row_kind = "name"
# How many of the candidates the reranker reads again, if there is one; 0 for none.
rerank = 16
# A cross-encoder, or null. A linker with one trains it alone, on what the trained retriever of
# "path" finds: @architectures = "spacy-pel.CrossEncoder.v1", see project/configs/demo_rerank.cfg.
reranker = null
# In training, each alias is hidden with this probability.
name_dropout = 0.1
# Whether to replace ids that are already on the mentions.
overwrite = true

[proxy_linker.model]
@architectures = "spacy-pel.BiEncoder.v1"
# One tower for mentions and entities, or two.
shared = true
# "mean" over all tokens (the paper), "focus": over the mention's or the title's; or "both", best
# for an encoder from scratch.
pooling = "both"
# "cosine" (for ProxyLoss) or "dot" (for CrossEntropyLoss).
similarity = "cosine"
# The most tokens of an input.
mention_length = 128
entity_length = 128
# bfloat16: much faster on processors and GPUs that have it.
mixed_precision = false

# A small BERT built from scratch: no download. For real work give
# @misc = "spacy-pel.PretrainedEncoder.v1" and a name or path of a BERT, such as SapBERT.
[proxy_linker.model.encoder]
@misc = "spacy-pel.ScratchEncoder.v1"
layers = 2
width = 128
heads = 4
vocab_size = 8000
max_tokens = 512

[proxy_linker.loss]
@losses = "spacy-pel.ProxyLoss.v1"
alpha = 32
delta = 0

# null for no adversarial regularisation.
[proxy_linker.regularizer]
@misc = "spacy-pel.FGSM.v1"
epsilon = 0.01
weight = 1.0

[proxy_linker.negatives]
@misc = "spacy-pel.RandomNegatives.v1"
n = 32
in_batch = true

[proxy_linker.scorer]
@scorers = "spacy-pel.linking_scorer.v1"
"""

DEFAULTS = Config().from_str(DEFAULT_CONFIG)["proxy_linker"]


@Language.factory(
    "proxy_linker",
    assigns=[
        "token.ent_kb_id",
        "span._.kb_id",
        "span._.kb_score",
        "span._.kb_probability",
        "span._.kb_candidates",
    ],
    default_config=DEFAULTS,
    default_score_weights={
        "nel_recall_at_1": 1.0,
        "nel_recall_at_64": None,
        "nel_mrr": None,
        "nel_micro_f": None,
        "nel_micro_r": None,
        "nel_micro_p": None,
    },
)
def make_proxy_linker(
    nlp: Language,
    name: str,
    model: Model,
    kb: Optional[str],
    path: Optional[str],
    spans_key: Optional[str],
    expand_acronyms: bool,
    label_types: Optional[Dict[str, List[str]]],
    candidates: int,
    nil_threshold: Optional[float],
    row_kind: str,
    name_dropout: float,
    overwrite: bool,
    reranker: Optional[Model],
    rerank: int,
    loss: ScoreLoss,
    regularizer: Optional[FGSM],
    negatives: Callable,
    scorer: Optional[Callable],
) -> ProxyLinker:
    """Construct the component; the arguments are explained in ``DEFAULT_CONFIG``."""
    linker = ProxyLinker(
        nlp.vocab,
        model,
        name,
        kb=kb,
        path=path,
        spans_key=spans_key,
        expand_acronyms=expand_acronyms,
        label_types=label_types,
        candidates=candidates,
        nil_threshold=nil_threshold,
        row_kind=row_kind,
        name_dropout=name_dropout,
        overwrite=overwrite,
        reranker=reranker,
        rerank=rerank,
        loss=loss,
        regularizer=regularizer,
        negatives=negatives,
        scorer=scorer,
    )
    # A pipeline that was opened this way and saved has weights of its own: when it is loaded, the
    # folder may be gone.
    if path is not None and Path(path).exists():
        linker.open(path)
    return linker
