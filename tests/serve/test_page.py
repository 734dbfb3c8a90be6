"""The page in a browser: headless Chromium, driven by Playwright; skipped where these are not."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from spacy.language import Language

from spacy_pel.corpora.document_corpus import open_corpus

from .conftest import LIMITS

pytestmark = pytest.mark.slow
playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if not CHROMIUM:
    pytest.skip("there is no Chromium", allow_module_level=True)

playwright.expect.set_options(timeout=60_000)
ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)
# Of five mentions; what comes before them takes more UTF-16 units than code points.
TEXT = "😀 𝒳 <b> MS </b> & kidney.\n<img src=x onerror=alert(1)> RA or headache 🧠 kidney"


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with playwright.sync_playwright() as driver:
        yield driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS.split())


@pytest.fixture
def visit(browser) -> Iterator[Callable]:
    """Opens a server's page; in the end it must have asked no other host, and logged no error."""
    contexts, errors = [], []

    def open_page(address: str, **options):
        contexts.append(browser.new_context(**options))
        contexts[-1].set_default_timeout(60_000)
        page = contexts[-1].new_page()
        page.on("console", lambda message: errors.append(f"{message.text} {message.location}"))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: _note_if_outside(request.url, address, errors))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [error for error in errors if "Failed to load resource" not in error] == []


def _note_if_outside(url: str, address: str, errors: list[str]) -> None:
    if not url.startswith((f"{address}/", "blob:")):
        errors.append(f"asked {url}")


def link(page, text: str) -> None:
    page.locator("#input").focus()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)  # as pasting does
    page.keyboard.press("Control+Enter")
    settle(page)


def settle(page) -> None:
    """Waits until the answer is there."""
    playwright.expect(page.locator("#status")).not_to_have_text("Linking…")


def exported(page, tmp_path: Path) -> Any:
    with page.expect_download() as download:
        page.get_by_role("button", name="Export JSON").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    content = json.loads(path.read_text("utf8"))
    for record in content if isinstance(content, list) else [content]:
        for mention in record["mentions"]:
            assert mention["text"] == record["text"][mention["start"] : mention["end"]]
    return content


def shown(page) -> list[str]:
    return page.locator(".mention").all_text_contents()


def select(page, words: str) -> None:
    """Selects the words, within one piece of the result."""
    page.evaluate(
        """words => {
          const walker = document.createTreeWalker(document.getElementById("text"), 4);
          while (walker.nextNode()) {
            const at = walker.currentNode.data.indexOf(words);
            if (at < 0) continue;
            const range = document.createRange();
            range.setStart(walker.currentNode, at);
            range.setEnd(walker.currentNode, at + words.length);
            getSelection().removeAllRanges();
            getSelection().addRange(range);
            return;
          }
          throw new Error("not found");
        }""",
        words,
    )


def test_paste_click_edit_export(make_app, serve, visit, tmp_path: Path) -> None:
    page = visit(serve(make_app(LIMITS._replace(mentions=6))))
    link(page, TEXT)
    assert page.locator("#text").text_content() == TEXT
    assert page.locator("#text b, #text img").count() == 0  # text stays text
    assert shown(page) == ["MS", "kidney", "RA", "headache", "kidney"]
    assert page.locator("#status").text_content() == "5 mentions."
    before = exported(page, tmp_path)
    assert [m["text"] for m in before["mentions"]] == shown(page)

    page.locator(".mention", has_text="RA").click()
    candidates = [c["name"] for c in before["mentions"][2]["candidates"]]
    assert page.locator("#candidates b").all_text_contents() == candidates
    page.locator("#candidates details[open] dd").first.wait_for()
    link_out = page.locator("#candidates a").first
    assert link_out.get_attribute("href").startswith("https://example.org/C0")
    assert "noopener" in link_out.get_attribute("rel")

    select(page, "🧠")
    page.get_by_role("button", name="Link this selection").click()
    settle(page)
    assert shown(page) == ["MS", "kidney", "RA", "headache", "🧠", "kidney"]
    assert page.locator("#details-title").text_content() == "“🧠”"

    page.locator(".mention", has_text="RA").click()
    page.get_by_role("button", name="End one word later").click()
    settle(page)
    assert shown(page)[2] == "RA or"
    page.get_by_role("button", name="End one word later").click()  # over its neighbour
    settle(page)
    assert shown(page) == ["MS", "kidney", "RA or headache", "🧠", "kidney"]
    page.get_by_role("button", name="Start one word later").click()
    settle(page)
    page.get_by_role("button", name="Remove").click()
    settle(page)
    assert shown(page) == ["MS", "kidney", "🧠", "kidney"]
    assert [m["text"] for m in exported(page, tmp_path)["mentions"]] == shown(page)


