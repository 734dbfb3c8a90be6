"""Count the functions that a mention runs through: found, linked, and in a training step.

    python benchmarks/walk.py PIPELINE [--kb KB] [--corpus CORPUS] [--config CONFIG] [--calls]

PIPELINE finds and links one mention in TEXT. The training step is one ``nlp.update`` on two mentions of a
document of CORPUS, whose entities are in KB. It follows CONFIG, but with random negatives and FGSM. KB,
CORPUS and CONFIG default to the demo's. Each walk runs once before it is traced, so that nothing is opened
during the trace. The same files give the same figures.

The script prints, for each walk, the numbers of functions of spacy_pel, of their files, of their rooms and
of changes of file, and the number of calls with their changes of file. The first number of changes counts
only the first call of each function, the second all calls. A room is the first folder of a file's path; a
file outside every folder is its own room. Comprehensions and lambdas belong to the enclosing function. With
--calls, the walks follow: one line per function, indented below its first caller.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Annotated, NamedTuple

import spacy
import typer
from spacy.training import Example
from spacy.util import fix_random_seed, load_config, load_model_from_config, registry

import spacy_pel

PACKAGE = Path(spacy_pel.__file__).parent
PROJECT = Path(__file__).parents[1] / "project"
CONFIG = PROJECT / "configs/demo.cfg"
CORPUS = PROJECT / "assets/demo/corpus/train.pubtator"
TEXT = "The cardiologist heard an opening snap and found severe MS."


class Call(NamedTuple):
    """A call of a function of the package, and the number of its functions around the call."""

    depth: int
    function: str
    file: Path


def main(
    pipeline: Annotated[Path, typer.Argument(help="A trained pipeline that finds its mentions")],
    kb: Annotated[Path, typer.Option(help="KB of the training step")] = PROJECT / "kb/demo",
    corpus: Annotated[Path, typer.Option(help="PubTator file of the training step")] = CORPUS,
    config: Annotated[Path, typer.Option(help="Config of the training step")] = CONFIG,
    text: Annotated[str, typer.Option(help="A text with one mention")] = TEXT,
    calls: Annotated[bool, typer.Option("--calls", help="Print the walks as well")] = False,
) -> None:
    """Print how many functions, files and rooms a mention walks through."""
    walks = {**calls_of(pipeline, text), "training step": step_calls(config, kb, corpus)}
    print("| walk | functions | files | rooms | changes of file | calls | changes in all calls |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, made in walks.items():
        firsts = first_calls(made)
        files = {call.file for call in firsts}
        rooms = {file.parts[0] for file in files}
        figures = len(firsts), len(files), len(rooms), changes(firsts), len(made), changes(made)
        print(f"| {name} | {' | '.join(map(str, figures))} |")
    for name, made in walks.items() if calls else ():
        print(f"\n{name}:\n")
        for call in first_calls(made):
            print(f"{'  ' * call.depth}{call.function}  ({call.file})")


def first_calls(calls: list[Call]) -> list[Call]:
    """Return the first call of each function."""
    firsts: dict[tuple[str, Path], Call] = {}
    for call in calls:
        firsts.setdefault((call.function, call.file), call)
    return list(firsts.values())


def changes(calls: list[Call]) -> int:
    """Count the calls in another file than the call before."""
    return sum(a.file != b.file for a, b in zip(calls, calls[1:]))


def calls_of(pipeline: Path, text: str) -> dict[str, list[Call]]:
    """Return the calls of the linker, of the components before it, and of both together."""
    nlp = spacy.load(pipeline)
    mentions = [span.text for span in nlp(text).ents]
    assert len(mentions) == 1, f"{text!r} should have one mention, and has {mentions}"
    linker = nlp.get_pipe("proxy_linker")
    with nlp.select_pipes(disable="proxy_linker"):
        found, before = nlp(text), traced(lambda: nlp(text))
    return {
        "finding": before,
        "linking": traced(lambda: linker(found)),
        "both": traced(lambda: nlp(text)),
    }


def step_calls(config: Path, kb: Path, corpus: Path) -> list[Call]:
    """Return the calls of one ``nlp.update``."""
    fix_random_seed(0)
    settings = load_config(config, {"paths.kb": str(kb), "paths.train": str(corpus)})
    linker = settings["components"]["proxy_linker"]
    linker["negatives"] = {"@misc": "spacy-pel.RandomNegatives.v1"}
    linker["regularizer"] = {"@misc": "spacy-pel.FGSM.v1"}
    settings["initialize"]["components"] = {}
    nlp = load_model_from_config(settings, auto_fill=True)
    examples = list(registry.resolve(nlp.config.interpolate()["corpora"])["train"](nlp))
    optimizer = nlp.initialize(lambda: examples)
    example = next(with_two_mentions(e) for e in examples if len(e.reference.ents) > 1)
    return traced(lambda: nlp.update([example], sgd=optimizer, drop=0.1))


def with_two_mentions(example: Example) -> Example:
    """Return the example with its first two mentions."""
    docs = example.predicted.copy(), example.reference.copy()
    for doc in docs:
        doc.ents = doc.ents[:2]
    return Example(*docs)


def traced(function: Callable[[], object]) -> list[Call]:
    """Return the calls of a function in its second run."""
    function()
    calls: list[Call] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and is_ours(code):
            name = getattr(code, "co_qualname", code.co_name)  # since Python 3.11
            depth = sum(is_ours(outer.f_code) for outer in frames_around(frame))
            calls.append(Call(depth, name, Path(code.co_filename).relative_to(PACKAGE)))

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


def frames_around(frame: FrameType) -> Iterator[FrameType]:
    while frame := frame.f_back:
        yield frame


def is_ours(code: CodeType) -> bool:
    """Tell whether it is a named function of the package."""
    return code.co_filename.startswith(f"{PACKAGE}/") and not code.co_name.startswith("<")


if __name__ == "__main__":
    typer.run(main)
