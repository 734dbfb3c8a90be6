"""Every name we register is found without importing the package, and what it names can be built."""

import ast
import json
import re
from importlib.metadata import distribution
from pathlib import Path

import pytest
from spacy.util import registry

from spacy_pel import registry as names
from spacy_pel.pipeline.factory import DEFAULTS
from spacy_pel.registry import REGISTERED

from .conftest import run_python

NAMES = [(group, name) for group, entries in REGISTERED.items() for name in entries]
# The arguments of those that have some without a default.
BUILT_WITH_ARGUMENTS = {
    "spacy-pel.BiEncoder.v1": {k: v for k, v in DEFAULTS["model"].items() if k[0] != "@"},
    "spacy-pel.DocumentEncoder.v1": {"encoder": DEFAULTS["model"]["encoder"]},
    "spacy-pel.SharedEncoder.v1": {"tok2vec": None, "encoder": DEFAULTS["model"]["encoder"]},
    "spacy-pel.CrossEncoder.v1": {"encoder": DEFAULTS["model"]["encoder"]},
    "spacy-pel.WordTagger.v1": {"encoder": DEFAULTS["model"]["encoder"]},
    "spacy-pel.PretrainedEncoder.v1": {"name": "any"},
    "spacy-pel.TrainedEncoder.v1": {"path": "any"},
    "spacy-pel.ScratchEncoder.v1": {
        k: v for k, v in DEFAULTS["model"]["encoder"].items() if k[0] != "@"
    },
    "spacy-pel.DocumentCorpus.v1": {"path": ["a.jsonl", "b"]},
    "spacy-pel.NameCorpus.v1": {"kb": "kb", "limit": 100, "seed": 1},
    "spacy-pel.batch_by_mentions.v1": {"size": 32},
    "spacy-pel.batch_by_entities.v1": {"size": 32},
    "spacy-pel.AdamW.v1": {"learn_rate": 1e-5},
}
LOOK_UP = """
import json, sys
import spacy, thinc.api
from spacy.util import registry
assert not any(name.startswith("spacy_pel") for name in sys.modules)
for group, name in json.loads(sys.argv[1]):
    if group == "spacy_factories":  # spaCy finds these in its own way
        spacy.blank("en").add_pipe(name)
        continue
    kind, _, table = group.partition("_")
    tables = thinc.api.registry if kind == "thinc" else registry
    found = getattr(tables, table).get(name)
    assert callable(found), (group, name, found)
"""


def test_what_is_installed_is_what_is_registered() -> None:
    installed: dict[str, dict[str, str]] = {group: {} for group in REGISTERED}
    for point in distribution("spacy-pel").entry_points:
        installed.setdefault(point.group, {})[point.name] = point.value
    assert installed.pop("console_scripts") == {"pel": "spacy_pel.cli:pel"}
    assert installed == REGISTERED, "spacy_pel/registry.py has changed: pip install -e ."


def test_every_name_is_found_in_a_fresh_process() -> None:
    run_python(LOOK_UP, json.dumps(NAMES))


@pytest.mark.parametrize(
    ("group", "name"), [n for n in NAMES if n[0] not in ("spacy_factories", "spacy_cli")]
)
def test_everything_can_be_built_from_a_config(group: str, name: str) -> None:
    assert re.fullmatch(r"spacy-pel\..+\.v\d+", name)
    block = {f"@{group.partition('_')[2]}": name, **BUILT_WITH_ARGUMENTS.get(name, {})}
    assert registry.resolve({"it": block})["it"] is not None


def test_the_list_of_names_imports_nothing() -> None:
    tree = ast.parse(Path(names.__file__).read_text(encoding="utf8"))
    assert not any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in ast.walk(tree))
