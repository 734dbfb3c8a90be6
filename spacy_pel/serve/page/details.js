// What is known of one mention: its entity, figures and candidates.

import { entity, search } from "./api.js";
import { percent, tag } from "./text.js";

const byId = (id) => document.getElementById(id);

const FOLDED = 8; // synonyms that are shown before the others are asked for

let searching = null; // the search that is under way, or waits for more letters

/** Fills the panel; choose(candidate) is called where the user chooses one. */
export function showDetails(text, mention, choose) {
  byId("details-title").textContent = `“${text.slice(mention.start, mention.end)}”`;
  byId("verdict").textContent = verdict(mention);
  byId("verdict").append(pageLink(mention.id));
  byId("figures").textContent = figures(mention);
  const rejected = mention.id === "NIL" && !mention.corrected && mention.candidates.length;
  byId("candidates-title").textContent = rejected ? "Candidates that were rejected" : "Candidates";
  show("candidates", mention.candidates, mention, choose);
  byId("search").value = "";
  byId("search").oninput = () => find(mention, choose);
  find(mention, choose);
}

/** Searches the whole knowledge base for the words in the box, once no more letters come. */
async function find(mention, choose) {
  searching?.abort();
  const { signal } = (searching = new AbortController());
  const words = byId("search").value.trim();
  const say = (content) => (byId("found-status").textContent = content);
  say("");
  if (!words) return show("found", [], mention, choose);
  await new Promise((resolve) => setTimeout(resolve, 250));
  if (signal.aborted) return;
  try {
    const entities = await search(words, signal);
    if (signal.aborted) return;
    show("found", entities, mention, choose);
    if (!entities.length) say("No name in the knowledge base has all of these words.");
  } catch (error) {
    if (!signal.aborted) say(error.message);
  }
}

/** Fills a list with entities to choose from, the first candidate opened. */
function show(list, entities, mention, choose) {
  byId(list).replaceChildren(
    ...entities.map((one, rank) => {
      const item = candidateElement(one, list === "candidates" && rank === 0);
      item.append(chooser(one, one.id === mention.id, choose));
      return item;
    }),
  );
}

function chooser(candidate, isChosen, choose) {
  const button = element("button", isChosen ? "Chosen" : "Choose");
  button.type = "button";
  button.setAttribute("aria-pressed", isChosen);
  button.setAttribute("aria-label", `Choose ${candidate.name}`);
  button.addEventListener("click", () => choose(candidate));
  return button;
}

function verdict(mention) {
  if (mention.id === "NIL") return `NIL: the knowledge base ${mention.corrected ? "lacks" : "seems to lack"} it.`;
  return mention.id ? tag(mention) : "The knowledge base has no candidate for it.";
}

function figures(mention) {
  const parts = [`label ${mention.label}`];
  if (mention.corrected) parts.push("chosen by you");
  if (mention.probability !== null) {
    const whose = mention.id === "NIL" ? " of the first candidate" : "";
    parts.push(`probability${whose} ${percent(mention.probability)}`);
  }
  return parts.join(" · ");
}

function candidateElement(candidate, isOpen) {
  const item = document.createElement("li");
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  const words = element("span", "", "words");
  words.append(
    element("b", candidate.name),
    element("span", candidate.id, "id"),
    element("span", scores(candidate), "score"),
  );
  const { matched_name: matched, why, as_in: nearest, correction } = candidate;
  const said = [matched && `matches “${matched}”`, why, nearest && `as in: ${nearest}`];
  said.push(correction && `decided: ${correction}`);
  for (const line of said.filter(Boolean)) words.append(element("span", line, "why"));
  summary.append(words);
  details.append(summary);
  details.addEventListener("toggle", () => fill(details, candidate), { once: true });
  details.open = isOpen;
  item.append(details);
  return item;
}

/** What orders the candidates: the probability where there is one. */
function scores(candidate) {
  if (candidate.score == null) return candidate.types.join(" · "); // found by its name
  return candidate.probability == null ? similarity(candidate) : percent(candidate.probability);
}

function similarity(candidate) {
  const score = `similarity ${candidate.score.toFixed(3)}`;
  const reranked = candidate.rerank_score;
  return reranked == null ? score : `${score} · reranked ${reranked.toFixed(3)}`;
}

async function fill(details, candidate) {
  const list = document.createElement("dl");
  details.append(list);
  try {
    const found = await entity(candidate.id);
    const add = (term, content) => list.append(element("dt", term), element("dd", content));
    add("Definition", found.definition ?? "none");
    add("Synonyms", folded(found.synonyms));
    add("Types", found.types.join(" · ") || "none");
    if (found.cross_references.length) add("Codes", folded(found.cross_references));
    if (candidate.probability != null) add("Score", similarity(candidate));
    if (found.url) add("Source", anchor(found.url));
  } catch (error) {
    list.append(element("dd", error.message));
  }
}

/** The first items of a list, and the others behind "more". */
function folded(items) {
  const shown = items.slice(0, FOLDED).join(" · ") || "none";
  const others = items.slice(FOLDED);
  if (!others.length) return shown;
  const more = element("details", element("summary", `${others.length} more`), "more");
  more.append(element("p", others.join(" · ")));
  const all = document.createDocumentFragment();
  all.append(shown, more);
  return all;
}

/** A link to the page of an entity at its source, once it is known that there is one. */
function pageLink(id) {
  const place = element("span", "");
  if (id && id !== "NIL") {
    entity(id).then(({ url }) => url && place.append(" ", anchor(url)), () => null);
  }
  return place;
}

function anchor(url) {
  const link = element("a", `${new URL(url).host} ↗`);
  link.href = url;
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  return link;
}

function element(name, content, className = "") {
  const made = document.createElement(name);
  made.className = className;
  made.append(content);
  return made;
}
