"""Round the vectors of a KB to 15 levels a number, so that a wheel holds them in half of the bytes.

The stored type stays int8. The similarity of a name to a mention changes by about 0.01.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import typer

from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.vectors.writing import write_vectors

LEVELS = 7  # on each side of 0
BATCH = 4096  # entities


def main(folder: Path) -> None:
    """Round the vectors of the KB in FOLDER."""
    with KnowledgeBase.open(folder) as kb:
        about = kb.settings["vectors"]
        numbers = kb.numbers_by_id()

        def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for first in range(0, len(numbers), BATCH):
                batch = numbers[first : first + BATCH]
                vectors, owners = kb.rows(batch)
                steps = np.abs(vectors).max(axis=1, keepdims=True) / LEVELS
                steps[steps == 0] = 1
                yield np.rint(vectors / steps) * steps, batch[owners]

        kept = {key: about[key] for key in ("dim", "fingerprint", "index_unit", "dtype", "alike")}
        write_vectors(folder, batches(), **kept)
    print(f"{folder}: {about['rows']:,} vectors rounded")


if __name__ == "__main__":
    typer.run(main)
