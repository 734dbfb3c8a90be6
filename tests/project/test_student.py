"""The scripts of the workflow "narrow": a pruned recogniser that learns from the wide one."""

from pathlib import Path

import numpy as np
import prune
import pytest
import student
import torch
from torch import Tensor

from spacy_pel.kb import build_kb
from spacy_pel.models.architectures import encoder_of, unpack_model
from spacy_pel.models.architectures.tagger import WordTagger
from spacy_pel.pipeline.kb_ner import KBRecogniser

from ..pipeline.conftest import PROBLEM
from ..pipeline.test_one_encoder import LISTENER, RECOGNISER, pipeline


def fitted(inputs: Tensor, outputs: Tensor, kept: list[int]) -> tuple[float, Tensor]:
    """The squared error of a linear layer with some inputs, and its weights with the bias."""
    design = torch.cat([inputs[:, kept], torch.ones(len(inputs), 1, dtype=inputs.dtype)], dim=1)
    weight = torch.linalg.lstsq(design, outputs).solution
    return float((design @ weight - outputs).square().sum()), weight


@pytest.mark.parametrize("size", [1, 3])
def test_each_group_that_goes_is_the_one_that_the_others_replace_best(size, monkeypatch) -> None:
    monkeypatch.setattr(prune, "DAMPING", 0.0)
    torch.manual_seed(0)
    inputs = torch.randn(60, 6, dtype=torch.float64) @ torch.randn(6, 12, dtype=torch.float64)
    inputs += 0.5 * torch.randn(60, 12, dtype=torch.float64) + 1
    weight = torch.randn(13, 4, dtype=torch.float64)
    rows = torch.cat([inputs, torch.ones(60, 1, dtype=torch.float64)], dim=1)
    groups = [list(range(first, first + size)) for first in range(0, 12, size)]
    while len(groups) > 2:
        without = [sum((g for g in groups if g is not gone), []) for gone in groups]
        errors = [fitted(inputs, rows @ weight, kept)[0] for kept in without]
        del groups[int(np.argmin(errors))]
    kept, found = prune.pruned(rows.T @ rows, weight, size, 2)
    assert kept.tolist() == sum(groups, [])
    _, wanted = fitted(inputs, rows @ weight, kept.tolist())
    torch.testing.assert_close(found, wanted.float())


@pytest.fixture
def files(tmp_path: Path) -> dict[str, list[Path] | Path]:
    texts = {"documents": "Aspirin for pain.\n", "sentences": "No cold.\nA cold sore.\n"}
    for name, text in {**texts, "frames": "Hx of {D} on {C:ASA}.\n"}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    given = {name: [tmp_path / f"{name}.txt"] for name in texts}
    return {**given, "frames": tmp_path / "frames.txt"}


def test_texts_are_documents_sentences_fragments_and_notes_with_names_of_the_kb(
    files, tmp_path: Path, monkeypatch
) -> None:
    kb = build_kb(PROBLEM, tmp_path / "kb")
    names = {name for entity in PROBLEM for name in entity.names}
    drawn = {}
    for kind in student.KINDS:
        monkeypatch.setattr(student, "KINDS", {kind: 1})
        texts = student.Texts(**files, kb=kb)
        drawn[kind] = {text for seed in range(40) for text in texts.draw(seed)}
    assert drawn["document"] == {"Aspirin for pain."}
    assert {"No cold.", "A cold sore.", "No cold. A cold sore."} == drawn["passage"]
    assert "No cold.. cold sore." in drawn["fragments"]
    notes = {note for text in drawn["note"] for note in text.split("Hx of ") if note}
    assert {note.strip() for note in notes} == {f"{name} on ASA." for name in names}


def test_a_student_learns_what_the_teacher_makes_of_texts_and_goes_on_after_a_stop(
    files, tmp_path: Path, monkeypatch, capsys
) -> None:
    build_kb(PROBLEM, tmp_path / "kb", sources=["tiny"])
    nlp = pipeline(tmp_path / "kb", "kb_ner", RECOGNISER, LISTENER, {"kb": str(tmp_path / "kb")})
    nlp.to_disk(tmp_path / "wide")
    monkeypatch.setattr(student, "CHARACTERS", 200)
    monkeypatch.setattr(student, "SAVED", 10)
    monkeypatch.setattr(student, "ANNOTATED", 1)
    monkeypatch.setattr(student, "TAUGHT", 100.0)  # this teacher has learnt nothing from gold tags
    gold = tmp_path / "gold.pubtator"
    [label] = nlp.get_pipe("kb_ner").labels
    gold.write_text(f"1|t|Aspirin for pain.\n1\t0\t7\tAspirin\t{label}\tC1\n\n")
    annotated = {"gold": [gold], "gold_kb": tmp_path / "kb"}
    out, read = tmp_path / "weights", student.batches
    start = None

    def taught(until: int, steps: int = 40) -> tuple[dict[str, Tensor], float, float]:
        """The weights after some steps, stopped before one; the unexplained variance; the gold loss."""

        def stopping(recogniser: KBRecogniser, texts: list[str], seed: int) -> list:
            if seed == until:
                raise KeyboardInterrupt
            return read(recogniser, texts, seed)

        monkeypatch.setattr(student, "batches", stopping)
        given = {**files, **annotated, "start": start, "heads": 1, "units": 12, "rate": 4e-3}
        student.main(str(tmp_path / "wide"), out, **given, steps=steps)
        model = unpack_model(out, WordTagger)
        encoder = encoder_of(model)
        assert model.attrs["whole_words"] and encoder.transformer.config.num_attention_heads == 1
        shown = capsys.readouterr().out.split("steps ")[1]
        return encoder.weights(), float(shown.split("%")[0]), float(shown.split()[-1])

    _, before, gold_before = taught(1, steps=1)
    weights, unexplained, _ = taught(40)
    assert unexplained < 0.8 * before
    with pytest.raises(KeyboardInterrupt):
        taught(25)
    assert out.with_suffix(".checkpoint").exists()
    again, same, _ = taught(40)
    assert not out.with_suffix(".checkpoint").exists()
    assert same == unexplained
    assert all(torch.equal(again[name], weight) for name, weight in weights.items())
    start = out.rename(tmp_path / "start")
    _, further, _ = taught(1, steps=1)
    assert further < 0.8 * before
    monkeypatch.setattr(student, "TAUGHT", 0.0)
    name = "encoder.layer.0.attention.self.query.weight"
    last: list[Tensor] = []
    monkeypatch.setattr(
        torch, "save", lambda saved, _: last.append(saved["student"][1][name].clone())
    )
    mean, _, gold_after = taught(40)
    assert gold_after < 0.8 * gold_before
    assert (last[-1] - weights[name]).abs().max() > 0.01
    torch.testing.assert_close(mean[name], (last[-1] + weights[name]) / 2, atol=0.003, rtol=0)
