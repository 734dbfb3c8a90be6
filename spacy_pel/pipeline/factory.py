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
# How to read an acronym that its document defines, as in "multiple sclerosis (MS)", in training and in
# linking. true: as its long form. false: as written, as in the paper (PEL).
resolve_abbreviations = true
# The types of the entities to search: names or codes. A type includes its subtypes. "" stands for
# entities without a type. null: all entities.
types = null
# The sources of the entities to search, such as ["MSH"]. null: all sources.
sources = null
# The types for mentions with a label: {"DISEASE": ["T047", "T048"]}. They replace "types". A third of
# MeSH has no type; for MeSH, add "": {"Chemical": ["Chemical or Drug", ""]}. null: none.
label_types = null
# true: the only entity with the mention as a name comes first, regardless of the scores. This does not
# apply to acronyms, with a reranker, or after "pel calibrate" has fitted a ranking. false: the scores
# decide the order, as in the paper.
unambiguous_names_first = true
# true: mentions in a document with the same text, ignoring case, get one answer, by mean scores.
one_entity_per_name = false
# The number of candidates of a mention. A candidate is an entity with a score.
candidates = 8
# A mention is NIL (the KB lacks its entity) if its best score is below this threshold. null: the
# threshold that "pel calibrate" fits; without it, no mention is NIL. The scores are the retriever's: -1
# to 1 with similarity = "cosine", any number with "dot". After "pel calibrate", the score is the
# probability that a candidate is correct, 0 to 1.
nil_threshold = null
# A mention is never NIL if its first candidate is the only entity with the mention as a name, or is
# correct with at least this probability (from "pel calibrate"). null: only the score decides.
sure_probability = 0.5
# These four settings of scispaCy choose the candidates in span._.kb_ents (docs/migration.md).
# The score that a candidate must exceed; null: any.
threshold = null
# The minimum score of a candidate without a definition, if filter_for_definitions is true.
no_definition_threshold = 0.95
filter_for_definitions = false
# The maximum number of candidates.
max_entities_per_mention = 5
# Settings of scispaCy that do not apply here. Setting one raises an error that names its replacement.
linker_name = null
k = null
# The unit that has a row (a vector) in the index. "title": each entity, by its canonical
# name, types and definition, as in the paper. "entity": the same with its aliases. "name": each name
# of an entity. "described-name": each name, together with the definition.
index_unit = "name"
# The number of candidates to rerank. 0: none.
rerank = 16
# A cross-encoder, which reads a mention and a candidate together: @architectures =
# "spacy-pel.CrossEncoder.v1", see project/configs/demo_rerank.cfg. null: none. With a
# reranker, training changes only the reranker, on candidates of the trained retriever at "path".
reranker = null
# The library that encodes mentions and pairs for the reranker in linking (docs/speed.md). Training and
# the KB's vectors always use torch. "torch": in the precision of "mixed_precision". "exact": the same,
# each document by itself, so the digits do not depend on the batch size. "onnx": ONNX Runtime on a CPU,
# with nearly the same vectors. "onnx-int8": the same with 8-bit products; the cosine to the exact vectors
# is 0.99. Both need pip install "spacy-pel[onnx]", and one second for 6 layers at the first document.
# "auto": "onnx-int8" on a CPU where ONNX Runtime is installed, otherwise "torch"; the log names the choice.
runtime = "torch"
# The probability, 0 to 1, that training hides an alias of an entity.
name_dropout = 0.1
# true: training changes only the mention encoder, so the vectors of the KB stay valid. A step costs less
# than half. The model needs two towers (shared = false), initialized from the encoder that embedded the
# KB.
freeze_entities = false
# Trains mentions also against the other training mentions of their entity, and of other entities:
# @misc = "spacy-pel.Arborescence.v1", see project/configs/arborescence.cfg. null: only against entities.
coreference = null
# Also compares the mentions of a batch with each other: those of one entity are drawn together.
# @losses = "spacy-pel.MentionPairLoss.v1", with the batcher spacy-pel.batch_by_entities.v1, see
# project/configs/self_supervised.cfg. null: mentions are compared only with entities, as in PEL.
pair_loss = null
# Hides some mentions in training and replaces others by synonyms, so that the encoder also learns the
# context: @misc = "spacy-pel.MaskAndReplace.v1", for spacy-pel.BiEncoder.v1. null: neither.
views = null
# Whether to replace the id that a mention already has.
overwrite = true
# The vocabularies whose codes are written as span._.kb_xrefs, such as ["SNOMEDCT_US", "ICD10CM"].
# They are prefixes of the KB's cross-references. "CURIE" is the id itself, as in "MESH:D001172". null: none.
xrefs = null
# Whether to write the vector of each mention as span._.kb_vector. Joint linking sets this itself.
vectors = false

[proxy_linker.model]
@architectures = "spacy-pel.BiEncoder.v1"
# A tower is an encoder. true: one tower for mentions and entities. false: one for each.
shared = true
# A vector is the mean of states, the encoder's outputs for tokens. "mean": of all tokens, as in the
# paper. "focus": of the tokens of the mention, or of the entity's name. "both": the sum of these two
# means, best for an encoder from scratch. "cls": of [CLS], as in KRISSBERT and ArboEL.
pooling = "both"
# The score of two vectors: "cosine" (for ProxyLoss) or "dot" (for CrossEntropyLoss).
similarity = "cosine"
# The maximum number of tokens of a mention with its context.
mention_length = 128
# The maximum number of tokens of an entity.
entity_length = 128
# true: bfloat16, which is much faster on processors and GPUs that have it. false: float32.
mixed_precision = false

# A small BERT that is built from scratch, without a download. For real work set
# @misc = "spacy-pel.PretrainedEncoder.v1" and name = a name or path of a BERT, such as SapBERT.
[proxy_linker.model.encoder]
@misc = "spacy-pel.ScratchEncoder.v1"
layers = 2
# The length of a state, and the number of attention heads.
width = 128
heads = 4
# The maximum number of word pieces in the vocabulary, learned from the KB and the corpus.
vocab_size = 8000
# The largest number of tokens of any input.
max_tokens = 512

# alpha: the steepness of the loss. delta: its margin. bias: the score at which pull and push are equal;
# "first_batch" computes it from the first batch (the paper: 0). loss = null: only pair_loss is used.
[proxy_linker.loss]
@losses = "spacy-pel.ProxyLoss.v2"
alpha = 32
delta = 0
bias = "first_batch"

# Adversarial regularisation. epsilon: the size of the perturbation. weight: the factor of
# the adversarial loss. regularizer = null: no regularisation.
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
