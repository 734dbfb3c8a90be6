"""What is done at a document that cannot be linked."""

from __future__ import annotations

from enum import Enum


class OnError(str, Enum):
    """What happens at a bad document: ``stop`` ends the run, ``skip`` reports it and goes on."""

    stop = "stop"
    skip = "skip"
