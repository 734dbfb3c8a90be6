import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
import spacy
from typer.testing import CliRunner

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from mcp import Client, StdioServerParameters

from spacy_pel.cli import pel, pipelines

TEXT = "🧠 He takes aspirin and has MS."


async def answers(folder: Path) -> list[Any]:
    """What a server in another process says."""
    command = ["-m", "spacy", "pel", "serve", str(folder), "--mcp"]
    async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:
        return [
            await client.list_tools(),
            await client.call_tool("ground", {"names": ["aspirin", "MS"], "n": 1}),
            await client.call_tool("search", {"words": "MS"}),
            await client.call_tool("link", {"text": TEXT}),
            await client.call_tool("ground", {"names": ["MS"], "n": 0}),
            await client.call_tool("ground", {"names": "MS"}),
            await client.call_tool("link", {}),
            await client.call_tool("search", {"words": ""}),
        ]


def test_a_program_grounds_and_links(tiny_folder: Path) -> None:
    listed, grounded, found, linked, *wrong = asyncio.run(answers(tiny_folder))
    assert {tool.name for tool in listed.tools} == {"ground", "link", "search"}
    for tool in listed.tools:
        arguments = tool.input_schema["properties"].values()
        assert tool.description and all(argument["description"] for argument in arguments)
    meanings = [[m["id"] for m in own] for own in grounded.structured_content["result"]]
    assert meanings == [["C05"], ["C01"]]
    assert {entity["id"] for entity in found.structured_content["result"]} == {"C01", "C02"}
    mentions = linked.structured_content["result"]
    assert [TEXT[m["start"] : m["end"]] for m in mentions] == ["aspirin", "MS"]
    for mention, ent in zip(mentions, spacy.load(tiny_folder)(TEXT).ents, strict=True):
        assert (mention["id"], mention["codes"]) == (ent._.kb_id, [])
        assert mention["name"] == ent._.kb_candidates[0]["name"]
    for answer in wrong:
        assert answer.is_error and "validation error" in answer.content[0].text


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "find_spec", lambda name: None)
    result = CliRunner().invoke(pel, ["serve", "pipeline", "--mcp"])
    assert result.exit_code == 1 and 'pip install "spacy-pel[mcp]"' in result.stderr
