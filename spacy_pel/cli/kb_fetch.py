"""``pel kb fetch``: an ontology by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..kb.readers.fetch_ontology import ONTOLOGIES, fetch_ontology
from .apps import command, kb
from .progress_bar import counted, progress_bar
from .terminal import msg

_NAMES = "\n".join(f"  {name:8}{what}" for name, (what, _) in ONTOLOGIES.items())


@command(
    kb,
    "fetch",
    help=f"""Download an open ontology, and check that it can be read.

The file comes from the address of its authors (its PURL). It appears whole, or not at all. Then build
a KB of it with "kb build".

\b
{_NAMES}

\b
Example:
  python -m spacy pel kb fetch mondo
  python -m spacy pel kb build mondo.obo kb
""",
)
def fetch_cli(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of an ontology: see above")],
    to: Annotated[Path, typer.Option(help="Folder that the file goes to")] = Path("."),
) -> None:
    """Download an open ontology, and check that it can be read."""
    with progress_bar(desc="Fetching", unit="B", unit_scale=True, unit_divisor=1024) as bar:

        def received(n: int, total: int | None) -> None:
            bar.total = total
            bar.update(n)

        fetched = fetch_ontology(
            name,
            to,
            received=received,
            progress=lambda entities: counted(entities, "Reading", " entities"),
        )
    release = f" of {fetched.version}" if fetched.version else ""
    msg.good(f"Fetched {fetched.path}: {fetched.entities:,} entities{release}")
    msg.text(f"To build a KB of it: python -m spacy pel kb build {fetched.path} KB")
