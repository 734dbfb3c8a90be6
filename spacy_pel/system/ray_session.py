"""Ray as this package uses it: it is started or reached, and its errors become one line."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import PelError


@contextmanager
def ray_session(address: str | None, kept: str) -> Iterator[None]:
    """Ray, for the time of a ``with`` block. If it runs already in this process, that is used.

    PelError if it is not installed or cannot be reached, or loses too many workers.

    Args:
        address: The address of a cluster. None starts Ray on this computer.
        kept: What is kept after an error, for the message: "the chunks that are finished".
    """
    try:
        import ray
        import ray.data
        from ray.exceptions import RayError
        from ray.util.annotations import RayDeprecationWarning
    except ImportError as error:
        raise PelError(
            'the engine "ray" needs Ray', 'install it: pip install "spacy-pel[ray]"'
        ) from error

    started = not ray.is_initialized()
    if started:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.WARNING)
        except Exception as error:  # Ray has no class of its own for it
            raise PelError(
                f"cannot reach or start Ray ({_summary(error)})",
                "give the --address of a cluster that runs, or leave it out to start Ray on this "
                "computer",
            ) from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    try:
        with warnings.catch_warnings():
            # Of a limit on retries, which has no other name yet; and of more actors than work.
            warnings.simplefilter("ignore", RayDeprecationWarning)
            warnings.filterwarnings("ignore", module=r"ray\.data\.")
            yield
    except RayError as error:
        raise PelError(
            f"Ray gave up ({_summary(error)})", f"see its logs, and run it again: {kept} are kept"
        ) from error
    finally:
        if started:
            ray.shutdown()


def device_and_workers() -> tuple[str, int]:
    """What the workers of the cluster compute with, "GPU" or "CPU", and how many there can be."""
    import ray

    resources = ray.cluster_resources()
    kind = "GPU" if resources.get("GPU") else "CPU"
    return kind, int(resources[kind])


def _summary(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
