"""Reads the JSON object of a line."""

from __future__ import annotations

import json
from typing import Any


def json_object(line: str) -> dict[str, Any]:
    """The JSON object of a line.

    Raises:
        ValueError: The line holds no JSON object. The message says why.
    """
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"bad JSON ({error.msg} at column {error.colno})") from error
    except RecursionError as error:
        raise ValueError("bad JSON (nested too deeply)") from error
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    return record
