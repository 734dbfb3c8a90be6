// The page: a text is linked, its mentions are looked at, edited and linked again.

import { entity, health, link, store } from "./api.js";
import { showDetails } from "./details.js";
import {
  Offsets,
  hue,
  mentionElement,
  moved,
  selectionIn,
  showText,
  typeOf,
  withoutBlanks,
} from "./text.js";

const byId = (id) => document.getElementById(id);
const input = byId("input");
const isWide = matchMedia("(min-width: 56rem)"); // the panel stands beside the text, not below it

const EXAMPLE =
  "A 71-year-old woman with multiple sclerosis and atrial fibrillation was admitted with dyspnea. " +
  "She takes warfarin and baclofen. There was no sign of an MS relapse; an echocardiogram showed " +
  "mitral regurgitation and a dilated left atrium.";

let served = { finds_mentions: true, stores_corrections: false };
let text = ""; // of the result
let mentions = []; // as the API has them, but offsets in UTF-16 units
let record = null; // as the API gave it, for export
let chosen = null; // the mention in the panel
let asking = null; // the request under way
let isEdited = false; // whether the user changed the mentions of the text
const kept = new Map(); // the edited texts before: {record, mentions} by text
let isSaved = true; // whether all edits were exported

/** Links the text anew, with these mentions if they are given; returns whether it did. */
async function relink(newText, given) {
  asking?.abort();
  const mine = (asking = new AbortController());
  byId("error").hidden = true;
  byId("status").textContent = "Linking…";
  const offsets = new Offsets(newText);
  const asked = { text: newText };
  if (given) {
    asked.mentions = given.map(({ start, end, label }) => ({
      start: offsets.toPoints(start),
      end: offsets.toPoints(end),
      ...(label && { label }),
    }));
  }
  const before = record;
  try {
    record = await link(asked, mine.signal);
  } catch (error) {
    if (error.name !== "AbortError") fail(error.message);
    return false;
  }
  if (newText !== text) {
    if (isEdited) kept.set(text, { record: before, mentions });
    isEdited = kept.delete(newText);
  }
  text = newText;
  mentions = record.mentions.map((mention) => ({
    ...mention,
    start: offsets.toUnits(mention.start),
    end: offsets.toUnits(mention.end),
  }));
  for (const corrected of (given ?? []).filter((mention) => mention.corrected)) {
    const same = mentions.find((m) => m.start === corrected.start && m.end === corrected.end);
    if (same) correct(same, corrected);
  }
  show();
  return true;
}

/** Gives a mention the entity that the user chose; what the linker said of another one goes. */
function correct(mention, { id, name, types }) {
  const place = mentions.indexOf(mention);
  const { start, end, text: words, label, candidates } = record.mentions[place];
  record.mentions[place] = { start, end, text: words, label, id, name, candidates };
  Object.assign(mention, { id, name, types, corrected: true, score: null, probability: null });
}

/** Corrects the mention in the panel, which stays open. */
async function choose({ id, name, types }) {
  const mention = chosen;
  if (!types && id !== "NIL") types = await entity(id).then((found) => found.types, () => undefined);
  correct(mention, { id, name, types: types ?? [] });
  noteEdit();
  show();
  open(mention);
}

function noteEdit() {
  isEdited = true;
  isSaved = false;
  showKept();
}

/** Stores the correction of the mention in the panel; the server's next answers follow it. */
async function apply() {
  const { start, end, id, label } = chosen;
  const offsets = new Offsets(text);
  const place = { text, start: offsets.toPoints(start), end: offsets.toPoints(end) };
  try {
    const [stored] = await store([{ ...place, id, label, scope: byId("scope").value }]);
    if (!(await relink(text, mentions))) return;
    const where = { always: "always", label: `with the label ${label}`, text: "in this text and texts like it" };
    byId("status").textContent =
      `Stored as correction ${stored.number}: “${stored.name}” is ${stored.id} ${where[stored.scope]}.`;
    const same = mentions.find((mention) => mention.start === start && mention.end === end);
    same.isStored = true;
    isSaved = !kept.size && mentions.every((mention) => !mention.corrected || mention.isStored);
    open(same);
  } catch (error) {
    fail(error.message);
  }
}

function fail(message) {
  byId("status").textContent = "";
  byId("error").textContent = message;
  byId("error").hidden = false;
}

function show() {
  const overlapping = showText(byId("text"), text, mentions, open);
  byId("overlapping").hidden = !overlapping.length;
  byId("overlapping")
    .querySelector("p")
    .replaceChildren(...overlapping.map((mention) => mentionElement(text, mention, open)));
  showLegend();
  showKept();
  byId("result").hidden = false;
  byId("export").disabled = false;
  byId("status").textContent = summary();
  close();
}

/** The types in the text, each with its colour. */
function showLegend() {
  const isNil = (mention) => mention.id === "NIL" || !mention.id;
  const types = [...new Set(mentions.filter((m) => !isNil(m)).map(typeOf))].sort();
  const rows = types.map((type) => [hue(type), type]);
  if (mentions.some(isNil)) rows.push(["nil", "NIL: not in the knowledge base"]);
  byId("legend").replaceChildren(
    ...rows.map(([colour, words]) => {
      const row = document.createElement("li");
      const sample = document.createElement("i");
      sample.className = `sample ${colour}`;
      row.append(sample, ` ${words}`);
      return row;
    }),
  );
}

