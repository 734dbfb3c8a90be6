"""``pel link --engine ray`` on two nodes, whose workers and driver are killed, against two processes.

    python benchmarks/link_ray.py PIPELINE SCRATCH --abstracts 3000 --block 500

Generates two files of abstracts with names of the pipeline's KB (``abstracts.py``). Links them three
times: by two processes, each of which links one file with ``--engine local``; by a Ray cluster; and by
the cluster while its workers and the process that drives it are killed (SIGKILL) and the same call is
made again. The cluster is two nodes on this computer, with a worker, an object store and a folder for
the copy of the KB each.

Ends with 1 if a document is missing or there twice, if the three folders differ in any byte, or if a
node has no copy of the KB. "Rate" is that between the first and the last block that was finished: it
has no part of the start. "Memory" is what the workers do not share.

SCRATCH is replaced. The cluster listens on this computer alone.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import typer
from abstracts import names_of, write_abstracts
from wasabi import msg

HERE = str(Path(__file__).resolve())
WORKER = "ray::MapWorker(MapBatches(LinkingActor))"
# What an actor is called while it links.
AT_WORK = "ray::MapBatches(LinkingActor)"


class Run(NamedTuple):
    """One run over all documents, with all its starts.

    Attributes:
        seconds: All of its time.
        rate: Documents a second between the first and the last block.
        memory: MB of the workers, in each quarter of the run: the most of any worker.
    """

    seconds: float
    rate: float
    memory: list[float]


class Kills(NamedTuple):
    """When workers and drivers are killed: after so many finished blocks."""

    workers: list[int]
    drivers: list[int]


class Nodes:
    """Two nodes of a Ray cluster on this computer, in processes of their own."""

    def __init__(self, scratch: Path) -> None:
        from ray.cluster_utils import Cluster

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        # Ray gives its workers less of a busy processor than others get (15): not so here.
        os.environ["RAY_worker_niceness"] = "0"
        self.disks = [scratch / "disk1", scratch / "disk2"]
        self.cluster = Cluster()
        for disk in self.disks:
            own = {"NODE_DISK": str(disk), "OMP_NUM_THREADS": "1"}
            self.cluster.add_node(num_cpus=1, env_vars=own, object_store_memory=100 * 2**20)
        self.raylets = {
            info.process.pid
            for node in self.cluster.list_all_nodes()
            for info in node.all_processes["raylet"]
        }

    def workers(self) -> list[int]:
        """The processes of the actors that link: children of the nodes."""
        return [
            pid
            for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
            if read(pid, "cmdline").startswith((WORKER, AT_WORK)) and parent(pid) in self.raylets
        ]


def main(
    pipeline: str,
    scratch: Path,
    abstracts: int = 3000,
    block: int = 500,
    worker_kills: int = 5,
    driver_kills: int = 2,
) -> None:
    """Link two files of ABSTRACTS abstracts with PIPELINE in the folder SCRATCH."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    scratch = scratch.resolve()
    write_abstracts(scratch / "in", names_of(pipeline), 2, abstracts)
    n, n_blocks = 2 * abstracts, 2 * -(-abstracts // block)
    how = ["--block", str(block)]
    local = [
        [pipeline, str(file), str(scratch / "local" / file.name), *how]
        for file in sorted((scratch / "in").iterdir())
    ]
    runs = {"two processes": watched(local, scratch / "local", n, Kills([], []))}
    nodes = Nodes(scratch)
    how += ["--address", nodes.cluster.address]
    # Moments as numbers of finished blocks, spread over the run; drivers die between workers.
    workers = [(k + 1) * n_blocks // (worker_kills + 1) for k in range(worker_kills)]
    drivers = [(2 * k + 1) * n_blocks // (2 * driver_kills) for k in range(driver_kills)]
    for name, kills in ("Ray", Kills([], [])), ("Ray, killed", Kills(workers, drivers)):
        order = [pipeline, str(scratch / "in"), str(scratch / name), *how]
        runs[name] = watched([order], scratch / name, n, kills, nodes)
    report(runs)
    faults = [*differences(scratch), *missing_or_twice(scratch / "Ray, killed", n)]
    faults += [f"no copy of the KB in {d}" for d in nodes.disks if not list(d.glob("kb/kb-*/*"))]
    nodes.cluster.shutdown()
    print("\n".join(faults) or f"Every document once: {n:,}. The three folders are the same.")
    raise typer.Exit(1 if faults else 0)


def watched(
    orders: list[list[str]], folder: Path, n: int, kills: Kills, nodes: Nodes | None = None
) -> Run:
    """Run drivers; when so many blocks are finished, kill a worker or the driver, and run it again."""
    commands = [[sys.executable, HERE, "link", *order] for order in orders]
    started, memory = time.perf_counter(), []
    drivers = [subprocess.Popen(command) for command in commands]
    while any(driver.poll() is None for driver in drivers):
        time.sleep(0.5)
        done = len(entries(folder))
        workers = nodes.workers() if nodes else [driver.pid for driver in drivers]
        memory.append(max([0.0, *map(own_memory, workers)]))
        if kills.workers and done >= kills.workers[0] and workers:
            os.kill(workers[0], signal.SIGKILL)
            print(f"Killed a worker after {done} blocks", flush=True)
            kills.workers.pop(0)
        if kills.drivers and done >= kills.drivers[0]:
            drivers[0].kill()
            drivers[0].wait()
            print(f"Killed the driver after {done} blocks", flush=True)
            kills.drivers.pop(0)
            drivers = [subprocess.Popen(commands[0])]
    if any(driver.returncode for driver in drivers) or kills.workers or kills.drivers:
        sys.exit(f"failed, or ended before it was killed: {kills}")
    seconds = time.perf_counter() - started
    times = sorted(path.stat().st_mtime for path in entries(folder))
    rate = (len(times) - 1) * n / len(times) / (times[-1] - times[0])
    quarters = [memory[len(memory) * k // 4 : len(memory) * (k + 1) // 4] for k in range(4)]
    run = Run(seconds, rate, [max(quarter) for quarter in quarters])
    print(f"{folder.name}: {run}", flush=True)
    return run


def link(
    pipeline: str, input: str, folder: str, block: int = 1000, address: str | None = None
) -> None:
    """The driver: what ``pel link`` does, with blocks of another size."""
    from spacy_pel.cli.link_progress import LinkBar
    from spacy_pel.jobs.link_docs import LinkingChoices
    from spacy_pel.tasks import blocks, link_folder

    link_folder.DOCUMENTS_PER_PART = block
    blocks.BYTES_PER_GROUP = 1  # each file by itself, though it is small
    choices = LinkingChoices(pipeline)
    engine = {"engine": "ray", "address": address, "copy_to": "$NODE_DISK/kb"} if address else {}
    with LinkBar() as bar:
        link_folder.link_to_folder(
            choices, input, folder, output_format="jsonl", progress=bar, **engine
        )


def entries(folder: Path) -> list[Path]:
    """What says that a block is finished."""
    return [path for path in folder.rglob("*-*.json") if path.parent.name == ".pel"]


def files_of(folder: Path) -> dict[str, bytes]:
    """All linked files, by name."""
    return {path.name: path.read_bytes() for path in folder.rglob("*-*.jsonl")}


def differences(scratch: Path) -> list[str]:
    """What differs between the folders."""
    whole = files_of(scratch / "local")
    return [
        f"{name} differs" for name in ("Ray", "Ray, killed") if files_of(scratch / name) != whole
    ]


def missing_or_twice(folder: Path, n: int) -> list[str]:
    """Documents that are not in the folder just once."""
    texts = b"".join(files_of(folder).values()).decode().splitlines()
    counts = Counter(int(json.loads(text)["id"]) for text in texts)
    return [f"document {id}: {counts[id]} times" for id in range(1, n + 1) if counts[id] != 1]


def read(pid: int, name: str) -> str:
    """A file of a process; "" if the process has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


def parent(pid: int) -> int:
    """The process that started another one."""
    fields = read(pid, "stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else 0


def own_memory(pid: int) -> float:
    """MB that a process shares with no other."""
    lines = read(pid, "smaps_rollup").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private")) / 1024


def report(runs: dict[str, Run]) -> None:
    """Print a table of the runs."""
    first = next(iter(runs.values()))
    rows = [
        (what, f"{run.seconds:,.0f}", f"{run.rate:.1f}", f"{run.rate / first.rate:.2f}")
        + tuple(f"{mb:,.0f}" for mb in run.memory)
        for what, run in runs.items()
    ]
    header = ("linked by", "s", "documents/s", "ratio", "MB in 1st quarter", "2nd", "3rd", "4th")
    msg.table(rows, header=header, divider=True, aligns=("l", *"r" * 7))


if __name__ == "__main__":
    typer.run(link if sys.argv[1:2] == ["link"] and sys.argv.pop(1) else main)
