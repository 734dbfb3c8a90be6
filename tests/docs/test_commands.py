"""The checks of the documentation find what they should."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pages import Block, Page, check_spacy, commands_of, spacy_arguments


def test_a_page_is_read(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(
        "See [x](x.md) and ![y](y.png) and `code`.\n\n"
        "<!-- needs: umls -->\n```bash\nls\n```\n\n```python\nimport spacy\n```\n\n    indented\n"
    )
    page = Page(path)
    assert (page.links, page.codes, page.marks) == (["x.md", "y.png"], ["code"], ["umls"])
    assert page.blocks == [
        Block("bash", "ls\n", 4, "umls"),
        Block("python", "import spacy\n", 8, None),
        Block("", "indented\n", 12, None),
    ]
    code = "cd project\n\n# a comment\npython -m spacy \\\n  info\ncat > x <<'END'\na b\nEND\nls\n"
    assert list(commands_of(code)) == [
        "cd project", "python -m spacy    info", "cat > x <<'END'\na b\nEND", "ls"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("python -m spacy pel kb info kb   # look", ["pel", "kb", "info", "kb"]),
        ('python -m spacy pel kb info kb "a; b"', ["pel", "kb", "info", "kb", "a; b"]),
        ("python -m spacy pel link P - | head", None),
        ("python -m spacy pel link P - > out", None),
        ("python scripts/show_links.py", None),
        ('python -m spacy pel kb info "', None),
    ],
)
def test_a_command_of_spacy_is_told(command: str, arguments: list[str] | None) -> None:
    assert spacy_arguments(command) == arguments


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ("pel kb build SOURCE KB --by-xref", None),
        ("pel link PIPELINE notes.txt -o out.jsonl", None),
        ("train config.cfg --output training --paths.kb kb", None),
        ("pel link --help", None),
        ("pel lnk PIPELINE notes.txt", "no command .'lnk'. in pel"),
        ("pel kb", "no command .* in kb"),
        ("pel link PIPELINE notes.txt --no-such-option", "--no-such-option"),
        ("pel link PIPELINE", "link lacks .'input'."),
    ],
)
def test_what_is_not_there_is_found(arguments: str, fault: str | None) -> None:
    if fault is None:
        check_spacy(arguments.split())
        return
    with pytest.raises(Exception, match=fault):
        check_spacy(arguments.split())


def test_a_mention_of_a_command_may_leave_out_arguments() -> None:
    check_spacy(["pel", "evaluate", "--rerank", "0"], whole=False)
    with pytest.raises(Exception, match="--rank"):
        check_spacy(["pel", "evaluate", "--rank", "0"], whole=False)
