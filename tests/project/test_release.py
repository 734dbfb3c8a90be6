from pathlib import Path

import distil
import numpy as np
import pretrain
import pytest
import release_pipeline
import round_vectors
import small_encoder
import spacy
import texts as release_texts
import torch
from safetensors import safe_open
from spacy.tokens import Span
from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertModel

from spacy_pel.batch.embed import embed_kb
from spacy_pel.corpora.document import Document, mention_at
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.corpora.formats.pubtator import pubtator_text
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.kb.vectors.writing import write_vectors
from spacy_pel.models.architectures import encoder_of, entity_vectors
from spacy_pel.text.entity_texts import proxy_texts
from spacy_pel.text.mention_inputs import DocumentContext, MentionInContext

from ..conftest import ENTITIES
from ..pipeline.conftest import PROBLEM
from ..pipeline.test_one_encoder import LISTENER, RECOGNISER, pipeline


def make_small(bert: Path, folder: Path, **options: object) -> None:
    small_encoder.main(str(bert), folder / "small", folder / "kb", **options)


def test_a_small_encoder_reads_the_texts_as_the_large_one_does(bert: Path, tmp_path: Path) -> None:
    texts = ("Mitral stenosis, aspirin.", ENTITIES[-1].canonical_name)
    (tmp_path / "texts.txt").write_text(texts[0])
    build_kb(ENTITIES[-1:], tmp_path / "kb", sources=["tiny"])
    make_small(bert, tmp_path, layers=2, texts=[tmp_path / "texts.txt", Path("none")])
    small = Tokenizer.from_file(str(tmp_path / "small" / "tokenizer.json"))
    large = Tokenizer.from_file(str(bert / "tokenizer.json"))
    used = {piece for text in texts for piece in large.encode(text).tokens}
    gone = set(large.get_vocab()) - set(small.get_vocab())
    assert "patient" in gone and not gone & used
    assert all(len(piece.removeprefix("##")) > 1 and piece[0] != "[" for piece in gone)
    assert set(small.get_vocab()) <= set(large.get_vocab())
    assert [small.encode(text).tokens for text in texts] == [large.encode(t).tokens for t in texts]
    assert "".join(small.encode("patient").tokens[1:-1]).replace("##", "") == "patient"
    ours = BertModel.from_pretrained(tmp_path / "small").eval()
    theirs = BertModel.from_pretrained(bert).eval()
    theirs.encoder.layer = torch.nn.ModuleList(theirs.encoder.layer[i] for i in (0, 2))
    with torch.no_grad():
        states = [
            model(input_ids=torch.tensor([tokenizer.encode(texts[0]).ids]))
            for model, tokenizer in ((ours, small), (theirs, large))
        ]
    torch.testing.assert_close(*(s.last_hidden_state for s in states))


def test_the_pipeline_of_the_release_finds_and_links_with_rounded_weights(tmp_path: Path) -> None:
    build_kb(PROBLEM, tmp_path / "kb", sources=["tiny"])
    both = pipeline(tmp_path / "kb", "kb_ner", RECOGNISER, LISTENER, {"kb": str(tmp_path / "kb")})
    both.vocab.strings.add("Xyzzyish")
    both.get_pipe("proxy_linker").finish_training()
    both.to_disk(tmp_path / "both")
    names = tmp_path / "names.tsv"
    names.write_text("C05\taspirin\tAnalgesics\tclass\nC05\taspirin\tEcotrin\tbrand\n")
    release_pipeline.main(tmp_path / "both", tmp_path / "kb", names, tmp_path / "out")

    nlp = spacy.load(tmp_path / "out")
    assert nlp.pipe_names == ["kb_ner", "proxy_linker"]
    assert nlp.get_pipe("kb_ner").cfg["marked_names"] == ["analgesics"]
    assert "Xyzzyish" not in nlp.vocab.strings
    assert nlp.get_pipe("kb_ner").labels == both.get_pipe("kb_ner").labels == ("TERM",)
    embed_kb(tmp_path / "kb", nlp.get_pipe("proxy_linker"))
    assert [token.text for token in nlp.make_doc("MS-induced(")] == ["MS", "-", "induced", "("]
    for name in nlp.pipe_names:
        with safe_open(tmp_path / "out" / name / "model", "np") as file:
            tensors = [file.get_tensor(key) for key in list(file.keys())]
        assert {tensor.dtype for tensor in tensors} == {np.dtype("float16")}
        step = release_pipeline.STEPS[name]
        assert all((tensor.astype(float) / step % 1 == 0).all() for tensor in tensors)
    doc = nlp.make_doc("aspirin")
    doc.set_ents([Span(doc, 0, 1, "TERM")])
    assert nlp(doc).ents[0]._.kb_candidates


