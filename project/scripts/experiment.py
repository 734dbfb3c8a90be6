"""Run the experiments of the paper, and write the page of their tables and figures.

python scripts/experiment.py run retrieval --seeds 0,1,2
python scripts/experiment.py run nil --profile open --data DATA --encoder ENCODER --limit 100
python scripts/experiment.py report
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from experiments.configs import Choices, make_run
from experiments.page import write_page
from experiments.profiles import PROFILES
from experiments.registry import EXPERIMENTS
from experiments.runner import Runner

from spacy_pel.errors import PelError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
Results = Annotated[
    Path, typer.Option(help="Folder of the results; each profile has a folder in it")
]


@app.command()
def run(
    experiments: Annotated[
        list[str], typer.Argument(help=f"One or more of {', '.join(EXPERIMENTS)}; or all")
    ],
    profile: Annotated[
        str, typer.Option(help=f"Corpora to run on: {', '.join(PROFILES)}")
    ] = "demo",
    corpus: Annotated[str, typer.Option(help="Run on this corpus of the profile alone")] = "",
    seeds: Annotated[str, typer.Option(help="Seeds, separated by commas")] = "0,1,2",
    data: Annotated[str, typer.Option(help="Folder of corpora and knowledge bases")] = "",
    encoder: Annotated[str, typer.Option(help="Name or path of a BERT")] = "",
    limit: Annotated[int, typer.Option(min=0, help="Documents read of each corpus; 0: all")] = 0,
    steps: Annotated[int, typer.Option(min=0, help="Steps of each training; 0: the profile's")] = 0,
    entities: Annotated[
        int,
        typer.Option(min=0, help="Entities of an open KB, in addition to the corpora's; 0: all"),
    ] = 0,
    gpu_id: Annotated[int, typer.Option(help="Number of the GPU; -1: the CPU")] = -1,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep weights and vectors after a run")
    ] = False,
    results: Results = Path("results"),
    work: Annotated[Path, typer.Option(help="Folder for weights and vectors")] = Path(
        "training/experiments"
    ),
) -> None:
    """Train and evaluate each variant of the experiments with each seed.

    A run whose config is in the results already is left out. A run that was killed goes on where it
    was.
    """
    choices = Choices(data, encoder, limit, steps, entities)
    runner = Runner(profile, results / profile, work / profile, keep=keep, gpu_id=gpu_id)
    for name in EXPERIMENTS if experiments == ["all"] else experiments:
        experiment = _known(EXPERIMENTS, name, "experiment")
        corpora = getattr(_known(PROFILES, profile, "profile"), experiment.corpora)
        if not corpora:
            raise PelError(f'profile "{profile}" has no corpora for {name}', "choose another one")
        if corpus:
            corpora = [_known({c.name: c for c in corpora}, corpus, f"corpus of {name}")]
        variants = {c.name: [v for v in experiment.variants if c.has(v.needs)] for c in corpora}
        for each in corpora:
            _check(each, choices)
            runner.prepare(each, choices, variants[each.name])
        runs = [
            make_run(each, variant, seed, choices, runner.work)
            for seed in map(int, seeds.split(","))
            for each in corpora
            for variant in variants[each.name]
        ]
        runner.do(name, runs)


@app.command()
def report(
    results: Results = Path("results"),
    page: Annotated[Path, typer.Option(help="Markdown page to write")] = Path("EXPERIMENTS.md"),
) -> None:
    """Write the page of all tables and figures, and what they say of the paper's claims."""
    write_page(results, page)
    print(page)


def _known(things: dict, name: str, kind: str):
    if name not in things:
        raise PelError(f"no {kind} {name!r}", f"choose one of {', '.join(things)}")
    return things[name]


def _check(corpus, choices: Choices) -> None:
    for place in ("data", "encoder"):
        if corpus.needs(place) and not getattr(choices, place):
            raise PelError(f'corpus "{corpus.name}" without its {place}', f"give --{place}")


if __name__ == "__main__":
    try:
        app()
    except (PelError, RuntimeError) as error:
        raise SystemExit(f"Error: {error}") from error