function showKept() {
  const count = kept.size + isEdited;
  byId("kept").textContent = count ? `Edited: ${count} text${count === 1 ? "" : "s"}` : "";
}

function summary() {
  if (!mentions.length) {
    const hint = "select words and press “Link this selection”.";
    return served.finds_mentions
      ? `No mention was found. To add one, ${hint}`
      : `This pipeline does not look for mentions itself: ${hint}`;
  }
  const nil = mentions.filter((mention) => mention.id === "NIL").length;
  const count = `${mentions.length} mention${mentions.length === 1 ? "" : "s"}`;
  return nil ? `${count}, ${nil} of them NIL.` : `${count}.`;
}

// The panel

function elementOf(mention) {
  return document.querySelector(
    `.mention[data-start="${mention.start}"][data-end="${mention.end}"]`,
  );
}

function open(mention) {
  close();
  chosen = mention;
  elementOf(mention).setAttribute("aria-expanded", "true");
  showDetails(text, mention, choose);
  byId("apply").hidden = !(mention.corrected && served.stores_corrections && !mention.isStored);
  byId("apply-off").hidden = !mention.corrected || served.stores_corrections;
  byId("hint").hidden = true;
  byId("details").hidden = false;
  byId("details-title").focus({ preventScroll: true });
  if (!isWide.matches) byId("details").scrollIntoView();
}

function close() {
  if (chosen) elementOf(chosen)?.setAttribute("aria-expanded", "false");
  chosen = null;
  byId("details").hidden = true;
  byId("hint").hidden = !mentions.length;
}

// Editing

/** Links a text with this mention in place of those of the others that it overlaps. */
async function put(newText, others, mention) {
  const apart = others.filter((m) => m.end <= mention.start || m.start >= mention.end);
  const focused = document.activeElement;
  if (await relink(newText, [...apart, { ...mention, corrected: false }])) {
    noteEdit();
    const linked = mentions.find((m) => m.start === mention.start && m.end === mention.end);
    if (linked) open(linked);
    focused.focus();
  }
}

async function edit(action) {
  if (action === "close" || action === "remove") {
    const { start } = chosen;
    const others = mentions.filter((mention) => mention !== chosen);
    if (action === "remove") {
      if (!(await relink(text, others))) return;
      noteEdit();
    }
    const near = [...document.querySelectorAll(".mention")];
    close();
    (near.find((element) => Number(element.dataset.start) >= start) ?? near.at(-1) ?? input).focus();
    return;
  }
  if (action === "apply") {
    await apply();
    return;
  }
  if (action === "nil") {
    choose({ id: "NIL", name: null });
    return;
  }
  const [edge, direction] = action.split("-");
  const mention = moved(text, chosen, edge, direction === "left" ? -1 : 1);
  if (mention !== chosen) await put(text, mentions.filter((m) => m !== chosen), mention);
}

async function linkSelection() {
  const selected = selectionIn(byId("text"), text);
  if (selected) {
    getSelection().removeAllRanges();
    await put(text, mentions, selected);
    return;
  }
  const typed = wellFormed(input.value);
  const inInput = withoutBlanks(typed, input.selectionStart, input.selectionEnd);
  if (!inInput) {
    fail("Select some words of the text first.");
    return;
  }
  input.setSelectionRange(inInput.end, inInput.end);
  await put(typed, typed === text ? mentions : [], inInput);
}

/** Without halves of surrogate pairs, which are no text. */
function wellFormed(typed) {
  return typed.toWellFormed?.() ?? typed;
}

function exportJson() {
  const records = [...[...kept.values()].map((one) => one.record), record];
  const exported = records.length === 1 ? record : records;
  const blob = new Blob([JSON.stringify(exported, null, 2)], { type: "application/json" });
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = "linked.json";
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
  isSaved = true;
}

// Events

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const typed = wellFormed(input.value);
  if (!typed.trim()) fail("Paste or type a text first.");
  else if (typed !== text) relink(typed, kept.get(typed)?.mentions);
  else if (!isEdited || confirm("Link this text again, and discard what you changed in it?")) {
    isEdited = false;
    relink(typed);
  }
});
input.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  byId("form").requestSubmit();
});
function selectExample() {
  if (input.value === EXAMPLE) input.select(); // pasting takes its place
}
input.addEventListener("focus", selectExample, { once: true });
input.addEventListener("click", selectExample, { once: true });
addEventListener("beforeunload", (event) => {
  if (!isSaved) event.preventDefault(); // the browser asks
});
byId("link-selection").addEventListener("mousedown", (event) => event.preventDefault()); // keeps it
byId("link-selection").addEventListener("click", linkSelection);
byId("export").addEventListener("click", exportJson);
byId("details").addEventListener("click", (event) => {
  const action = event.target.dataset.edit;
  if (action && chosen) edit(action);
});
byId("details").addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosen) edit("close");
});

input.value ||= EXAMPLE;
health().then(
  (answer) => {
    served = answer;
    const count = answer.entities.toLocaleString("en");
    byId("about").textContent = `${answer.pipeline} · ${count} entities`;
  },
  (error) => fail(error.message),
);
