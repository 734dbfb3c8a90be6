// A text and its mentions on the page. Offsets in this file are UTF-16 units, as JavaScript counts;
// the API counts code points, so that an emoji is one and not two.

/** Converts offsets of one text. */
export class Offsets {
  constructor(text) {
    this.units = [0]; // of each code point, and of the end
    for (const character of text) this.units.push(this.units.at(-1) + character.length);
  }

  toUnits(point) {
    return this.units[point];
  }

  /** An offset within a surrogate pair counts as the one after it. */
  toPoints(unit) {
    let low = 0;
    let high = this.units.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.units[middle] < unit) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** The selected part of what is shown in the element, {start, end} without blanks; or null. */
export function selectionIn(element, text) {
  const selection = getSelection();
  if (!selection.rangeCount || selection.isCollapsed) return null;
  const range = selection.getRangeAt(0);
  if (!element.contains(range.startContainer) || !element.contains(range.endContainer)) return null;
  const before = document.createRange();
  before.selectNodeContents(element);
  before.setEnd(range.startContainer, range.startOffset);
  const start = before.toString().length;
  return withoutBlanks(text, start, start + range.toString().length);
}

/** {start, end} without white space at the edges; null if nothing is left. */
export function withoutBlanks(text, start, end) {
  const inner = text.slice(start, end);
  if (!inner.trim()) return null;
  start += inner.length - inner.trimStart().length;
  return { start, end: start + inner.trim().length };
}

/** The mention with one edge moved by a word: edge "start" or "end", by -1 or 1. */
export function moved(text, mention, edge, by) {
  const segments = [...new Intl.Segmenter("en", { granularity: "word" }).segment(text)].filter(
    (segment) => segment.segment.trim(),
  );
  const places = segments.map((s) => (edge === "start" ? s.index : s.index + s.segment.length));
  const place =
    by < 0
      ? places.filter((p) => p < mention[edge]).at(-1)
      : places.find((p) => p > mention[edge]);
  const result = { ...mention, [edge]: place ?? mention[edge] };
  return result.start < result.end ? result : mention;
}

/** What is said of a mention next to it. */
export function tag(mention) {
  if (mention.id === "NIL") return "NIL";
  return mention.id ? `${mention.id} ${mention.name ?? ""}` : "no candidate";
}

/** A probability as people read it. */
export function percent(probability) {
  const percent = 100 * probability;
  if (percent < 1) return "< 1 %";
  return percent > 99 && percent < 100 ? "> 99 %" : `${Math.round(percent)} %`;
}

/** What a mention is coloured by: the type of its entity, or its label. */
export function typeOf(mention) {
  return mention.types?.[0] ?? mention.label;
}

const HUES = 6;
const types = []; // in the order in which they first came: a type keeps its colour

/** The class of the colour of a type. */
export function hue(type) {
  if (!types.includes(type)) types.push(type);
  return `hue-${types.indexOf(type) % HUES}`;
}

/** Fills the element with the text; returns the mentions that overlap those shown in it. */
export function showText(element, text, mentions, open) {
  const overlapping = [];
  const nodes = [];
  let end = 0;
  const inOrder = [...mentions].sort((a, b) => a.start - b.start || b.end - a.end);
  for (const mention of inOrder) {
    if (mention.start < end) {
      overlapping.push(mention);
      continue;
    }
    nodes.push(text.slice(end, mention.start), mentionElement(text, mention, open));
    end = mention.end;
  }
  element.replaceChildren(...nodes, text.slice(end));
  return overlapping;
}

/** A mention that can be chosen by click, Enter or Space. */
export function mentionElement(text, mention, open) {
  const element = document.createElement("span");
  const isNil = mention.id === "NIL" || !mention.id;
  element.className = `mention ${isNil ? "nil" : hue(typeOf(mention))}`;
  element.textContent = text.slice(mention.start, mention.end);
  const isSure = isNil || mention.probability == null ? "" : ` · ${percent(mention.probability)}`;
  element.dataset.tag = `${tag(mention)}${mention.corrected ? " · corrected" : isSure}`;
  element.dataset.start = mention.start;
  element.dataset.end = mention.end;
  element.tabIndex = 0;
  element.setAttribute("role", "button");
  element.setAttribute("aria-controls", "details");
  element.setAttribute("aria-expanded", "false");
  const type = isNil ? "" : `, ${typeOf(mention)}`;
  element.setAttribute("aria-label", `${element.textContent}, ${element.dataset.tag}${type}`);
  element.addEventListener("click", () => {
    if (getSelection().isCollapsed) open(mention); // else words are being selected
  });
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    open(mention);
  });
  return element;
}
