"""How far linking has come: shares of bytes that end at the total."""

from __future__ import annotations

import math
import warnings

from spacy_pel.cli.link_progress import LinkBar


def test_rounded_shares_are_no_more_than_the_total(capsys) -> None:
    n = next(n for n in range(1, 1000) if sum([1 / n] * n) > 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of tqdm
        with LinkBar() as progress:
            progress.started(1)
            for _ in range(n):
                progress.linked(1 / n)
                progress.bar.refresh()
    assert math.isclose(progress.bar.n, 1) and progress.documents == n
    assert f"{n:,} documents" in capsys.readouterr().err
