"""Checks of the settings of architectures."""

from __future__ import annotations

from ..errors import PelError


def check_choice(setting: str, value: str, *choices: str) -> None:
    """Check that a setting has one of its choices.

    Raises:
        PelError: If it has another value.
    """
    if value not in choices:
        *quoted, last = (f'"{choice}"' for choice in choices)
        raise PelError(f'unknown {setting} "{value}"', f"choose {', '.join(quoted)} or {last}")


def check_length(setting: str, tokens: int, least: int) -> None:
    """Check that an input is long enough.

    Args:
        setting: The name of the setting.
        tokens: Its value, the most tokens of an input.
        least: The least value that makes sense.

    Raises:
        PelError: If the value is less.
    """
    if tokens < least:
        raise PelError(f"{setting} is {tokens} tokens", f"set it to {least} or more")
