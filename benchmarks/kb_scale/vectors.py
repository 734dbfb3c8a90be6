"""Vector indexes at UMLS scale: time, memory and recall of each kind, as one Markdown table.

    python benchmarks/kb_scale/vectors.py SCRATCH [--rows 3000000] [--dim 384] [--kinds ...]

The rows are unit vectors, clustered as the names of an ontology are: 3 million rows have 1,000
topics with 60 clusters each, and a cluster has about 50 rows. They are seeded, and written as float16
to the folder SCRATCH, which needs 2.3 GB for 3 million rows of 384 dimensions, and more for the
indexes. SCRATCH may be deleted afterwards; a second run uses what the first one wrote. The --queries
queries are rows with other noise than that with which the index was tuned. Recall is that of exact
search over the same rows. Each figure comes from a process of its own.

Kinds: exact-float32, exact-float16, exact-int8, approximate ones by FAISS's name for the code of a
row (SQ8, SQ4, PQ96, RaBitQ, ...), and HNSW32_SQ8, a graph.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spacy_pel.kb.vectors.faiss_library import imported_faiss, write_index
from spacy_pel.kb.vectors.index import Candidates, VectorIndex
from spacy_pel.kb.vectors.inverted_file import (
    INDEX_MEMORY,
    built_inverted_file,
    fitting_kind,
    mapped_inverted_file,
)
from spacy_pel.kb.vectors.matrix import ArrayWriter, MatrixWriter, VectorMatrix
from spacy_pel.kb.vectors.recall import DEPTH, chosen_probes, recall
from spacy_pel.kb.vectors.stored_index import opened_index, opened_rows

_BLOCK = 50_000
COLUMNS = {
    "build s": "build_seconds",
    "build peak MB": "build_megabytes",
    "file MB": "file_megabytes",
    "lists a search": "probes",
    "open ms": "open",
    "MB before the first query": "opened_megabytes",
    "first query ms": "first",
    "peak MB serving": "serving_megabytes",
    "ms a query in a batch": "batch",
    "single query p50 ms": "single",
    "only 30 %, batch ms": "third",
    "only 0.1 %, batch ms": "thousandth",
    "recall@1": "1",
    "recall@64": "64",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--kinds", default="exact-float16,SQ8,SQ4,PQ96,RaBitQ")
    parser.add_argument("--step", help="for the processes that this one starts")
    arguments = parser.parse_args()
    folder = arguments.scratch / f"{arguments.rows}x{arguments.dim}x{arguments.queries}"
    if arguments.step:
        print(json.dumps(STEPS[arguments.step](folder, arguments)))
        return
    folder.mkdir(parents=True, exist_ok=True)
    default = fitting_kind(arguments.rows, arguments.dim, INDEX_MEMORY)
    print(f"{arguments.rows:,} rows of {arguments.dim} dimensions, k = {DEPTH}; default: {default}")
    print("\n| kind | " + " | ".join(COLUMNS) + " |\n|---" + "|---:" * len(COLUMNS) + "|")
    if not (folder / "truth.npz").exists():
        _step("rows", arguments)
        _step("truth", arguments)
    for kind in arguments.kinds.split(","):
        figures = {**_step("build", arguments, kind), **_step("serve", arguments, kind)}
        cells = [_cell(figures[name]) for name in COLUMNS.values()]
        print(f"| {kind} | " + " | ".join(cells) + " |", flush=True)


def _step(step: str, arguments: argparse.Namespace, kind: str = "") -> dict[str, Any]:
    """Run a step in a process of its own; gives what it reports."""
    command = [sys.executable, __file__, arguments.scratch, "--step", step, "--kinds", kind]
    for name in ("rows", "dim", "queries"):
        command += [f"--{name}", getattr(arguments, name)]
    run = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    if run.returncode:
        sys.exit(f"{step} {kind}: failed")
    return json.loads(run.stdout.splitlines()[-1])


def _cell(figure: float | None) -> str:
    if figure is None:
        return "–"
    return f"{figure:,.0f}" if figure >= 100 or figure == int(figure) > 1 else f"{figure:.4g}"


def write_rows(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Write the rows as float16, and the queries."""
    random = np.random.default_rng(0)
    matrix = MatrixWriter(_fresh(folder / "float16.npy"), None, arguments.dim, "float16")
    row_entities = ArrayWriter(_fresh(folder / "rows.npy"), "int32")
    for block in clustered(random, arguments.rows, arguments.dim):
        row_entities.append(np.arange(matrix.n_rows, matrix.n_rows + len(block)))
        matrix.append(block)
    matrix.close()
    row_entities.close()
    rows = VectorMatrix.opened(folder / "float16.npy")
    near = rows.take(np.sort(random.choice(len(rows), arguments.queries, replace=False)))
    np.save(folder / "queries.npy", unit(near + 0.3 * noise(random, *near.shape)))
    return {}


def clustered(random: np.random.Generator, n: int, dim: int) -> Iterator[np.ndarray]:
    """n unit vectors, float32, in blocks."""
    clusters = cluster_centres(random, n, dim)
    for start in range(0, n, _BLOCK):
        yield around(random, clusters, min(_BLOCK, n - start))


