"""Downloads an ontology by name from its authors."""

from collections.abc import Callable, Iterable
from http.client import HTTPException
from pathlib import Path
from shutil import move
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import urlopen

from ...errors import PelError
from ..records.entity import Entity
from .source_formats import open_source

_OBO = "https://purl.obolibrary.org/obo/"
# The name, content and permanent URL of each ontology. All are open.
ONTOLOGIES = {
    "mondo": ("diseases, with xrefs to UMLS, ICD and others", f"{_OBO}mondo.obo"),
    "doid": ("diseases", f"{_OBO}doid.obo"),
    "hp": ("phenotypes: signs and symptoms of humans", f"{_OBO}hp.obo"),
    "go": ("functions and processes of gene products", f"{_OBO}go/go-basic.obo"),
    "uberon": ("anatomy of animals", f"{_OBO}uberon.obo"),
    "cl": ("cell types", f"{_OBO}cl.obo"),
    "chebi": ("chemicals; large", f"{_OBO}chebi.obo"),
    "maxo": ("medical actions", f"{_OBO}maxo.obo"),
    "symp": ("symptoms", f"{_OBO}symp.obo"),
    "so": ("parts and variants of sequences", f"{_OBO}so.obo"),
    "efo": ("experimental factors: diseases, cells, assays", "https://www.ebi.ac.uk/efo/efo.obo"),
}
_BLOCK = 1 << 18
_TIMEOUT = 60  # seconds without a byte


def fetch_ontology(
    name: str,
    folder: Path,
    *,
    received: Callable[[int, int | None], object] = lambda n, total: None,
    progress: Callable[[Iterable[Entity]], Iterable[Entity]] = iter,
) -> tuple[Path, int, str | None]:
    """Download an ontology of ``ONTOLOGIES`` into a folder, and check it by reading it whole.

    Args:
        name: The name of the ontology.
        folder: The folder for the file, which appears there only if it can be read.
        received: Is called with the number of bytes of each block, and the total if it is known.
        progress: Wraps the entities while they are read.

    Returns:
        The file, the number of its entities, and its release if the file names it.

    Raises:
        PelError: The name is unknown, the download failed or broke off, or the file cannot be read.
    """
    if name not in ONTOLOGIES:
        raise PelError(f"unknown ontology {name!r}", f"choose one of: {', '.join(ONTOLOGIES)}")
    _, url = ONTOLOGIES[name]
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=".fetched-") as scratch:
        path = Path(scratch) / url.rpartition("/")[2]
        try:
            with urlopen(url, timeout=_TIMEOUT) as response, path.open("xb") as file:
                total = int(response.headers.get("Content-Length") or 0)
                while block := response.read(_BLOCK):
                    file.write(block)
                    received(len(block), total or None)
                if (n_bytes := file.tell()) < total:
                    raise URLError(f"broke off after {n_bytes:,} of {total:,} bytes")
        except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
            problem = f"{url}: cannot be fetched ({getattr(error, 'reason', None) or error})"
            raise PelError(problem, "check the network, and run it again") from error
        try:
            source = open_source(path)
            n = len({entity.concept_id for entity in progress(source.entities)})
        except PelError as error:
            raise PelError(f"{url}: cannot be read ({error.problem})", "run it again") from error
        if not n:
            raise PelError(f"{url}: has no entities", "run it again, or open it in a browser")
        return Path(move(path, folder / path.name)), n, source.version
