"""Where a saved pipeline finds its knowledge base.

A pipeline refers to its KB and does not copy it. What is saved is the KB's path, absolute and seen
from the pipeline, so that the two can be moved together; a KB inside the component's own folder,
where ``pel assemble`` puts it, goes before both.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

# The folder of a KB inside the pipeline, and the file that points to one outside of it.
KB_FOLDER, KB_REFERENCE = "kb", "kb.json"


def kb_reference(
    kb: Optional[str], configured: Optional[str], file: Optional[Path] = None
) -> dict[str, Optional[str]]:
    """What is saved in ``file``, if there is one, of a KB.

    kb: the folder in use. configured: the one that the config named, to notice when the config
    names another one at loading.
    """
    absolute = Path(kb).absolute() if kb else None
    relative = os.path.relpath(absolute, file.absolute().parent) if absolute and file else None
    return {
        "absolute": str(absolute) if absolute else None,
        "relative": relative,
        "configured": configured,
    }


def found_kb(reference: dict[str, Optional[str]], file: Optional[Path]) -> Optional[str]:
    """The folder of the KB that the reference, read from ``file``, leads to; None if to none."""
    absolute, relative = reference["absolute"], reference["relative"]
    folders = [Path(absolute)] if absolute else []
    if file and relative:
        folders.insert(0, file.parent / relative)
    if file:
        folders.insert(0, file.parent / KB_FOLDER)
    return next((str(folder.resolve()) for folder in folders if folder.is_dir()), absolute)
