// The server's API. Every error is one whose message can be shown.

/** Links one document: {text, mentions?}, offsets in code points. */
export async function link(document, signal) {
  const body = JSON.stringify({ documents: [document] });
  const headers = { "Content-Type": "application/json" };
  const answer = await ask("link", { method: "POST", headers, body, signal });
  return answer.documents[0];
}

/** Stores corrections in the knowledge base: [{text, start, end, id, label, scope}], in code points. */
export async function store(corrections) {
  const body = JSON.stringify({ corrections });
  const headers = { "Content-Type": "application/json" };
  return (await ask("corrections", { method: "POST", headers, body })).stored;
}

/** The record of an entity. */
export function entity(id) {
  return ask(`entity/${encodeURIComponent(id)}`);
}

/** The entities whose names hold all of these words; first the one with this id, if there is one. */
export async function search(words, signal) {
  const byName = ask(`search?q=${encodeURIComponent(words)}&limit=20`, { signal });
  const byId = /\s/.test(words) ? null : entity(words).catch(() => null);
  const [exact, { entities }] = await Promise.all([byId, byName]);
  return exact ? [exact, ...entities.filter(({ id }) => id !== exact.id)] : entities;
}

/** What is served. */
export function health() {
  return ask("health");
}

async function ask(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server cannot be reached. Is it still running?");
  }
  const answer = await response.json().catch(() => null);
  if (response.ok && answer) return answer;
  throw new Error(plain(answer?.detail ?? `the server answered ${response.status}`));
}

/** A sentence of the API as one of the page, which has one document. */
function plain(detail) {
  const text = detail.replace(/^(document|correction) 0: /, "");
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}
