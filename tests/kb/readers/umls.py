"""Rows of a UMLS release, and folders of them, for the tests of its reader."""

from pathlib import Path

from ...conftest import write_text


def conso(
    cui: str,
    name: str,
    *,
    lat: str = "ENG",
    suppress: str = "N",
    preferred: bool = False,
    sab: str = "MSH",
    tty: str = "MH",
    code: str = "D1",
    aui: str = "A1",
) -> str:
    ts, stt, ispref = ("P", "PF", "Y") if preferred else ("S", "VO", "N")
    flags = f"{ts}|L1|{stt}|S1|{ispref}"
    return f"{cui}|{lat}|{flags}|{aui}||S9||{sab}|{tty}|{code}|{name}|0|{suppress}|256|"


def sty(cui: str, name: str, tui: str = "T047", number: str = "B2.2.1.2.1") -> str:
    return f"{cui}|{tui}|{number}|{name}|AT1|256|"


def definition(cui: str, source: str, text: str, suppress: str = "N") -> str:
    return f"{cui}|A1|AT1||{source}|{text}|{suppress}|256|"


def relation(cui: str, rel: str, other: str, *, sab: str = "MSH", suppress: str = "N") -> str:
    return f"{cui}|A1|AUI|{rel}|{other}|A2|AUI||R1||{sab}|{sab}|||{suppress}||"


def retired(old: str, rel: str, new: str) -> str:
    return f"{old}|2016AA|{rel}|||{new}|Y|"


def vocabulary(sab: str, lat: str) -> str:
    return f"C1|C2|{sab}1|{sab}|Name|{sab}|1|||||||0|1|1||||{lat}|UTF-8|Y|Y|||"


def write(folder: Path, name: str, lines: list[str]) -> None:
    """A file of a release, packed if its name says so."""
    write_text(folder / name, "".join(f"{line}\n" for line in lines))
