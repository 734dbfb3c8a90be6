import json
import subprocess
import sys
from pathlib import Path

import spacy
from spacy.cli.package import package

from spacy_pel.package.assemble import PackageInfo, assemble

from ..conftest import run_python

TEXT = "The patient has MS and cephalgia."
# In a process of its own, that can open no connection.
LINK = """
import json, socket, sys

def refused(*_, **__):
    raise OSError("no network here")

socket.socket.connect = socket.getaddrinfo = refused
import spacy

nlp = spacy.load("xx_tiny_linker")
ents = [[ent.kb_id_, ent._.kb_candidates] for ent in nlp(sys.argv[1]).ents]
kb = nlp.get_pipe("proxy_linker").kb
print(json.dumps([nlp.meta, str(kb.path), ents]))
"""


def test_installed_it_needs_nothing_else(tiny_folder: Path, tiny_kb: Path, tmp_path: Path) -> None:
    nlp = spacy.load(tiny_folder)
    expected = [[ent.kb_id_, ent._.kb_candidates] for ent in nlp(TEXT).ents]
    info = PackageInfo(name="tiny_linker", version="1.2.0", licences="Names: CC0 1.0.\n")
    assemble(nlp, tiny_kb, tmp_path / "pipeline", info=info)
    (tmp_path / "packages").mkdir()
    package(tmp_path / "pipeline", tmp_path / "packages", create_sdist=False)
    installed = tmp_path / "installed"
    options = ("--no-index", "--no-deps", "--no-build-isolation", "--use-pep517", "--no-compile")
    subprocess.run(
        [*(sys.executable, "-m", "pip", "install", "--quiet", *options, "--target"), installed]
        + [tmp_path / "packages" / "xx_tiny_linker-1.2.0"],
        check=True,
    )
    own = {"PYTHONPATH": str(installed), "PATH": "", "HF_HUB_OFFLINE": "1"}
    meta, kb, ents = json.loads(run_python(LINK, TEXT, env=own, cwd=tmp_path))
    assert ents == expected
    folder = installed / "xx_tiny_linker" / "xx_tiny_linker-1.2.0"
    assert Path(kb) == folder / "proxy_linker" / "kb"
    assert (meta["version"], meta["knowledge_base"]["sources"]) == ("1.2.0", ["tiny"])
    assert any(need.startswith("spacy-pel>=") for need in meta["requirements"])
    assert (folder / "README.md").read_text("utf8").startswith("# xx_tiny_linker 1.2.0\n")
    (notes,) = installed.glob("*.dist-info/licenses/LICENSES_SOURCES")
    assert notes.read_text() == (folder / "LICENSES_SOURCES").read_text() == "Names: CC0 1.0.\n"
    assert str(tiny_kb) not in (folder / "config.cfg").read_text("utf8")
