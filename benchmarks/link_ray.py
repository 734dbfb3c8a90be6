"""``pel link --engine ray`` on two nodes, whose workers and driver are killed, against two processes.

    python benchmarks/link_ray.py PIPELINE SCRATCH --files 2 --abstracts 3000 --block 500

Generates abstracts with names of the pipeline's KB, as files of PubMed (``abstracts.py``). Links them
three times: by ``--n-process 2`` on this computer; by a Ray cluster; and by the cluster while its
workers and the process that drives it are killed (SIGKILL) and the same call is made again. The cluster
is two nodes on this computer, with a worker, an object store and a folder for the copy of the KB each.

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


class Nodes:
    """Two nodes of a Ray cluster on this computer, in processes of their own."""

    def __init__(self, scratch: Path) -> None:
        from ray.cluster_utils import Cluster

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
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
    files: int = 2,
    abstracts: int = 3000,
    block: int = 500,
    worker_kills: int = 5,
    driver_kills: int = 2,
) -> None:
    """Link FILES files of ABSTRACTS abstracts with PIPELINE in the folder SCRATCH."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    scratch = scratch.resolve()
    write_abstracts(scratch / "in", names_of(pipeline), files, abstracts)
    n = files * abstracts
    order = [pipeline, str(scratch / "in"), "--block", str(block)]
    runs = {"two processes": watched(order, scratch / "local", n, block, [], [], None)}
    print(runs, flush=True)
    nodes = Nodes(scratch)
    order += ["--address", nodes.cluster.address]
    runs["Ray"] = watched(order, scratch / "ray", n, block, [], [], nodes)
    print(runs, flush=True)
    # Moments as numbers of finished blocks, spread over the run; drivers are killed between workers.
    n_blocks = files * -(-abstracts // block)
    workers = [(k + 1) * n_blocks // (worker_kills + 1) for k in range(worker_kills)]
    drivers = [(2 * k + 1) * n_blocks // (2 * driver_kills) for k in range(driver_kills)]
    runs["Ray, killed"] = watched(order, scratch / "killed", n, block, workers, drivers, nodes)
    report(runs)
    faults = [*differences(scratch), *missing_or_twice(scratch / "killed", n)]
    faults += [f"no copy of the KB in {d}" for d in nodes.disks if not list(d.glob("kb/kb-*/*"))]
    nodes.cluster.shutdown()
    print("\n".join(faults) or f"Every document once: {n:,}. The three folders are the same.")
    raise typer.Exit(1 if faults else 0)


def watched(
    order: list[str],
    folder: Path,
    n: int,
    block: int,
    worker_kills: list[int],
    driver_kills: list[int],
    nodes: Nodes | None,
) -> Run:
    """Run the link, kill workers and drivers when so many blocks are finished, and run it again."""
    command = [sys.executable, HERE, "link", *order, str(folder)]
    started, memory = time.perf_counter(), []
    driver = subprocess.Popen(command)
    while driver.poll() is None:
        time.sleep(0.5)
        done, workers = len(entries(folder)), nodes.workers() if nodes else descendants(driver.pid)
        memory.append(max([0.0, *map(own_memory, workers)]))
        if worker_kills and done >= worker_kills[0] and workers:
            os.kill(workers[0], signal.SIGKILL)
            print(f"Killed a worker after {worker_kills.pop(0)} blocks", flush=True)
        if driver_kills and done >= driver_kills[0]:
            driver.kill()
            driver.wait()
            print(f"Killed the driver after {driver_kills.pop(0)} blocks", flush=True)
            driver = subprocess.Popen(command)
    if driver.returncode or worker_kills or driver_kills:
        sys.exit(f"ended with {driver.returncode}; not killed: {worker_kills} {driver_kills}")
    seconds = time.perf_counter() - started
    times = sorted(path.stat().st_mtime for path in entries(folder))
    rate = (len(times) - 1) * n / len(times) / (times[-1] - times[0])
    quarters = [memory[len(memory) * k // 4 : len(memory) * (k + 1) // 4] for k in range(4)]
    return Run(seconds, rate, [max(quarter) for quarter in quarters])


def link(
    pipeline: str, input: str, folder: str, block: int = 1000, address: str | None = None
) -> None:
    """The driver: what ``pel link`` does, with blocks of another size."""
    from spacy_pel.cli.link_progress import LinkBar
    from spacy_pel.tasks import link_folder
    from spacy_pel.tasks.link_docs import LinkingChoices

    link_folder.DOCUMENTS_PER_PART = block
    batch = max(1, block // 8)
    choices = LinkingChoices(pipeline, batch_size=batch, n_process=1 if address else 2)
    engine = {"engine": "ray", "address": address, "copy_to": "$NODE_DISK/kb"} if address else {}
    with LinkBar() as bar:
        link_folder.link_to_folder(
            choices, input, folder, output_format="jsonl", progress=bar, **engine
        )


def entries(folder: Path) -> list[Path]:
    """What says that a block is finished."""
    return list((folder / ".pel").glob("*-*.json"))


def files_of(folder: Path) -> dict[str, bytes]:
    """All linked files, by name."""
    return {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}


def differences(scratch: Path) -> list[str]:
    """What differs between the folders."""
    whole = files_of(scratch / "local")
    return [f"{name} differs" for name in ("ray", "killed") if files_of(scratch / name) != whole]


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


def descendants(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [p for p in map(int, filter(str.isdigit, os.listdir("/proc"))) if parent(p) == pid]


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
