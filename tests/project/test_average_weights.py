from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from average_weights import average_weights, main
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.models.architectures import encoder_of, fingerprint
from spacy_pel.package.start import UNTRAINED, untrained_pipeline
from spacy_pel.text.token_inputs import MENTION_END, MENTION_START

from ..rankings import ranking_by_score


def weights(nlp: Language) -> list[dict[str, np.ndarray]]:
    """The weights of each tower, copied."""
    towers = nlp.get_pipe("proxy_linker").model.layers
    return [{k: v.numpy().copy() for k, v in encoder_of(t).weights().items()} for t in towers]


@pytest.fixture
def trained(tiny_folder: Path, tmp_path: Path) -> Path:
    """A pipeline like ``tiny_folder``'s, each weight of which is another one."""
    nlp = spacy.load(tiny_folder)
    torch.manual_seed(1)
    with torch.no_grad():
        for tower in nlp.get_pipe("proxy_linker").model.layers:
            for weight in encoder_of(tower).parameters():
                weight.add_(torch.randn_like(weight))
    nlp.to_disk(tmp_path / "trained")
    return tmp_path / "trained"


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_each_weight_is_the_average(trained: Path, tiny_folder: Path, share: float) -> None:
    nlp = spacy.load(trained)
    average_weights(nlp, str(tiny_folder), share)
    markers = [
        encoder_of(nlp.get_pipe("proxy_linker").model.layers[0]).tokenizer.token_to_id(token)
        for token in (MENTION_START, MENTION_END)
    ]
    towers = zip(weights(nlp), weights(spacy.load(trained)), weights(spacy.load(tiny_folder)))
    for averaged, own, before in towers:
        assert averaged.keys() == own.keys()
        for name, weight in averaged.items():
            expected = share * own[name] + (1 - share) * before[name]
            if "word_embeddings" in name:  # those of the markers are kept
                expected[markers] = own[name][markers]
            np.testing.assert_allclose(weight, expected, atol=1e-6)


@pytest.mark.parametrize("layers", [None, 1])
def test_a_bert_can_be_what_was_before(layers: int | None, bert: Path, tiny_kb: Path) -> None:
    """Also one of whose layers the linker kept the first ones alone."""
    encoder = {"@misc": "spacy-pel.PretrainedEncoder.v1", "name": str(bert), "layers": layers}
    nlp = untrained_pipeline(tiny_kb, {"model": {**UNTRAINED, "encoder": encoder}})
    (old,) = weights(nlp)
    average_weights(nlp, str(bert))
    (new,) = weights(nlp)
    assert all(np.allclose(new[name], old[name], atol=1e-6) for name in old)


def test_the_linker_asks_for_vectors_and_is_not_calibrated(
    trained: Path, tiny_folder: Path
) -> None:
    nlp = spacy.load(tiny_folder)
    linker = nlp.get_pipe("proxy_linker")
    linker.nil_threshold = 0.5
    linker.ranking = ranking_by_score()
    assert nlp("The patient has MS.").ents[0]._.kb_ents
    average_weights(nlp, str(trained))
    assert linker.nil_threshold is None and linker.ranking is None
    with pytest.raises(PelError, match="kb embed"):
        nlp("The patient has MS.")


def test_another_encoder_is_refused(tiny_folder: Path, bert: Path) -> None:
    nlp = spacy.load(tiny_folder)
    (*_, old) = weights(nlp)
    with pytest.raises(PelError, match="other layers or another vocabulary"):
        average_weights(nlp, str(bert))
    (*_, new) = weights(nlp)
    assert all(np.array_equal(new[name], old[name]) for name in old)


def test_the_script_writes_a_pipeline_and_replaces_none(tiny_folder: Path, tmp_path: Path) -> None:
    main(str(tiny_folder), str(tiny_folder), tmp_path / "averaged")
    folders = tiny_folder, tmp_path / "averaged"
    linkers = [spacy.load(folder).get_pipe("proxy_linker") for folder in folders]
    assert len({fingerprint(linker.retriever) for linker in linkers}) == 1
    with pytest.raises(PelError, match="exists"):
        main(str(tiny_folder), str(tiny_folder), tmp_path / "averaged")