def cluster_centres(random: np.random.Generator, n: int, dim: int) -> np.ndarray:
    """The centres of the clusters of n unit vectors: float32 [n / 50, dim]."""
    topics = unit(noise(random, max(1, n // 3000), dim))
    clusters = topics[random.integers(len(topics), size=max(1, n // 50))]
    return unit(clusters + 0.8 * noise(random, *clusters.shape))


def around(random: np.random.Generator, clusters: np.ndarray, n: int) -> np.ndarray:
    """Unit vectors, each near the centre of a cluster: float32 [n, dim]."""
    centres = clusters[random.integers(len(clusters), size=n)]
    return unit(centres + 0.5 * noise(random, *centres.shape))


def noise(random: np.random.Generator, n: int, dim: int) -> np.ndarray:
    """Gaussian vectors [n, dim] of about unit length."""
    return random.standard_normal((n, dim), dtype=np.float32) / np.float32(dim**0.5)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def write_truth(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Write what exact search over the rows finds."""
    found = _opened(folder, "exact-float16").search(np.load(folder / "queries.npy"), DEPTH)
    np.savez(folder / "truth.npz", **found._asdict())
    return {}


def build(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Write the index of a kind, and its entry for a manifest."""
    kind = arguments.kinds
    matrix, row_entities = opened_rows(folder, _entry("exact-float16"))
    start, probes, path = time.perf_counter(), None, folder / f"{kind}.faiss"
    if kind.startswith("exact-"):
        path = folder / f"{kind.removeprefix('exact-')}.npy"
        if kind != "exact-float16":
            _copy(matrix, path)
    elif kind.startswith("HNSW"):
        graph = imported_faiss().index_factory(matrix.dim, kind, 0)
        graph.train(matrix.block(0, 100_000))
        for _, block in matrix.blocks():
            graph.add(block)
        write_index(graph, path)
    else:
        write_index(built_inverted_file(matrix, kind), path)
        probes, _ = chosen_probes(matrix, row_entities, mapped_inverted_file(path))
    (folder / f"{kind}.json").write_text(json.dumps({"file": path.name, "probes": probes}))
    return {
        "build_seconds": time.perf_counter() - start,
        "build_megabytes": resident("VmHWM"),
        "file_megabytes": path.stat().st_size / 1e6,
        "probes": probes,
    }


def _copy(matrix: VectorMatrix, path: Path) -> None:
    dtype = path.stem
    scales = _fresh(path.with_suffix(".scales.npy")) if dtype == "int8" else None
    writer = MatrixWriter(_fresh(path), scales, matrix.dim, dtype)
    for _, block in matrix.blocks():
        writer.append(block)
    writer.close()


def serve(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Open an index, and search it."""
    queries = np.load(folder / "queries.npy")
    index, opened = _timed(lambda: _opened(folder, arguments.kinds))
    opened_megabytes = resident()
    _, first = _timed(lambda: index.search(queries[:1], DEPTH))
    found, batch = _timed(lambda: index.search(queries, DEPTH))
    few = 5 if arguments.kinds.startswith("exact-") else 100  # those take seconds each
    singles = [_timed(lambda: index.search(query[None], DEPTH))[1] for query in queries[:few]]
    third, thousandth = (
        _timed(lambda: index.search(queries, DEPTH, _allowed(arguments.rows, share)))[1]
        if "HNSW" not in arguments.kinds
        else None
        for share in (0.3, 0.001)
    )
    with np.load(folder / "truth.npz") as truth:
        shares = recall(found, Candidates(truth["numbers"], truth["scores"]))
    return {
        "open": 1000 * opened,
        "opened_megabytes": opened_megabytes,
        "first": 1000 * first,
        "batch": 1000 * batch / len(queries),
        "single": 1000 * float(np.median(singles)),
        "serving_megabytes": resident("VmHWM"),
        "third": third and 1000 * third / len(queries),
        "thousandth": thousandth and 1000 * thousandth / len(queries),
        **shares,
    }


def _timed(call) -> tuple[Any, float]:
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def _allowed(n: int, share: float) -> np.ndarray:
    return np.random.default_rng(1).random(n) < share


def _opened(folder: Path, kind: str) -> VectorIndex:
    if kind.startswith("HNSW"):
        matrix, row_entities = opened_rows(folder, _entry("exact-float16"))
        return VectorIndex(matrix, row_entities, GraphRows(folder / f"{kind}.faiss"))
    entry = _entry(kind)
    if not kind.startswith("exact-"):
        entry["index"] = json.loads((folder / f"{kind}.json").read_text())
    dim = np.load(folder / "float16.npy", mmap_mode="r").shape[1]
    return opened_index(folder, entry, dim)


def _entry(kind: str) -> dict[str, Any]:
    dtype = kind.removeprefix("exact-") if kind.startswith("exact-") else "float16"
    scales = f"{dtype}.scales.npy" if dtype == "int8" else None
    return {"file": f"{dtype}.npy", "scales_file": scales, "rows_file": "rows.npy", "index": None}


class GraphRows:
    """A ``RowFinder`` that follows a graph (HNSW), without selections."""

    bounds = True
    finds_entities = False
    oversampling = 4

    def __init__(self, path: Path) -> None:
        self._graph = imported_faiss().read_index(str(path), imported_faiss().IO_FLAG_MMAP_IFC)

    def nearest(self, queries: np.ndarray, depth: int, effort: int, selection: None):
        parameters = imported_faiss().SearchParametersHNSW(efSearch=2 * depth)
        scores, rows = self._graph.search(queries, depth, params=parameters)
        return np.where(rows < 0, -np.inf, scores).astype(np.float32), rows

    def suits(self, depth: int, selection: None) -> bool:
        return True

    def sees_all(self, effort: int, selection: None) -> bool:
        return True

    def list_sizes(self, rows: np.ndarray) -> None:
        return None


def resident(field: str = "VmRSS") -> float:
    """The resident memory of this process in MB, with mapped files."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(field))
    return int(line.split()[1]) / 1024


def _fresh(path: Path) -> Path:
    path.unlink(missing_ok=True)
    return path


STEPS = {"rows": write_rows, "truth": write_truth, "build": build, "serve": serve}

if __name__ == "__main__":
    main()
