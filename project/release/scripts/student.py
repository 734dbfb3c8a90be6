"""Make a recogniser narrower, and teach it the states and scores of the wide one, and gold tags.

``prune.py`` makes the student. It reads whole words in short windows; its teacher may read word pieces. Each
step teaches it what the teacher makes of each word of texts, and the tags of annotated documents, which the
teacher has learnt. With --start, it goes on from a student, which it makes narrower if asked to. If the size
stays, the result is the mean of the first and the last weights, which suits other texts better (Wortsman et
al. 2022, section 3).
A linker that listens to the teacher can listen to the student: its weights and vectors stay.
"""

import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import numpy as np
import spacy
import torch
import typer
from prune import narrowed
from release_pipeline import STEPS, round_weights
from spacy.util import fix_random_seed
from texts import LABEL_OF
from torch import Tensor, nn
from tqdm import tqdm

from spacy_pel.corpora.document_corpus import make_document_corpus
from spacy_pel.corpora.open_documents import open_documents
from spacy_pel.io.whole_files import whole_file
from spacy_pel.kb import KnowledgeBase
from spacy_pel.models.architectures import encoder_of, pack_model, set_dropout, unpack_model
from spacy_pel.models.architectures.tagger import WordTagger
from spacy_pel.models.architectures.towers import CPU_TOKENS, groups_by_length
from spacy_pel.models.bert import MIN_ROWS, architecture
from spacy_pel.models.encoders import Tagger
from spacy_pel.pipeline.kb_ner import KBRecogniser
from spacy_pel.text.abbreviations import defined_abbreviations
from spacy_pel.text.token_inputs import PAD

CHARACTERS = 5_000  # of the texts of a step: about 1,100 word pieces
OBSERVED = 20  # steps whose texts decide what is kept
ANNOTATED, DROPOUT = 5, 0.1  # documents of a step with gold tags, and their dropout
TAUGHT = 2.0  # the weight of what the teacher says, relative to that of gold tags
WARMUP = 50
HIDDEN = (
    0.1  # the share of names of the KB that a step hides, so that the student fits other KBs, too
)
SAVED = 100  # steps between two checkpoints
# How often a text is of each kind; the numbers of sentences of a text, and of words of a fragment.
KINDS = {"document": 2, "passage": 4, "fragments": 6, "note": 8}
SENTENCES, WORDS = (1, 8), (3, 14)


class Texts:
    """Draws texts to read: documents, and passages, fragments and notes, which resemble short texts.

    Args:
        documents: Files of documents.
        sentences: Files of one sentence per document.
        frames: A file of sentences of notes, with places for names, "{D}".
        kb: Its names fill the places, whatever they are names of. Half of them are drawn by type: most
            entities are chemicals, and most everyday names are not.
    """

    def __init__(
        self, documents: list[Path], sentences: list[Path], frames: Path, kb: KnowledgeBase
    ):
        self._documents = [raw.document().text for raw in open_documents(documents)]
        texts = (raw.document().text for raw in open_documents(sentences))
        self._sentences = [line for text in texts for line in text.splitlines() if line]
        self._frames = frames.read_text("utf8").splitlines()
        names_of_types = defaultdict(list)
        for entity in kb:
            for type in entity.types:
                names_of_types[type].append(entity.names)
        self._types = list(names_of_types.values())
        self._all = [entity.names for entity in kb]

    def draw(self, seed: int) -> list[str]:
        """Return the texts of a step."""
        random.seed(seed)
        texts: list[str] = []
        while sum(map(len, texts)) < CHARACTERS:
            [kind] = random.choices(list(KINDS), KINDS.values())
            texts.append(getattr(self, f"_{kind}")())
        return texts

    def _document(self) -> str:
        return random.choice(self._documents)

    def _passage(self) -> str:
        first = random.randrange(len(self._sentences))
        return " ".join(self._sentences[first : first + random.randint(*SENTENCES)])

    def _fragments(self) -> str:
        words = [random.choice(self._sentences).split() for _ in range(random.randint(*SENTENCES))]
        firsts = [random.randrange(len(own)) for own in words]
        return ". ".join(" ".join(w[i : i + random.randint(*WORDS)]) for w, i in zip(words, firsts))

    def _note(self) -> str:
        def filling(place: re.Match) -> str:
            entities = random.choice([self._all, random.choice(self._types)])
            return place[1] or random.choice(random.choice(entities))

        frames = random.choices(self._frames, k=random.randint(*SENTENCES))
        return re.sub(r"\{\w:?(.*?)\}", filling, " ".join(frames))