def test_rounded_vectors_have_15_levels(bare_kb: KnowledgeBase, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(len(bare_kb), 32)).astype("f")
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    numbers = bare_kb.numbers_by_id()
    facts = {"dim": 32, "fingerprint": "f", "index_unit": "title", "dtype": "int8"}
    write_vectors(bare_kb.path, [(rows, numbers)], **facts)
    round_vectors.main(bare_kb.path)
    with KnowledgeBase.open(bare_kb.path) as kb:
        rounded, _ = kb.rows(numbers)
        assert kb.settings["vectors"]["fingerprint"] == "f"
    assert all(len(np.unique(row)) <= 15 for row in rounded)
    assert np.abs(rounded - rows).max() <= np.abs(rows).max() / 13


def test_texts_to_learn_from_have_names_and_acronyms(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(release_texts, "SUPPLEMENTARY", 1)
    build_kb(ENTITIES, tmp_path / "kb", sources=["tiny"])
    labelled = "1|t|The MS\n1|a|\n1\t4\t6\tMS\tAcronym\tC01\n\n"
    (tmp_path / "weak-labels.pubtator").write_text(labelled)
    (tmp_path / "acronyms.txt").write_text("kidney (KD)\n")
    fitted = "9|t|For the ranking\n9|a|\n\n"
    learnt = "2|t|Hx of MS\n2|a|\n2\t6\t8\tMS\tDisease\tC01\n\n"
    (tmp_path / "notes.pubtator").write_text(fitted + learnt)
    text = "Disseminated sclerosis, or multiple sclerosis.\nMy kidney.\n"
    (tmp_path / "text.txt").write_text(text)
    given = ("kb", "weak-labels.pubtator", "acronyms.txt", "notes.pubtator", "text.txt", "made")
    release_texts.learn(*map(tmp_path.joinpath, given), names=100)
    names, labelled = (
        list(open_corpus(tmp_path / "made" / f"{name}.pubtator").documents())
        for name in ("names", "weak-labels")
    )
    written = {d.text[m.start : m.end] for d in names for m in d.mentions}
    assert written == {name for entity in ENTITIES for name in entity.names}
    texts = [document.text.strip() for document in labelled]
    assert texts[:2] == ["The MS", "Hx of MS"]
    assert sorted(texts[2:]) == ["MS, or MS.", "My KD."]
    replaced = labelled[texts.index("MS, or MS.")]
    assert [m.ids for m in replaced.mentions] == [("C01",), ("C01",)]


def test_most_teachers_mark_texts_and_acronyms_are_what_their_sense_is(tmp_path: Path) -> None:
    senses = [("D1", "Gout", "Diseases"), ("C1", "Xyzol", "Chemical or Drug"), ("E1", "Scan", "")]
    build_kb([Entity(id, name, types=(type,)) for id, name, type in senses], tmp_path / "kb")
    lines = "1|t|AB, CD and EF in pain\n1|a|\n1\t0\t2\tAB\tAcronym\tD1\n1\t4\t6\tCD\tAcronym\tC1\n"
    (tmp_path / "weak-labels.pubtator").write_text(f"{lines}1\t11\t13\tEF\tAcronym\tE1\n\n")
    (tmp_path / "kinds.pubtator").write_text(
        "2|t|CD in a pain clinic\n2|a|\n2\t8\t19\tpain clinic\tX\tY\n2\t0\t5\tCD in\tX\tY\n\n"
        "3|t|A clinic\n3|a|\n3\t2\t8\tclinic\tX\tY\n\n"
    )
    fitted = "9|t|For the ranking\n9|a|\n\n"
    learnt = "4|t|CD or AB\n4|a|\n4\t6\t8\tAB\tDisease\tD1\n\n"
    (tmp_path / "notes.pubtator").write_text(fitted + learnt)
    (tmp_path / "sentences.txt").write_text("Much-pain.\nNo CD.\n")
    for number, words in enumerate((["CD", "pain", "in"], ["pain", "No"], ["CD", "pain", "A"])):
        teacher = spacy.blank("en")
        patterns = [{"label": "Disease", "pattern": word} for word in words]
        teacher.add_pipe("entity_ruler").add_patterns(patterns)
        teacher.to_disk(tmp_path / str(number))
    names = ("weak-labels.pubtator", "notes.pubtator", "sentences.txt", "kinds.pubtator")
    files = map(tmp_path.joinpath, names)
    teachers = [tmp_path / str(number) for number in range(3)]
    release_texts.taught(tmp_path / "kb", *files, tmp_path / "out", teachers)
    found = [
        [(mention.text, mention.label) for mention in document.mentions]
        for name in ("taught", "voted", "kinds")
        for document in open_corpus(tmp_path / "out" / f"{name}.pubtator").documents()
    ]
    assert found == [
        [("AB", "Disease"), ("CD", "Chemical"), ("pain", "Disease")],
        [("CD", "Disease"), ("AB", "Disease")],
        [("pain", "Disease"), ("CD", "Disease")],
        [("CD", "Disease"), ("pain", "Disease")],
        [("clinic", "Entity")],
    ]


def test_an_encoder_learns_hidden_words(bert: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    build_kb(ENTITIES, tmp_path / "kb", sources=["tiny"])
    (tmp_path / "text.txt").write_text("Aspirin relieves headache.\n" * 40)
    monkeypatch.setattr(pretrain, "BATCH", 2)
    monkeypatch.setattr(pretrain, "RATE", 0.01)
    losses = []
    for steps in (1, 40):
        files = bert, tmp_path / "out", tmp_path / "kb", [tmp_path / "text.txt"]
        pretrain.main(*files, layers=2, steps=steps)
        losses.append(float(capsys.readouterr().out.split()[-1]))
    assert losses[1] < 0.7 * losses[0]
    assert BertModel.from_pretrained(tmp_path / "out").config.num_hidden_layers == 2


def test_a_fifth_of_the_words_is_hidden_and_each_as_a_whole(bert: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(bert)
    torch.manual_seed(0)
    ids = pretrain.blocks_of(["aspirin relieves headaches"] * 2000, tokenizer)
    read, hidden = pretrain.Hiding(tokenizer, "cpu")(ids)
    assert torch.equal(read[~hidden], ids[~hidden])
    pieces = tokenizer.convert_ids_to_tokens(ids[:, 1:].flatten().tolist())
    goes_on = torch.tensor([piece.startswith("##") for piece in pieces]).view(len(ids), -1)
    inside = goes_on[:, 1:]
    assert inside.any() and torch.equal(hidden[:, 2:][inside], hidden[:, 1:-1][inside])
    words = ~goes_on & (ids[:, 1:] != tokenizer.sep_token_id)
    assert not hidden[:, 1:][~goes_on & ~words].any()
    assert 0.17 < hidden[:, 1:][words].float().mean() < 0.23
    assert 0.75 < (read[hidden] == tokenizer.mask_token_id).float().mean() < 0.85


def test_other_names_stand_in_the_places_of_mentions(tmp_path: Path) -> None:
    drug = Entity("C1", "Xyzol", ("Ol, Xyz",), types=("Chemical or Drug",))
    enzyme = Entity("D2", "Lipase", types=("Chemical or Drug", "Enzymes and Coenzymes"))
    gout = Entity("D1", "Gout", types=("Diseases",))
    build_kb([drug, enzyme, gout], tmp_path / "kb", sources=["tiny"])
    text = "Aspirin for pain; no pain, ABC"
    rows = [(0, 7, "ChemicalEntity"), (12, 16, "Modifier"), (21, 25, "Modifier"), (27, 30, "Gene")]
    lines = "".join(f"\n1\t{a}\t{b}\t{text[a:b]}\t{label}\tX" for a, b, label in rows)
    (tmp_path / "a.pubtator").write_text(f"1|t|{text}\n1|a|{lines}\n\n" * 40)
    release_texts.rename(tmp_path / "kb", tmp_path / "out", [tmp_path / "a.pubtator"])
    documents = list(open_corpus(tmp_path / "out" / "both.pubtator").documents())
    assert 10 < len(documents) < 30
    assert {document.text.strip() for document in documents} == {
        f"{drug} for {pain}; no {pain}, ABC"
        for drug in ("Xyzol", "Aspirin")
        for pain in ("gout", "pain")
    }
    for mentions in (document.mentions for document in documents):
        assert [m.label for m in mentions] == ["Chemical", "Disease", "Disease"]
        assert not any(m.ids for m in mentions)
    assert (tmp_path / "out" / "diseases.pubtator").read_text() == ""


def test_calibration_has_the_labels_and_ids_of_the_package(tmp_path: Path) -> None:
    entities = [Entity("C1", "Quetiapine", types=("Chemical or Drug",)), Entity("D1", "Gout")]
    kb = build_kb(entities, tmp_path / "kb", sources=["tiny"])
    text = "quetiapine for gout and XYZ"
    mentions = [(0, 10, "ChemicalEntity", ("OLD",)), (15, 19, "Modifier", ("D1",))]
    mentions += [(24, 27, "GeneOrGeneProduct", ("7",)), (24, 27, "Acronym", ("C1",))]
    document = Document(text, "1", tuple(mention_at(text, *each) for each in mentions))
    found = release_texts.labelled(document, kb).mentions
    assert [m.label for m in found] == ["Chemical", "Disease", "Chemical"]
    assert [m.ids for m in found] == [("C1",), ("D1",), ("C1",)]


def test_senses_of_acronyms_are_as_frequent_as_in_notes(tmp_path: Path) -> None:
    diseases = [
        Entity("1", "multiple sclerosis", ["MS"], types=["Diseases"]),
        Entity("2", "mitral stenosis", ["MS"], types=["Diseases"]),
    ]
    chemical = Entity("3", "morphine sulfate", types=["Chemicals and Drugs"])
    build_kb([*diseases, chemical], tmp_path / "kb", sources=["tiny"])
    rows = ("abbreviation\tsense\tfrequency", "ms\tmultiple sclerosis\t.3", "ms\tMiss\t.6",
            "ms\tmorphine sulfate\t.1", "ms\tmitral stenosis\t.001")  # fmt: skip
    (tmp_path / "list.txt").write_text("\n".join(rows))
    (tmp_path / "frames.txt").write_text("Hx of {D}, on {C}.\n{D:mets} of {D}.\nNone.\n")
    (tmp_path / "others.tsv").write_text("abbreviation\tsense\ttexts\nMS\tmental status\t5\n")
    places = (tmp_path / "kb", tmp_path / "frames.txt", tmp_path)
    others = tmp_path / "others.tsv"
    release_texts.senses(*places, [tmp_path / "list.txt"] * 2, others)
    lines = (tmp_path / "senses.txt").read_text().splitlines()
    assert lines.count("multiple sclerosis (MS)") == 2 * 75  # 3 of 4 that the KB knows, of 100
    assert lines.count("morphine sulfate (MS)") == 2 * 25
    assert lines[2 * 100 :] == ["mental status (MS)"] * 5
    made = list(open_corpus(tmp_path / "senses.pubtator").documents())
    assert {document.text.strip() for document in made} == {"Hx of MS, on MS."}
    mentions = {(m.label, m.ids) for document in made for m in document.mentions}
    assert mentions == {("Disease", ("1",)), ("Chemical", ("3",))}
    (tmp_path / "list.txt").write_text("\n".join(rows[:2]))
    with pytest.raises(PelError, match="too few senses of the lists"):
        release_texts.senses(*places, [tmp_path / "list.txt"], others)


def test_a_small_encoder_learns_from_the_large_one(bert: Path, tmp_path: Path, monkeypatch) -> None:
    build_kb(ENTITIES, tmp_path / "kb", sources=["tiny"])
    make_small(bert, tmp_path, layers=1)
    monkeypatch.setattr(distil, "BATCH", 8)
    monkeypatch.setitem(distil.MODEL, "n_numbers", 8)
    monkeypatch.setitem(distil.MODEL, "mixed_precision", False)
    names = [name for entity in ENTITIES for name in entity.names]
    text = "Aspirin for headache in multiple sclerosis"
    marked = [mention_at(text, *at, "X", ("X1",)) for at in ((0, 7), (12, 20), (33, 42))]
    corpus = tmp_path / "train.pubtator"
    corpus.write_text(pubtator_text(Document(text, "1", tuple(marked))))
    alone = [MentionInContext(name, 0, len(name)) for name in names]
    context = DocumentContext()
    in_text = [MentionInContext(text, m.start, m.end, context) for m in marked]
    rows = [row for entity in ENTITIES for row in proxy_texts(entity, "name")]
    goals = first_numbers_of_means(bert, names + [m.text for m in marked])
    cosines, words = [], []
    for n_names in (8, 400):
        out = tmp_path / str(n_names)
        places = (str(tmp_path / "small"), tmp_path / "kb", out, [corpus])
        distil.main(str(bert), *places, rate=8e-3, names=n_names)
        model = spacy.load(out).get_pipe("proxy_linker").model
        words.append(encoder_of(model.layers[0]).transformer.get_input_embeddings().weight)
        retriever = model
        of_names, of_rows = retriever.predict(alone), entity_vectors(retriever, rows)
        found = np.concatenate([of_names, retriever.predict(in_text), of_rows])
        cosine = (found * np.concatenate([goals, goals[: len(rows)]])).sum(axis=1)
        ends = (len(names), len(goals))
        cosines.append([part.mean() for part in np.split(cosine, ends)])
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
