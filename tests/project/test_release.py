"""The scripts of the workflow "release": a small encoder, and a pipeline of two trained ones."""

from pathlib import Path

import distil
import numpy as np
import pytest
import release_pipeline
import small_encoder
import spacy
import torch
from safetensors import safe_open
from spacy.tokens import Span
from spacy.training import Example
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel, BertTokenizerFast

from spacy_pel.architectures import encoder_of
from spacy_pel.jobs.embed import embed_kb
from spacy_pel.kb import build_kb
from spacy_pel.linking.retriever import Retriever
from spacy_pel.reading.mention import DocumentContext, MentionInContext
from spacy_pel.reading.proxies import proxy_texts

from ..conftest import ENTITIES

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz.,"]
WORDS = ["multiple", "sclerosis", "kidney", "zebra", "headache", "aspirin"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of three layers, whose word pieces are letters and some words."""
    folder = tmp_path_factory.mktemp("bert")
    pieces = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS), *WORDS]
    (folder / "vocab.txt").write_text("\n".join(pieces))
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
    BertModel(BertConfig(vocab_size=len(pieces), **sizes)).save_pretrained(folder)
    return folder


def make_small(bert: Path, folder: Path, **options: object) -> None:
    small_encoder.main(str(bert), folder / "small", folder / "kb", **options)


def test_a_small_encoder_reads_the_texts_as_the_large_one_does(bert: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("Multiple sclerosis, aspirin.\n")
    build_kb(ENTITIES[-1:], tmp_path / "kb", sources=["tiny"])  # kidney
    make_small(bert, tmp_path, layers=2, texts=[tmp_path / "texts.txt", Path("none")])
    small = Tokenizer.from_file(str(tmp_path / "small" / "tokenizer.json"))
    large = Tokenizer.from_file(str(bert / "tokenizer.json"))
    kept = {"multiple", "sclerosis", "kidney", "aspirin"}
    assert set(small.get_vocab()) == set(large.get_vocab()) - set(WORDS) | kept
    for text in ("Multiple sclerosis, aspirin.", "Kidney."):
        assert small.encode(text).tokens == large.encode(text).tokens
    assert small.encode("zebra").tokens == ["[CLS]", "z", "##e", "##b", "##r", "##a", "[SEP]"]
    ours = BertModel.from_pretrained(tmp_path / "small").eval()
    theirs = BertModel.from_pretrained(bert).eval()
    theirs.encoder.layer = torch.nn.ModuleList(theirs.encoder.layer[i] for i in (0, 2))
    with torch.no_grad():
        states = [
            model(input_ids=torch.tensor([tokenizer.encode("aspirin, kidney").ids]))
            for model, tokenizer in ((ours, small), (theirs, large))
        ]
    torch.testing.assert_close(*(s.last_hidden_state for s in states))


def test_the_pipeline_of_the_release_finds_and_links_with_rounded_weights(
    tiny_folder: Path, tmp_path: Path
) -> None:
    build_kb(ENTITIES, tmp_path / "kb", sources=["tiny"])
    recogniser = spacy.blank("en")
    recogniser.add_pipe("kb_ner", config={"kb": str(tmp_path / "kb")})
    secret = recogniser.make_doc("Xyzzyish headache")
    recogniser.initialize(lambda: [Example.from_dict(secret, {"entities": [(9, 17, "Disease")]})])
    recogniser.to_disk(tmp_path / "ner")
    release_pipeline.main(tmp_path / "ner", tiny_folder, tmp_path / "kb", tmp_path / "out")

    nlp = spacy.load(tmp_path / "out")
    assert nlp.pipe_names == ["kb_ner", "proxy_linker"]
    assert "Xyzzyish" in recogniser.vocab.strings and "Xyzzyish" not in nlp.vocab.strings
    assert nlp.get_pipe("kb_ner").labels == ("Disease",)
    embed_kb(tmp_path / "kb", nlp.get_pipe("proxy_linker"))
    ours, theirs = (
        [[e.text for e in doc.ents] for doc in pipe.pipe(["A headache.", "MS, aspirin"])]
        for pipe in (nlp, recogniser)
    )
    assert ours == theirs
    assert [token.text for token in nlp.make_doc("MS-induced(")] == ["MS", "-", "induced", "("]
    for name in nlp.pipe_names:
        with safe_open(tmp_path / "out" / name / "model", "np") as file:
            assert {file.get_tensor(name).dtype for name in file.keys()} == {np.dtype("float16")}
    doc = nlp.make_doc("aspirin")
    doc.set_ents([Span(doc, 0, 1, "Disease")])
    assert nlp.get_pipe("proxy_linker")(doc).ents[0]._.kb_candidates


def test_a_small_encoder_learns_the_vectors_of_the_large_one(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_kb(ENTITIES, tmp_path / "kb", sources=["tiny"])
    make_small(bert, tmp_path, layers=1)
    monkeypatch.setattr(distil, "BATCH", 8)
    monkeypatch.setitem(distil.MODEL, "n_numbers", 8)
    monkeypatch.setitem(distil.MODEL, "mixed_precision", False)
    names = [name for entity in ENTITIES for name in entity.names]
    text = "Aspirin for headache in multiple sclerosis"
    corpus = tmp_path / "train.pubtator"
    marked = [(text.index(words), words) for words in ("Aspirin", "headache", "sclerosis")]
    lines = [f"1\t{at}\t{at + len(words)}\t{words}\tX\tX1\n" for at, words in marked]
    corpus.write_text(f"1|t|{text}\n1|a|\n{''.join(lines)}\n")
    goals = first_numbers_of_means(bert, names)
    of_marked = first_numbers_of_means(bert, [words for _, words in marked])
    cosines, words = [], []
    for n_names in (8, 400):
        out = tmp_path / str(n_names)
        places = (str(tmp_path / "small"), tmp_path / "kb", out, [corpus])
        distil.main(str(bert), *places, rate=8e-3, names=n_names)
        linker = spacy.load(out).get_pipe("proxy_linker")
        words.append(
            encoder_of(linker.model.layers[0]).transformer.get_input_embeddings().weight.detach()
        )
        mentions = [MentionInContext(name, 0, len(name)) for name in names]
        rows = [text for entity in ENTITIES for text in proxy_texts(entity, "name")]
        retriever = Retriever(linker.model)
        context = DocumentContext()
        in_text = [MentionInContext(text, at, at + len(words), context) for at, words in marked]
        pairs = [
            (retriever.mention_vectors(mentions), goals),
            (retriever.entity_vectors(rows), goals),
            (retriever.mention_vectors(in_text), of_marked),
        ]
        cosines.append([(side * wanted).sum(axis=1).mean() for side, wanted in pairs])
    assert all(after > before + 0.05 for before, after in zip(*cosines)), cosines
    assert min(cosines[1]) > 0.95
    # The last two are markers, which begin at random.
    torch.testing.assert_close(*(rows[:-2] for rows in words), rtol=0, atol=0)


def first_numbers_of_means(bert: Path, texts: list[str]) -> np.ndarray:
    """The first eight numbers of the mean over a text's tokens, at length 1; one text at a time."""
    tokenizer = Tokenizer.from_file(str(bert / "tokenizer.json"))
    model = BertModel.from_pretrained(bert).eval()
    with torch.no_grad():
        means = [
            model(input_ids=torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0].mean(0)
            for text in texts
        ]
    return torch.nn.functional.normalize(torch.stack(means)[:, :8], dim=1).numpy()
