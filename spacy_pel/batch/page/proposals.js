// One proposal at a time: accept it, merge it into an entity, or reject it. Decisions stay in the browser.

const byId = (id) => document.getElementById(id);
const proposals = JSON.parse(byId("data").textContent);
const store = `proposals ${proposals.map((own) => own.concept_id).join()}`;
const decisions = remembered(); // by id: {verdict, name} and, if it is merged, {into}
let place = Math.max(0, proposals.findIndex((own) => !decisions[own.concept_id]));

function remembered() {
  try {
    return JSON.parse(localStorage.getItem(store)) ?? {};
  } catch {
    return {}; // a browser may refuse to keep anything for a file
  }
}

function remember() {
  try {
    localStorage.setItem(store, JSON.stringify(decisions));
  } catch {
    // then they last as long as the page is open
  }
}

function element(kind, text, className) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function show(focus) {
  const own = proposals[place];
  byId("proposal").hidden = !own;
  const counts = { accept: 0, merge: 0, reject: 0 };
  for (const { verdict } of Object.values(decisions)) counts[verdict] += 1;
  const left = proposals.length - counts.accept - counts.merge - counts.reject;
  byId("about").textContent =
    `${counts.accept} accepted, ${counts.merge} merged, ${counts.reject} rejected, ${left} left`;
  byId("accepted").disabled = !counts.accept;
  byId("merged").disabled = !counts.merge;
  if (!own) {
    byId("status").textContent = "Nothing was proposed.";
    return;
  }
  const decision = decisions[own.concept_id];
  byId("proposal").className = `sheet ${decision?.verdict ?? ""}`;
  byId("status").textContent = `${place + 1} of ${proposals.length}${said(decision)}`;
  byId("name-title").textContent = own.canonical_name;
  byId("name").value = decision?.name ?? own.canonical_name;
  byId("aliases").textContent = own.aliases.length ? `Also: ${own.aliases.join("; ")}` : "";
  byId("figures").textContent = [
    own.types.join(", "),
    `${own.mentions} mentions in ${own.documents} documents`,
    `probability ${Math.round(100 * own.probability)} %`,
  ].filter(Boolean).join(" · ");
  byId("examples").replaceChildren(...own.examples.map(example));
  byId("nearest").replaceChildren(...own.nearest.map((entity, i) => nearest(entity, i, decision)));
  if (focus) byId("name-title").focus();
}

function said(decision) {
  if (!decision) return "";
  const words = { accept: "accepted", reject: "rejected", merge: `merged into ${decision.into}` };
  return ` · ${words[decision.verdict]}`;
}

function example({ document: name, before, text, after }) {
  const item = document.createElement("li");
  item.append(before, element("mark", text), after, " ", element("span", name, "id"));
  return item;
}

function nearest(entity, i, decision) {
  const item = document.createElement("li");
  const button = element("button", `Merge (${i + 1})`);
  button.type = "button";
  button.setAttribute("aria-label", `Merge into ${entity.name}`);
  button.setAttribute("aria-pressed", decision?.into === entity.id);
  button.addEventListener("click", () => decide("merge", entity.id));
  item.append(
    element("b", entity.name),
    element("span", entity.id, "id"),
    element("span", entity.score.toFixed(3), "score"),
    button,
  );
  return item;
}

function decide(verdict, into) {
  const own = proposals[place];
  if (!own) return;
  const name = byId("name").value.trim() || own.canonical_name;
  decisions[own.concept_id] = into ? { verdict, name, into } : { verdict, name };
  remember();
  go(1);
}

function go(step) {
  place = Math.min(proposals.length - 1, Math.max(0, place + step));
  show(true);
}

function undo() {
  delete decisions[proposals[place]?.concept_id];
  remember();
  show(true);
}

const actions = {
  a: () => decide("accept"),
  r: () => decide("reject"),
  u: undo,
  j: () => go(1),
  k: () => go(-1),
};

function press(key) {
  const entity = proposals[place]?.nearest[Number(key) - 1];
  if (actions[key]) actions[key]();
  else if (/^[1-9]$/.test(key) && entity) decide("merge", entity.id);
}

function record(own) {
  const { name, into } = decisions[own.concept_id];
  const names = [...new Set([own.canonical_name, ...own.aliases])].filter((other) => other !== name);
  const { concept_id, types, definition } = own;
  return into
    ? { concept_id: into, canonical_name: name, aliases: names }
    : { concept_id, canonical_name: name, aliases: names, types, definition };
}

function download(verdict, file) {
  const chosen = proposals.filter((own) => decisions[own.concept_id]?.verdict === verdict);
  const lines = chosen.map((own) => `${JSON.stringify(record(own))}\n`);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
  link.download = file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input");
  if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey) press(event.key.toLowerCase());
});
for (const button of document.querySelectorAll("[data-key]")) {
  button.addEventListener("click", () => press(button.dataset.key));
}
byId("accepted").addEventListener("click", () => download("accept", "accepted.jsonl"));
byId("merged").addEventListener("click", () => download("merge", "merged.jsonl"));
show(false);
