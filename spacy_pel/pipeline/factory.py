"""The factory of ``proxy_linker`` and its default config."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from spacy.language import Language
from thinc.api import Config

from ..errors import PelError
from ..models.adversarial import FGSM
from ..models.architectures import AnyModel
from ..models.losses import MentionPairLoss, ScoreLoss
from ..training.arborescence import Arborescence
from ..training.mention_views import MaskAndReplace
from ..training.negatives import Sampler
from .annotations import install_extensions
from .proxy_linker import ProxyLinker
from .settings import OutputSettings, SearchSettings, TrainingSettings

T = TypeVar("T", SearchSettings, OutputSettings, TrainingSettings)

install_extensions()  # spaCy imports this with the first pipeline, also a blank one

DEFAULT_CONFIG = """
[proxy_linker]
# The folder of the knowledge base (KB), which "python -m spacy pel kb build SOURCE KB" makes.
kb = null
# A trained linker to open: the folder of a pipeline, the folder "proxy_linker" in it, or the name of
# an installed pipeline.
path = null
# Where the mentions are. null: doc.ents. "NAME": doc.spans["NAME"], whose spans may overlap.
spans_key = null
# How an acronym is read that its document defines, as in "multiple sclerosis (MS)". true: as its
# long form, in training and in linking. false: as it is written, as in the paper (PEL).
resolve_abbreviations = true
# The types of the entities that are searched: names or codes. A type includes those below it. ""
# stands for entities without a type. null: all entities.
types = null
# The sources of the entities that are searched, such as ["MSH"]. null: all sources.
sources = null
# Other types for the mentions that have a label: {"DISEASE": ["T047", "T048"]}. They replace
# "types". A third of MeSH has no type, so there: {"Chemical": ["Chemical or Drug", ""]}. null: none.
label_types = null
# true: an entity that alone has the mention as a name comes first, whatever the scores, but not for
# acronyms, with a reranker, or once "pel calibrate" has fitted a ranking. false:
# the scores alone decide the order, as in the paper.
unambiguous_names_first = true
# true: mentions in a document with the same text, ignoring case, get one answer, by mean scores.
one_entity_per_name = false
# The number of candidates of a mention. A candidate is an entity with a score.
candidates = 8
# A mention is NIL, which means that the KB lacks its entity, if its best score is below this
# threshold. null: the threshold that "python -m spacy pel calibrate" finds; without it no mention is
# NIL. Scores are the retriever's: -1 to 1 with similarity = "cosine", any number with "dot". After "pel
# calibrate" it is the probability that a candidate is right, 0 to 1.
nil_threshold = null
# A mention is not NIL, whatever its score, if its first candidate alone has it as a name, or is right
# with this probability at least (which "pel calibrate" fits). null: the score alone decides.
sure_probability = 0.5
# These four settings of scispaCy choose the candidates in span._.kb_ents (docs/migration.md): the
# score that a candidate has to exceed, null for any;
threshold = null
# the lowest score of a candidate without a definition, if the next setting is true;
no_definition_threshold = 0.95
filter_for_definitions = false
# and the largest number of candidates, of which the best are taken.
max_entities_per_mention = 5
# scispaCy's settings that mean nothing here: an error says what to set instead.
linker_name = null
k = null
# What gets a row (a vector) in the index that is searched. "title": each entity, by its canonical
# name, types and definition, as in the paper. "entity": the same with its aliases. "name": each name
# of an entity. "described-name": each name, together with the definition.
index_unit = "name"
# The number of candidates that the reranker, if there is one, orders again. 0: none.
rerank = 16
# A cross-encoder, which reads a mention and a candidate together: @architectures =
# "spacy-pel.CrossEncoder.v1", see project/configs/demo_rerank.cfg. null: none. With one, training
# changes it alone, on the candidates that the trained retriever of "path" finds.
reranker = null
# What computes the encoders of mentions and of the reranker when the linker links; training and the
# KB's vectors are torch's. "torch": in the precision of "mixed_precision". "exact": the same, each
# document by itself: the digits do not depend on the size of batches. "onnx": ONNX Runtime on a CPU,
# whose vectors are nearly the same. "onnx-int8": with 8-bit products, whose cosine to the exact vectors
# is 0.99 (docs/speed.md). Both need pip install "spacy-pel[onnx]", and one second for 6
# layers at the first document. "auto": "onnx-int8" on a CPU where it is installed and faster, otherwise
# "torch"; the log says which.
runtime = "torch"
# The probability, 0 to 1, that training hides an alias of an entity.
name_dropout = 0.1
# true: training changes the encoder of mentions alone, against the vectors that the KB has, which
# stay right. A step costs less than half. The model needs two towers (shared = false), started from
# the encoder that embedded the KB.
freeze_entities = false
# Trains mentions also against the other training mentions of their entity, and of other entities:
# @misc = "spacy-pel.Arborescence.v1", see project/configs/arborescence.cfg. null: against entities alone.
coreference = null
# Also compares the mentions of a batch with each other: those of one entity are drawn together.
# @losses = "spacy-pel.MentionPairLoss.v1", with the batcher spacy-pel.batch_by_entities.v1, see
# project/configs/self_supervised.cfg. null: mentions are compared with entities alone, as in PEL.
pair_loss = null
# Hides some mentions in training, and puts synonyms in the place of others, so that the context is
# learnt as well: @misc = "spacy-pel.MaskAndReplace.v1". For spacy-pel.BiEncoder.v1. null: does not.
views = null
# Whether an id that a mention already has is replaced.
overwrite = true
# The vocabularies whose codes are written as span._.kb_xrefs, such as ["SNOMEDCT_US", "ICD10CM"].
# They are prefixes of the KB's cross-references. "CURIE" is the id itself, as in "MESH:D001172". null: none.
xrefs = null
# Whether the vector of each mention is written as span._.kb_vector. Joint linking sets this itself.
vectors = false