def test_corrections_from_the_whole_kb_are_gold(
    make_app, serve, visit, tiny_nlp: Language, tmp_path: Path
) -> None:
    tiny_nlp.get_pipe("proxy_linker").search.candidates = 1
    page = visit(serve(make_app(nlp=tiny_nlp)))
    link(page, "MS or kidney")
    page.locator(".mention", has_text="MS").click()
    assert page.locator("#candidates b").count() == 1
    page.fill("#search", "no such thing")
    status = page.locator("#found-status")
    playwright.expect(status).to_contain_text("No name in the knowledge base")
    page.fill("#search", "rheumatoid ARTHRITIS")
    page.locator("#found b", has_text="rheumatoid arthritis").click()
    assert "Of the joints." in page.locator("#found dd").first.text_content()
    page.locator("#found button").click()
    playwright.expect(page.locator("#verdict")).to_contain_text("C03 rheumatoid arthritis")
    assert page.locator("#verdict a").get_attribute("href") == "https://example.org/C03"
    page.locator(".mention", has_text="kidney").click()
    page.get_by_role("button", name="None of these (NIL)").click()
    assert page.text_content("#verdict") == "NIL: the knowledge base lacks it."
    exported(page, tmp_path)
    (gold,) = open_corpus(tmp_path / "linked.json").documents()
    assert [mention.ids for mention in gold.mentions] == [("C03",), ()]


def test_by_keyboard_alone(make_app, serve, visit) -> None:
    page = visit(serve(make_app()))
    page.keyboard.press("Tab")  # API
    page.keyboard.press("Tab")  # the text, whole as it is selected
    page.keyboard.insert_text("MS or kidney failure")
    page.keyboard.press("Control+Enter")
    settle(page)
    while not page.evaluate("document.activeElement.classList.contains('mention')"):
        page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    assert page.evaluate("document.activeElement.ariaLabel").startswith("MS, C0")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "details-title"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "MS"
    assert page.locator("#details").is_hidden()

    page.locator("#input").focus()
    page.keyboard.press("Control+End")
    for _ in range(len("kidney failure")):
        page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # on "Link this selection"
    settle(page)
    assert shown(page) == ["MS", "kidney failure"]


def test_errors_in_plain_words(make_app, serve, visit) -> None:
    page = visit(serve(make_app()))
    page.fill("#input", "")
    page.get_by_role("button", name="Link", exact=True).click()
    assert page.text_content("#error") == "Paste or type a text first."
    page.get_by_role("button", name="Link this selection").click()
    assert page.text_content("#error") == "Select some words of the text first."
    link(page, "a" * 301)
    assert page.text_content("#error") == "301 characters of text; send at most 300."
    page.route("**/link", lambda route: route.abort())
    page.get_by_role("button", name="Link", exact=True).click()
    said = "The server cannot be reached. Is it still running?"
    playwright.expect(page.locator("#error")).to_have_text(said)


def choose(page, mention: str, place: int) -> str:
    """Chooses a candidate of a mention; returns its id."""
    page.locator("#text .mention", has_text=mention).click()
    id = page.locator("#candidates .id").nth(place).text_content()
    page.locator("#candidates li > button").nth(place).click()
    playwright.expect(page.locator("#figures")).to_contain_text("chosen by you")
    return id


