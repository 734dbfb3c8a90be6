"""The model card of a pipeline that carries its KB: what it is, can do and cannot, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from spacy.language import Language
from thinc.api import Config

from ..evaluation.linking_metrics import metrics_table
from ..evaluation.nil_metrics import nil_summary
from ..pipeline.pipelines import linker_of
from .card_figures import evaluate_command

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

_USE = """\
## Use

It needs `pip install "spacy-pel[cpu]>={release}"` (with a GPU, `[gpu]`). Weights and knowledge base
are in the package: nothing is downloaded, then or later.

```python
import spacy

nlp = spacy.load("{package}")
doc = nlp("Your text.")
for ent in doc.ents:
    print(ent.text, ent.kb_id_, ent._.kb_score, ent._.kb_candidates[:3])
```"""
_FIGURES = """\
Of the linker on gold mentions: those that the pipeline does not find, or finds wrongly, are not
counted here. `all`: a gold id that the knowledge base lacks is a miss; `in_kb`: mentions whose
entity it has; `seen` and `unseen`: whether the entity is among the training mentions."""


def model_card(
    nlp: Language, component: str, figures: dict[str, dict[str, Any]], licences: str
) -> str:
    """The card, by the pipeline's meta, its linker with the KB, and its figures.

    figures: as ``figures_of`` gives them. licences: notes on those of what is inside; may be "".
    """
    linker = linker_of(nlp, component)
    package = package_name(nlp.meta)
    sections = [
        f"# {package} {nlp.meta['version']}",
        nlp.meta["description"],
        _table(
            ("pipeline", ", ".join(f"`{name}`" for name in nlp.pipe_names)),
            ("language", nlp.lang),
            ("spaCy", nlp.meta["spacy_version"]),
            ("licence", nlp.meta["license"] or "not stated"),
            ("author", nlp.meta["author"] or "not stated"),
        ),
        _USE.format(package=package, release=version("spacy-pel")),
        *_knowledge_base(linker),
        *_figures(figures),
        *_training(nlp, linker),
        *_limits(nlp, linker),
        "## Licences",
        licences.strip()
        or "No notes were given. The licences of the sources above, of the encoder that training "
        "began with and of the training texts hold for what was made of them.",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def package_name(meta: dict[str, Any]) -> str:
    """The name by which spaCy packages and loads the pipeline."""
    lang, name = meta["lang"], meta["name"]
    return name if name.startswith(f"{lang}_") else f"{lang}_{name}"


def _knowledge_base(linker: ProxyLinker) -> Iterator[str]:
    manifest = linker.kb.manifest
    counts, vectors = manifest["counts"], manifest["vectors"]
    yield "## Knowledge base"
    yield _table(
        ("sources and releases", "<br>".join(manifest["sources"]) or "not stated"),
        ("entities", f"{counts['entities']:,}"),
        ("names", f"{counts['entities'] + counts['aliases']:,}"),
        ("definitions", f"{counts['definitions']:,}"),
        ("vectors", f"{vectors['rows']:,} of {vectors['dim']} dimensions, {vectors['dtype']}"),
        ("built by", manifest["created_by"]),
        ("checksum", f"`{manifest['checksum']}`"),
    )


def _figures(figures: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield "## Figures"
    yield _FIGURES if figures else "None were given."
    for name, metrics in figures.items():
        yield f"### {name}"
        yield f"`{evaluate_command(metrics)}`"
        yield metrics_table(metrics)
        yield nil_summary(metrics["nil"])
        error = metrics.get("expected_calibration_error")
        if error is not None:
            yield f"Expected calibration error of the probabilities: {100 * error:.1f}"


def _training(nlp: Language, linker: ProxyLinker) -> Iterator[str]:
    # Imported here: torch takes seconds, and spaCy imports this module for all of its commands.
    from ..architectures import encoder_of

    encoders = map(encoder_of, linker.model.layers)
    parameters = sum(weights.numel() for encoder in encoders for weights in encoder.parameters())
    yield "## Training"
    yield (
        f"The retriever has {parameters:,} parameters and vectors of {linker.retriever.width} "
        f"dimensions. {len(linker.cfg['trained_entities']):,} entities were seen in training; an "
        "entity needs none, as it is what its names, types and definition say."
    )
    corpus = nlp.config.interpolate()["corpora"]["train"]
    if corpus != nlp.default_config.interpolate()["corpora"]["train"]:
        yield f"The corpus:\n\n```ini\n{Config({'corpora': {'train': corpus}}).to_str()}\n```"


def _limits(nlp: Language, linker: ProxyLinker) -> Iterator[str]:
    yield "## Intended use, and limits"
    before = nlp.pipe_names[: nlp.pipe_names.index(linker.name)]
    finders = ", ".join(f"`{name}`" for name in before)
    threshold = linker.nil_threshold
    points = [
        f"It links the mentions that come from {finders}, and no others."
        if finders
        else "It finds no mentions: they must be given, or found by a component before it.",
        "It knows the entities of its knowledge base, in the releases above, and no others; "
        + (
            "it gives any mention one of these."
            if threshold is None
            else f"a mention whose best score is below {threshold:.3f} is NIL: none of these."
        ),
        "The probability of a link was fitted on the texts that it was calibrated on."
        if linker.calibration
        else "Its scores are cosines and no probabilities.",
        "Its figures are of texts like those above; on other texts, evaluate it first.",
        "For search and research: a wrong link looks like a right one, and no decision about a "
        "patient should rest on one that nobody has checked.",
    ]
    yield "\n".join(f"- {point}" for point in points)


def _table(*rows: tuple[str, str]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
