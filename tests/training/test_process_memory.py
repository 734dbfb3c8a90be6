from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from spacy_pel.training.process_memory import peak_memory_mb, release_memory

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@linux
def test_the_peak_is_what_the_system_says() -> None:
    status = Path("/proc/self/status").read_text()
    highest = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024
    assert peak_memory_mb() == pytest.approx(highest, abs=8)


@linux
def test_gaps_are_given_back() -> None:
    def resident_mb() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

    blocks = [bytes([1]) * 100_000 for _ in range(2000)]
    del blocks[::2]
    before = resident_mb()
    release_memory()
    assert resident_mb() < before - 50
    assert len(blocks) == 1000
