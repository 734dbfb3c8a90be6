"""Write the model card of a pipeline and its KB: spaCy's README, the KB, metrics, and limits."""

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from spacy.language import Language

from ..batch.fingerprints import linker_state
from ..errors import PelError
from ..evaluation.evaluate import read_metrics
from ..metrics.linking import metrics_table, nil_summary
from ..pipeline.pipelines import linker_of

_USE = """\
## Use

Install `pip install "spacy-pel[cpu]>={release}"`, or the extra `[gpu]` for a GPU. The package contains the
weights and the knowledge base, and downloads nothing.

```python
import spacy

nlp = spacy.load("{package}")
doc = nlp("Your text.")
for ent in doc.ents:
    print(ent.text, ent.kb_id_, ent._.kb_score, ent._.kb_candidates[:3])
```"""
_FIGURES = """\
These figures measure only the linker, on gold mentions. `all`: all mentions; a gold id that the knowledge
base lacks is a miss. `in_kb`: mentions whose entity is in the knowledge base. `seen`, `unseen`: mentions
whose entity has training mentions, or has none."""
_NO_LICENCES = """\
Not specified. The licences of the sources above, of the initial encoder, and of the training texts also \
apply to this package."""


def package_name(meta: dict[str, Any]) -> str:
    """Return the name under which spaCy packages and loads a pipeline."""
    lang, name = meta["lang"], meta["name"]
    return name if name.startswith(f"{lang}_") else f"{lang}_{name}"


def metrics_of_linker(nlp: Language, paths: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Return the metrics in files of ``pel evaluate``, by file name without suffix.

    Raises:
        PelError: A file has no metrics, or those of another linker or KB, or two have the same name.
    """
    state = linker_state(nlp) if paths else {}
    metrics_by_name: dict[str, dict[str, Any]] = {}
    for path in paths:
        metrics = read_metrics(path)
        before = metrics.get("linker") or {}
        if changed := [key for key in {**before, **state} if before.get(key) != state.get(key)]:
            problem = f"{path}: has figures of another {', '.join(changed)} than the pipeline's"
            remedy = f"evaluate it again: {_evaluate_command(metrics)} --output {path}"
            raise PelError(problem, remedy)
        if path.stem in metrics_by_name:
            raise PelError(f"{path}: is the second file with this name", "rename one of them")
        metrics_by_name[path.stem] = metrics
    return metrics_by_name


def _evaluate_command(metrics: dict[str, Any]) -> str:
    """Return the command that computed the metrics, without its output file."""
    words = ["python -m spacy pel evaluate", metrics["pipeline"], *metrics["corpus"]]
    for option, value in (("--spans-key", metrics["spans_key"]), ("--limit", metrics["limit"])):
        words += [option, str(value)] if value else []
    return " ".join(words)


def card_sections(
    nlp: Language, metrics_by_name: dict[str, dict[str, Any]], licences: str
) -> Iterator[str]:
    """Yield the sections of the model card in Markdown, with the metrics of ``metrics_of_linker``."""
    from spacy.cli.package import generate_readme

    linker = linker_of(nlp)
    package, settings = package_name(nlp.meta), linker.kb.settings
    counts, vectors = settings["counts"], settings["vectors"]
    yield f"# {package} {nlp.meta['version']}"
    yield generate_readme({**nlp.meta, "performance": {}}).strip()
    yield _USE.format(package=package, release=version("spacy-pel"))
    yield "## Knowledge base"
    yield _table(
        ("entities", f"{counts['entities']:,}"),
        ("names", f"{counts['entities'] + counts['aliases']:,}"),
        ("definitions", f"{counts['definitions']:,}"),
        ("vectors", f"{vectors['rows']:,} of {vectors['dim']} dimensions, {vectors['dtype']}"),
        ("built by", settings["created_by"]),
        ("checksum", f"`{settings['checksum']}`"),
    )
    yield "## Figures"
    yield _FIGURES if metrics_by_name else "No figures."
    for name, metrics in metrics_by_name.items():
        yield f"### {name}"
        yield f"`{_evaluate_command(metrics)}`"
        yield metrics_table(metrics)
        yield nil_summary(metrics["nil"])
        error = metrics.get("expected_calibration_error")
        if error is not None:
            yield f"Expected calibration error of the probabilities: {100 * error:.1f}"
    yield "## Intended use, and limits"
    yield "\n".join(f"- {limit}" for limit in _limits(nlp, linker))
    yield "## Licences"
    yield licences.strip() or _NO_LICENCES


def _limits(nlp: Language, linker: Any) -> Iterator[str]:
    before = nlp.pipe_names[: nlp.pipe_names.index(linker.name)]
    finders = ", ".join(f"`{name}`" for name in before)
    mentions = f"It links only the mentions of {finders}."
    no_mentions = (
        "It finds no mentions. Set them, or add a component before the linker that finds them."
    )
    yield mentions if before else no_mentions
    known = "It knows only the entities of its knowledge base, in the releases above; "
    threshold, measure = linker.nil_threshold, "probability" if linker.ranking else "score"
    nil = "every mention gets one of them."
    if threshold is not None:
        nil = f"a mention whose best {measure} is below {threshold:.3f} is NIL (none of them)."
    yield known + nil
    seen = len(linker.cfg["trained_entities"])
    yield f"{seen:,} of its entities have training mentions. It links to the others by their texts."
    if linker.ranking:
        yield (
            f"The probabilities were fitted to mentions of {linker.ranking.fitted_on}. They may be wrong "
            "for mentions with another label."
        )
    else:
        yield "Its scores are cosines, not probabilities."
    yield "Its figures hold for texts like those above. Evaluate it on your own texts first."
    yield (
        "It is for search and research. A wrong link looks like a correct one: base no decision about a "
        "patient on a link that nobody has checked."
    )


def _table(*rows: tuple[str, str]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
