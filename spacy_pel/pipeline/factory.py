"""The factory of ``proxy_linker`` and its default config."""

from collections.abc import Callable
from pathlib import Path

from spacy.language import Language
from thinc.api import Config, Model

from ..errors import PelError
from .kb_ents import refuse_settings_of_scispacy
from .proxy_linker import ProxyLinker
from .settings import (
    AnswerSettings,
    MentionSettings,
    SearchSettings,
    TrainingSettings,
    takes_settings_flat,
)

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
resolve_abbreviations = true
# Types, by name or code, and sources, such as ["MSH"], of the entities that are searched. Types
# below count as well; "" stands for entities without a type. null: all entities.
types = null
sources = null
# For mentions of a label, the types in place of those above: {"DISEASE": ["T047", "T048"]}; or, as
# a third of MeSH has no type, {"Chemical": ["Chemical or Drug", ""]}.
label_types = null
# Whether mentions of a document that are the same words, but for case, get one answer, by the means
# of their scores.
agree = false
# How many candidates a mention keeps.
candidates = 64
# A mention whose best score is below it is NIL: the KB lacks its entity. null: the threshold that
# "python -m spacy pel calibrate" has found, and before that no mention is NIL.
nil_threshold = null
# Which candidates span._.kb_ents has, as in scispaCy: the first max_entities_per_mention of those
# with a score above the threshold (null: any); if they are filtered for definitions, one without a
# definition needs a score of no_definition_threshold. What scores mean is another thing than in
# scispaCy, see docs/migration.md.
threshold = null
no_definition_threshold = 0.95
filter_for_definitions = false
max_entities_per_mention = 5
# Settings of scispaCy's linker that mean nothing here: an error says what does.
linker_name = null
k = null
# What a row of the index stands for: an "entity" (the paper), a "name" of one, or a
# "described-name", which has the definition with it.
row_kind = "name"
# How many of the candidates the reranker reads again, if there is one; 0 for none.
rerank = 16
# A cross-encoder, or null. A linker with one trains it alone, on what the trained retriever of
# "path" finds: @architectures = "spacy-pel.CrossEncoder.v1", see project/configs/demo_rerank.cfg.
reranker = null
# What computes the encoders of mentions and of the reranker when linking: "torch", in the precision
# that it was trained in; "torch-float32", "torch-bfloat16"; or, on a CPU, "onnx"
# (ONNX Runtime, float32: states within 1e-4, 1.1 to 1.4 times as fast); or "onnx-int8" (products
# of 8-bit numbers: 1.6 to 2.1 times as fast, cosine of vectors 0.99, recall@1 of a trained linker
# within 0.3 points). These two are made at the first document, in a second for 6 layers, and need
# pip install "spacy-pel[onnx]". Training and the KB's vectors are torch's whatever is set here.
runtime = "torch"
# In training, each alias is hidden with this probability.
name_dropout = 0.1
# Whether training changes the mentions' encoder alone, against the vectors that the KB has. A step
# costs less than half, hard negatives are never out of date, and the KB stays embedded. The model
# has two towers (shared = false), which start from the encoder that embedded the KB.
freeze_entities = false
# Whether training computes the encoders' passes twice in place of keeping them until the gradients
# are known: 11 to 20 % more time, and memory that does not grow with the batch and its negatives.
gradient_caching = false
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
        "span._.kb_candidate_columns",
        "span._.kb_ents",
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
@takes_settings_flat
def make_proxy_linker(
    nlp: Language,
    name: str,
    model: Model,
    kb: str | None,
    path: str | None,
    nil_threshold: float | None,
    row_kind: str,
    reranker: Model | None,
    runtime: str,
    scorer: Callable | None,
    linker_name: str | None,
    k: int | None,
    mention_settings: MentionSettings,
    search_settings: SearchSettings,
    answer_settings: AnswerSettings,
    training_settings: TrainingSettings,
) -> ProxyLinker:
    """Construct the component; the settings are explained in ``DEFAULT_CONFIG``."""
    refuse_settings_of_scispacy(linker_name=linker_name, k=k)
    if search_settings.rerank < 0:
        raise PelError(
            f'"rerank" of "{name}" is {search_settings.rerank}', "set it to 0 for no reranking"
        )
    linker = ProxyLinker(
        nlp.vocab,
        model,
        name,
        kb=kb,
        path=path,
        nil_threshold=nil_threshold,
        row_kind=row_kind,
        reranker=reranker,
        runtime=runtime,
        scorer=scorer,
        mention_settings=mention_settings,
        search_settings=search_settings,
        answer_settings=answer_settings,
        training_settings=training_settings,
    )
    # A pipeline that was opened this way and saved has weights of its own: when it is loaded, the
    # folder may be gone.
    if path is not None and Path(path).exists():
        linker.open(path)
    return linker