def batches(
    recogniser: KBRecogniser, texts: list[str], seed: int
) -> list[tuple[np.ndarray, dict[str, Tensor]]]:
    """Return the places of words and the inputs of an encoder, in batches of similar lengths."""
    fix_random_seed(seed)  # decides which names are hidden
    abbreviations = [defined_abbreviations(text) for text in texts]
    _, inputs, _ = recogniser._read(texts, abbreviations, recogniser.kb.snapshot(), HIDDEN)
    padding = encoder_of(recogniser.model).tokenizer.token_to_id(PAD)
    given = []
    for group in groups_by_length(np.array([len(w.ids) for w in inputs.windows]), CPU_TOKENS):
        padded = inputs.padded(group, padding, MIN_ROWS)
        batch = {name: torch.as_tensor(values) for name, values in padded.items()}
        places = np.concatenate([inputs.windows[i].outputs for i in group])
        given.append((places, {**batch, "perturbation": torch.zeros(1, 1, 1)}))
    return given


def read(encoder: Tagger, batch: dict[str, Tensor]) -> list[Tensor]:
    """Return the scores of words, float32 [w, tags], and their states after each layer, [w, d]."""
    states: list[Tensor] = []
    inner = encoder.transformer.encoder.layer[:-1]
    hooks = [x.output.register_forward_hook(lambda *call: states.append(call[-1])) for x in inner]
    scores, last = encoder(**batch).split([encoder.n_tags, encoder.width], dim=1)
    for hook in hooks:
        hook.remove()
    return [scores, *(each[batch["firsts"]] for each in states), last]


def size_of(encoder: Tagger) -> tuple[int, int]:
    """Return the numbers of attention heads and of feed-forward units of a layer."""
    config = architecture(encoder.transformer)
    return config["num_attention_heads"], config["intermediate_size"]


def unexplained(found: Tensor, wanted: Tensor) -> Tensor:
    """Return the share of the variance of states that others leave unexplained."""
    return (found - wanted).square().sum() / (wanted - wanted.mean(0)).square().sum()


