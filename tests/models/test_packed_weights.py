import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, load_file, save_file

from spacy_pel.errors import PelError
from spacy_pel.models.architectures import encoder_of
from spacy_pel.models.architectures.towers import set_training
from spacy_pel.models.encoders import TextEncoder
from spacy_pel.models.packed_weights import pack, unpack

from ..towers import TEXTS, biencoder

CPU = torch.device("cpu")


def encoders() -> list[TextEncoder]:
    return [encoder_of(tower) for tower in biencoder(shared=False).layers]


def empty() -> TextEncoder:
    return TextEncoder(pooling="mean", normalize=True, mixed_precision=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "model").write_bytes(pack(encoders(), {"length": 48}))
    return tmp_path / "model"


def assert_same(one: TextEncoder, other: TextEncoder) -> None:
    assert one.description() == other.description() != {}
    assert one.state_dict().keys() == other.state_dict().keys()
    for name, weights in one.weights().items():
        assert torch.equal(weights, other.weights()[name])
    assert one.tokenizer.encode(TEXTS[0]).ids == other.tokenizer.encode(TEXTS[0]).ids


def test_rounded_weights_take_half_the_bytes_and_come_back_to_the_last_bit(file: Path) -> None:
    rounded_ones = encoders()
    for encoder in rounded_ones:
        rounded = {name: weight.half().float() for name, weight in encoder.weights().items()}
        encoder.restore(encoder.description(), rounded)
    packed = pack(rounded_ones, {})
    assert all(t.dtype == torch.float16 for t in load(packed).values())
    assert all(t.dtype == torch.float32 for t in load_file(file).values())
    found = [empty(), empty()]
    contents = unpack(packed)
    contents.fill(found, CPU)
    mapped = {tensor.data_ptr() for tensor in contents.tensors.values()}
    for one, other in zip(found, rounded_ones, strict=True):
        assert_same(one, other)
        embeddings = one.transformer.get_input_embeddings().weight
        assert embeddings.dtype == torch.float16  # looked up, so they stay in the file
        assert embeddings.data_ptr() in mapped
        assert {w.dtype for w in one.weights().values()} == {torch.float32}
        set_training(one, True)
        assert {w.dtype for w in one.parameters()} == {torch.float32}


def test_weights_stay_in_their_file_and_changes_outside(file: Path) -> None:
    found, before = [empty(), empty()], file.read_bytes()
    contents = unpack(file)
    assert contents.settings == {"length": 48}
    contents.fill(found, CPU)
    weights = [parameter for encoder in found for parameter in encoder.parameters()]
    mapped = {tensor.data_ptr() for tensor in contents.tensors.values()}
    assert {parameter.data_ptr() for parameter in weights} == mapped
    with torch.no_grad():
        for each in weights:
            each.add_(1)
    assert file.read_bytes() == before
    again = [empty(), empty()]
    unpack(file).fill(again, CPU)
    for one, other in zip(again, encoders(), strict=True):
        assert_same(one, other)


def test_what_is_no_such_file_is_refused(file: Path, tmp_path: Path) -> None:
    data = file.read_bytes()
    save_file({"a": torch.zeros(2)}, tmp_path / "other")
    file.write_bytes(data[:-100])
    for packed in (file, tmp_path / "other", data[:-100], b"not weights", b""):
        with pytest.raises(PelError, match="not the weights of a linker.*train it again") as error:
            unpack(packed)
        assert str(error.value).startswith(str(packed) if isinstance(packed, Path) else "bytes")
    with pytest.raises(FileNotFoundError):
        unpack(tmp_path / "none")


def test_a_flipped_bit_is_found(file: Path) -> None:
    whole, chance = file.read_bytes(), random.Random(0)
    for _ in range(60):
        changed = bytearray(whole)
        changed[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        file.write_bytes(changed)
        for packed in (file, bytes(changed)):
            with pytest.raises(PelError, match="damaged, or not the weights of a linker"):
                unpack(packed)
