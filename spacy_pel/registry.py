"""The one list of registered names. ``setup.py`` makes an entry point of each.

To add a function: write it where it belongs, add a line here. A version never changes behaviour;
a change is a new version.
"""

# This file is read by setup.py, before anything is installed: it imports nothing.

REGISTERED = {
    "spacy_factories": {
        "proxy_linker": "spacy_pel.pipeline.factory:make_proxy_linker",
    },
    "spacy_architectures": {
        "spacy-pel.BiEncoder.v1": "spacy_pel.architectures:BiEncoder",
    },
    "spacy_misc": {
        "spacy-pel.PretrainedEncoder.v1": "spacy_pel.architectures:PretrainedEncoder",
        "spacy-pel.ScratchEncoder.v1": "spacy_pel.architectures:ScratchEncoder",
        "spacy-pel.FGSM.v1": "spacy_pel.models.adversarial:FGSM",
        "spacy-pel.RandomNegatives.v1": "spacy_pel.training.negatives:RandomNegatives",
        "spacy-pel.InBatchNegatives.v1": "spacy_pel.training.negatives:InBatchNegatives",
        "spacy-pel.MixedNegatives.v1": "spacy_pel.training.negatives:MixedNegatives",
    },
    "spacy_readers": {
        "spacy-pel.PubTatorCorpus.v1": "spacy_pel.training.corpus:make_pubtator_corpus",
    },
    "spacy_scorers": {
        "spacy-pel.linking_scorer.v1": "spacy_pel.pipeline.scorer:make_linking_scorer",
    },
    "spacy_cli": {
        "pel": "spacy_pel.cli:pel",
    },
    "thinc_losses": {
        "spacy-pel.ProxyLoss.v1": "spacy_pel.models.losses:ProxyLoss",
        "spacy-pel.CrossEntropyLoss.v1": "spacy_pel.models.losses:CrossEntropyLoss",
    },
}