[proxy_linker.model]
@architectures = "spacy-pel.BiEncoder.v1"
# A tower is an encoder. true: one tower for mentions and entities. false: one for each.
shared = true
# A vector is the mean of states, the encoder's outputs for tokens. "mean": of all tokens, as in the
# paper. "focus": of the tokens of the mention, or of the entity's name. "both": the sum of these two
# means, which is best for an encoder from scratch. "cls": of [CLS], as in KRISSBERT and ArboEL.
pooling = "both"
# The score of two vectors: "cosine" (for ProxyLoss) or "dot" (for CrossEntropyLoss).
similarity = "cosine"
# The largest number of tokens of a mention with its context.
mention_length = 128
# The largest number of tokens of an entity.
entity_length = 128
# true: bfloat16, which is much faster on processors and GPUs that have it. false: float32.
mixed_precision = false

# A small BERT that is built from scratch, without a download. For real work set
# @misc = "spacy-pel.PretrainedEncoder.v1" and name = a name or path of a BERT, such as SapBERT.
[proxy_linker.model.encoder]
@misc = "spacy-pel.ScratchEncoder.v1"
layers = 2
# The length of a state, and the number of attention heads that share it.
width = 128
heads = 4
# The largest number of word pieces in the vocabulary, which is learned from the KB and the corpus.
vocab_size = 8000
# The largest number of tokens of any input.
max_tokens = 512

# alpha: the steepness of the loss. delta: its margin. bias: where it cuts, a score; "first_batch": where
# pull and push of the first batch balance (0 is the paper's). loss = null: pair_loss alone.
[proxy_linker.loss]
@losses = "spacy-pel.ProxyLoss.v2"
alpha = 32
delta = 0
bias = "first_batch"

# Adversarial regularisation. epsilon: the size of the perturbation. weight: the factor of
# the adversarial loss. To do without: regularizer = null
[proxy_linker.regularizer]
@misc = "spacy-pel.FGSM.v1"
epsilon = 0.01
weight = 1.0

# The wrong entities that a mention is compared with in training. n: the number drawn from the KB for
# a batch. in_batch: whether the entities of the batch's other mentions are added.
[proxy_linker.negatives]
@misc = "spacy-pel.RandomNegatives.v1"
n = 32
in_batch = true

[proxy_linker.scorer]
@scorers = "spacy-pel.linking_scorer.v1"
"""

DEFAULTS = Config().from_str(DEFAULT_CONFIG)["proxy_linker"]

# Settings of scispaCy that do not apply here, and the remedy.
SCISPACYS = {
    "linker_name": "scispaCy downloads a knowledge base of this name; here one is built once, with "
    '"python -m spacy pel kb build SOURCE KB", and a trained linker names it: '
    'config={"path": PIPELINE}, and "kb": KB if its KB is another one',
    "k": 'scispaCy looks up this number of names for a mention; here "candidates" is the number of '
    "entities that a mention keeps",
}


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
        "span._.kb_types",
        "span._.kb_xrefs",
        "span._.kb_vector",
        "span._.kb_via",
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
    *,
    kb: str | None,
    path: str | None,
    spans_key: str | None,
    resolve_abbreviations: bool,
    types: list[str] | None,
    sources: list[str] | None,
    label_types: dict[str, list[str]] | None,
    unambiguous_names_first: bool,
    one_entity_per_name: bool,
    candidates: int,
    nil_threshold: float | None,
    sure_probability: float | None,
    threshold: float | None,
    no_definition_threshold: float,
    filter_for_definitions: bool,
    max_entities_per_mention: int,
    linker_name: str | int | None,
    k: str | int | None,
    index_unit: str,
    rerank: int,
    reranker: AnyModel | None,
    runtime: str,
    name_dropout: float,
    freeze_entities: bool,
    coreference: Arborescence | None,
    pair_loss: MentionPairLoss | None,
    views: MaskAndReplace | None,
    overwrite: bool,
    xrefs: list[str] | None,
    vectors: bool,
    model: AnyModel,
    loss: ScoreLoss | None,
    regularizer: FGSM | None,
    negatives: Sampler,
    scorer: Callable[..., dict[str, Any]] | None,
) -> ProxyLinker:
    """Make a linker from its settings, which ``DEFAULT_CONFIG`` explains."""
    settings: dict[str, Any] = dict(locals())
    for setting, value in (("linker_name", linker_name), ("k", k)):
        if value is not None:
            raise PelError(f"proxy_linker has no {setting}={value!r}", SCISPACYS[setting])
    for argument in ("nlp", "name", "linker_name", "k"):
        del settings[argument]
    search = _group(SearchSettings, settings)
    output = _group(OutputSettings, settings)
    training = _group(TrainingSettings, settings)
    return ProxyLinker(nlp, name, search=search, output=output, training=training, **settings)


def _group(kind: type[T], settings: dict[str, Any]) -> T:
    """Remove the settings of a group from all settings, and return the group."""
    return kind(**{field.name: settings.pop(field.name) for field in fields(kind)})
