"""The one list of registered names. ``setup.py`` makes an entry point of each.

To add a function: write it where it belongs, add a line here, and install the package again
(``pip install -e .``), which writes the entry points that spaCy reads. A version never changes its
behaviour: a change is a new version.
"""

# This file is read by setup.py, before anything is installed: it imports nothing.

REGISTERED = {
    "spacy_factories": {
        "proxy_linker": "spacy_pel.pipeline.factory:make_proxy_linker",
        "kb_matcher": "spacy_pel.pipeline.kb_matcher:make_kb_matcher",
        "kb_ner": "spacy_pel.pipeline.kb_ner:make_kb_ner",
    },
    "spacy_architectures": {
        "spacy-pel.BiEncoder.v1": "spacy_pel.models.architectures:BiEncoder",
        "spacy-pel.DocumentEncoder.v1": "spacy_pel.models.architectures:DocumentEncoder",
        "spacy-pel.SharedEncoder.v1": "spacy_pel.models.architectures:SharedEncoder",
        "spacy-pel.WordTagger.v1": "spacy_pel.models.architectures.tagger:WordTagger",
        "spacy-pel.CrossEncoder.v1": "spacy_pel.models.architectures.crossencoder:CrossEncoder",
    },
    "spacy_misc": {
        "spacy-pel.PretrainedEncoder.v1": "spacy_pel.models.architectures:PretrainedEncoder",
        "spacy-pel.ScratchEncoder.v1": "spacy_pel.models.architectures:ScratchEncoder",
        "spacy-pel.TrainedEncoder.v1": "spacy_pel.models.architectures:TrainedEncoder",
        "spacy-pel.FGSM.v1": "spacy_pel.models.adversarial:FGSM",
        "spacy-pel.RandomNegatives.v1": "spacy_pel.training.negatives:random_negatives",
        "spacy-pel.InBatchNegatives.v1": "spacy_pel.training.negatives:in_batch_negatives",
        "spacy-pel.MixedNegatives.v1": "spacy_pel.training.negatives:MixedNegatives",
        "spacy-pel.Arborescence.v1": "spacy_pel.training.arborescence:Arborescence",
        "spacy-pel.MaskAndReplace.v1": "spacy_pel.training.mention_views:MaskAndReplace",
    },
    "spacy_readers": {
        "spacy-pel.DocumentCorpus.v1": "spacy_pel.corpora.document_corpus:make_document_corpus",
        "spacy-pel.NameCorpus.v1": "spacy_pel.corpora.name_corpus:make_name_corpus",
    },
    "spacy_batchers": {
        "spacy-pel.batch_by_mentions.v1": "spacy_pel.corpora.batchers:make_mention_batcher",
        "spacy-pel.batch_by_entities.v1": "spacy_pel.corpora.batchers:make_entity_batcher",
    },
    "spacy_callbacks": {
        "spacy-pel.import_named_factories.v1": "spacy_pel.pipeline.pipelines:import_named_factories",
    },
    "spacy_scorers": {
        "spacy-pel.linking_scorer.v1": "spacy_pel.pipeline.scorer:make_linking_scorer",
    },
    "spacy_cli": {
        "pel": "spacy_pel.cli.spacy_app:pel",
    },
    "thinc_optimizers": {
        "spacy-pel.AdamW.v1": "spacy_pel.training.optimizer:AdamW",
    },
    "thinc_losses": {
        "spacy-pel.ProxyLoss.v1": "spacy_pel.models.losses:ProxyLoss",
        "spacy-pel.ProxyLoss.v2": "spacy_pel.models.losses:centred_proxy_loss",
        "spacy-pel.CrossEntropyLoss.v1": "spacy_pel.models.losses:CrossEntropyLoss",
        "spacy-pel.PositiveNegativeLoss.v1": "spacy_pel.models.losses:PositiveNegativeLoss",
        "spacy-pel.MentionPairLoss.v1": "spacy_pel.models.losses:MentionPairLoss",
    },
}
