"""The profiles: which corpora each kind of experiment runs on."""

from __future__ import annotations

from typing import NamedTuple

from .corpora import (
    CLAIM_MEDMENTIONS,
    CLAIM_MESH,
    COREFERENCE_MEDMENTIONS,
    COREFERENCE_MESH,
    DEMO,
    DEMO_OKB,
    KRISSBERT_MEDMENTIONS,
    KRISSBERT_MESH,
    MEDMENTIONS,
    MESH,
    UMLS,
    UMLS_OKB,
    ZESHEL,
    Corpus,
)


class Profile(NamedTuple):
    """The corpora of a profile.

    Attributes:
        linking: The corpora of the experiments in linking.
        nil: The corpora of the experiments in telling NIL.
        claim: The corpora of the experiments that decide what the loss is worth, in the paper's
            setting.
        coreference: The corpora of the experiment in training against other mentions.
        self_supervision: The corpora of the experiment in training without annotations.
    """

    linking: tuple[Corpus, ...]
    nil: tuple[Corpus, ...]
    claim: tuple[Corpus, ...] = ()
    coreference: tuple[Corpus, ...] = ()
    self_supervision: tuple[Corpus, ...] = ()

    @property
    def corpora(self) -> tuple[Corpus, ...]:
        """All corpora of the profile, each once."""
        return tuple({corpus.name: corpus for kind in self for corpus in kind}.values())


PROFILES = {
    "demo": Profile((DEMO,), (DEMO_OKB,)),
    "open": Profile(
        (MESH, MEDMENTIONS),
        (MEDMENTIONS,),
        (CLAIM_MESH, CLAIM_MEDMENTIONS),
        (COREFERENCE_MESH, COREFERENCE_MEDMENTIONS),
        (KRISSBERT_MESH, KRISSBERT_MEDMENTIONS),
    ),
    "paper": Profile((UMLS, ZESHEL), (UMLS_OKB,)),
}