def main(
    teacher: Annotated[str, typer.Argument(help="A pipeline with a kb_ner: a folder or a package")],
    out: Annotated[Path, typer.Argument(help="The file of the student's weights")],
    documents: Annotated[list[Path], typer.Option(help="Files of documents")],
    sentences: Annotated[
        list[Path], typer.Option(help="Files or folders of text with a sentence per line")
    ],
    frames: Annotated[
        Path, typer.Option(help="Sentences of notes with places for names: {D}, {C}")
    ],
    gold: Annotated[
        list[Path],
        typer.Option(help="Annotated documents that the teacher has learnt from"),
    ],
    gold_kb: Annotated[
        Path, typer.Option(help="The KB to read these with, which has not learnt their names")
    ],
    start: Annotated[
        Path | None, typer.Option(help="Weights to go on from, instead of those of the teacher")
    ] = None,
    heads: Annotated[int, typer.Option(help="Attention heads of a layer that are kept")] = 8,
    units: Annotated[int, typer.Option(help="Feed-forward units of a layer that are kept")] = 768,
    length: Annotated[int, typer.Option(help="Tokens of a window of the student, at most")] = 128,
    steps: Annotated[int, typer.Option(help="About a second and a half each, on one core")] = 1_500,
    rate: Annotated[float, typer.Option(help="The learning rate after the warmup")] = 4e-4,
    seed: int = 0,
) -> None:
    """Write the weights of a narrower recogniser to OUT; begun again, go on from OUT.checkpoint."""
    torch.set_num_threads(1)
    nlp = spacy.load(teacher, exclude=["proxy_linker"])
    recogniser = nlp.get_pipe("kb_ner")
    texts = Texts(documents, sentences, frames, recogniser.kb)
    large = encoder_of(recogniser.model).float().eval()
    examples = list(make_document_corpus(gold, gold_mentions=False, labels=LABEL_OF)(nlp))
    reader, student = (
        spacy.load(teacher, exclude=["proxy_linker"]).get_pipe("kb_ner") for _ in range(2)
    )
    for component in (reader, student):
        component.model.attrs.update(whole_words=True, length=length)
    student.set_kb(gold_kb)
    small = encoder_of(student.model)
    checkpoint = out.with_suffix(".checkpoint")
    if checkpoint.exists():
        saved = torch.load(checkpoint)
    else:
        wide = encoder_of(unpack_model(start, WordTagger)).float().eval() if start else large
        weights = wide.description(), wide.weights()
        if size_of(wide) != (heads, units):
            seeds, wide_reader = range(seed - OBSERVED, seed), reader if start else recogniser
            observed = (
                batch for n in seeds for _, batch in batches(wide_reader, texts.draw(n), n % 2**32)
            )
            weights = narrowed(wide, observed, heads, units)
        saved = {"step": 0, "optimizer": None, "student": weights}
    small.restore(*saved["student"])
    small.train()
    trained = [weight for weight in small.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, rate)
    if saved["optimizer"]:
        optimizer.load_state_dict(saved["optimizer"])
    bar = tqdm(range(saved["step"], steps), initial=saved["step"], total=steps, unit=" steps")
    recent: list[tuple[float, float, float]] = []
    shares = ""
    for step in bar:
        for group in optimizer.param_groups:
            group["lr"] = rate * min((step + 1) / WARMUP, 1 - step / steps)
        drawn = texts.draw(seed + step)
        rows = []
        for places, batch in batches(recogniser, drawn, seed + step):
            with torch.no_grad():
                rows.append((places, *read(large, batch)))
        order = np.concatenate([places for places, *_ in rows]).argsort()
        taught = [torch.cat(column)[order] for column in list(zip(*rows))[1:]]
        losses = student.update(random.sample(examples, ANNOTATED), drop=DROPOUT)  # adds gradients
        set_dropout(student.model, 0.0)
        for places, batch in batches(reader, drawn, seed + step):
            scores, *states = (values[places] for values in taught)
            own_scores, *own_states = read(small, batch)
            lost = list(map(unexplained, own_states, states))
            logs = own_scores.log_softmax(1), scores.log_softmax(1)
            divergence = nn.functional.kl_div(*logs, log_target=True, reduction="batchmean")
            ((sum(lost) + divergence) * (TAUGHT * len(scores) / len(order))).backward()
            same = (own_scores.argmax(1) == scores.argmax(1)).float().mean()
            recent = [*recent[-SAVED:], (lost[-1].item(), same.item(), losses["kb_ner"])]
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        shares = "{:.1%} unexplained, {:.1%} of tags the same, gold loss {:.3f}".format(
            *np.mean(recent, axis=0)
        )
        bar.set_postfix_str(shares, refresh=False)
        if (step + 1) % SAVED == 0:
            weights = small.description(), small.weights()
            with whole_file(checkpoint, "xb") as file:
                torch.save(
                    {"step": step + 1, "optimizer": optimizer.state_dict(), "student": weights},
                    file,
                )
    if start and size_of(begun := encoder_of(unpack_model(start, WordTagger))) == (heads, units):
        begun.float()
        for weight, first in zip(small.parameters(), begun.parameters(), strict=True):
            weight.data.lerp_(first, 0.5)
    round_weights(small, STEPS["kb_ner"])
    with whole_file(out, "xb") as file:
        file.write(pack_model(student.model))
    checkpoint.unlink(missing_ok=True)
    print(f"{out}: {heads} heads, {units} units; of the last steps {shares}")


if __name__ == "__main__":
    typer.run(main)