def test_corrections_of_several_texts_are_exported(make_app, serve, visit, tmp_path: Path) -> None:
    page = visit(serve(make_app()))
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    link(page, "MS or kidney")
    first = choose(page, "MS", 1)
    link(page, "headache")  # nobody edits it
    link(page, "RA and headache")
    second = choose(page, "RA", 1)
    playwright.expect(page.locator("#kept")).to_have_text("Edited: 2 texts")
    page.get_by_role("button", name="Link", exact=True).click()
    assert asked == ["Link this text again, and discard what you changed in it?"]
    link(page, "MS or kidney")
    assert first in page.locator("#text .mention").first.get_attribute("data-tag")
    records = {record["text"]: record["mentions"] for record in exported(page, tmp_path)}
    assert {text: mentions[0]["id"] for text, mentions in records.items()} == {
        "MS or kidney": first,
        "RA and headache": second,
    }
    assert all("score" not in mentions[0] for mentions in records.values())
    assert [len(d.mentions) for d in open_corpus(tmp_path / "linked.json").documents()] == [2, 2]


def test_a_correction_is_applied_and_the_page_says_so(make_app, serve, visit, own_nlp) -> None:
    address = serve(make_app(nlp=own_nlp, allow_fix=True))
    page = visit(address)
    link(page, "MS or kidney")
    right = choose(page, "MS", 1)
    page.select_option("#scope", "always")
    page.get_by_role("button", name="Apply correction").click()
    said = f"Stored as correction 1: “MS” is {right} always."
    playwright.expect(page.locator("#status")).to_have_text(said)
    assert page.locator("#apply").is_hidden()
    other = visit(address)  # another user
    link(other, "Her MS.")
    assert right in other.locator(".mention").get_attribute("data-tag")
    page.close(run_before_unload=True)  # nothing is lost: nothing is asked
    off = visit(serve(make_app()))
    link(off, "MS")
    choose(off, "MS", 1)
    assert off.locator("#apply").is_hidden() and "--allow-fix" in off.text_content("#apply-off")


def test_probabilities_types_reasons_and_long_lists(make_app, serve, visit, monkeypatch) -> None:
    """The server's answers are changed on their way to the page, which shows what is in them."""
    page = visit(serve(make_app()))

    def answered(route) -> None:
        answer = route.fetch()
        content = answer.json()
        mention = content["documents"][0]["mentions"][0]
        mention.update(probability=0.737, types=["Disease or Syndrome"])
        reasons = {"probability": 0.737, "matched_name": "MS, the", "why": "exact name"}
        mention["candidates"][0].update(reasons)
        route.fulfill(response=answer, json=content)

    def with_names(route) -> None:
        answer = route.fetch()
        names = [f"name {number}" for number in range(40)]
        route.fulfill(response=answer, json={**answer.json(), "synonyms": names})

    page.route("**/link", answered)
    page.route("**/entity/*", with_names)
    link(page, "MS or kidney")
    first = page.locator(".mention").first
    assert first.get_attribute("data-tag").endswith("· 74 %")
    assert "Disease or Syndrome" in first.get_attribute("aria-label")
    colours = [
        page.locator(".mention").nth(place).evaluate("e => getComputedStyle(e).backgroundColor")
        for place in (0, 1)
    ]
    assert colours[0] != colours[1]
    assert "Disease or Syndrome" in page.text_content("#legend")
    first.click()
    assert page.locator("#candidates .score").first.text_content() == "74 %"
    assert page.locator("#candidates .why").all_text_contents() == [
        "matches “MS, the”",
        "exact name",
    ]
    more = page.locator("#candidates .more summary").first
    playwright.expect(more).to_have_text("32 more")
    assert not page.get_by_text("name 39").first.is_visible()
    more.click()
    assert page.get_by_text("name 39").first.is_visible()
