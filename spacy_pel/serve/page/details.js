// What is known of one mention: its entity, figures and candidates.

import { entity } from "./api.js";
import { tag } from "./text.js";

const byId = (id) => document.getElementById(id);

/** Fills the panel; choose(candidate) is called where the user chooses one. */
export function showDetails(text, mention, choose) {
  byId("details-title").textContent = `“${text.slice(mention.start, mention.end)}”`;
  byId("verdict").textContent = verdict(mention);
  byId("figures").textContent = figures(mention);
  const rejected = mention.id === "NIL" && !mention.corrected && mention.candidates.length;
  byId("candidates-title").textContent = rejected ? "Candidates that were rejected" : "Candidates";
  byId("candidates").replaceChildren(
    ...mention.candidates.map((candidate, rank) => {
      const item = candidateElement(candidate, rank === 0);
      item.append(chooser(candidate, candidate.id === mention.id, choose));
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
  if (mention.score !== null) parts.push(`score ${mention.score.toFixed(3)}`);
  if (mention.probability !== null) {
    const whose = mention.id === "NIL" ? " of the first candidate" : "";
    parts.push(`probability${whose} ${(100 * mention.probability).toFixed(0)} %`);
  }
  return parts.join(" · ");
}

function candidateElement(candidate, isOpen) {
  const item = document.createElement("li");
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  summary.append(
    element("b", candidate.name),
    element("span", candidate.id, "id"),
    element("span", scores(candidate), "score"),
  );
  if (candidate.as_in) summary.append(element("span", `as in: ${candidate.as_in}`, "as-in"));
  details.append(summary);
  details.addEventListener("toggle", () => fill(details, candidate.id), { once: true });
  details.open = isOpen;
  item.append(details);
  return item;
}

function scores(candidate) {
  const score = `score ${candidate.score.toFixed(3)}`;
  const reranked = candidate.rerank_score;
  return reranked == null ? score : `${score} · reranked ${reranked.toFixed(3)}`;
}

async function fill(details, id) {
  const list = document.createElement("dl");
  details.append(list);
  try {
    const found = await entity(id);
    const add = (term, content) => list.append(element("dt", term), element("dd", content));
    add("Definition", found.definition ?? "none");
    add("Synonyms", found.synonyms.join(" · ") || "none");
    add("Types", found.types.join(" · ") || "none");
    if (found.url) {
      const link = element("a", found.url);
      link.href = found.url;
      link.target = "_blank";
      link.rel = "noopener noreferrer";
      add("Source", link);
    }
  } catch (error) {
    list.append(element("dd", error.message));
  }
}

function element(name, content, className = "") {
  const made = document.createElement(name);
  made.className = className;
  made.append(content);
  return made;
}
