// Asks the admin port. The token, once typed, stays in this module until the
// page is closed, and goes nowhere else.

let token = "";
let asks; // whether changes need a token; undefined = not known yet

/** Takes a token that was typed. */
export function useToken(typed) { if (typed) token = typed; }

/** Reads JSON; null when the gate does not answer or refuses. */
export async function read(path) {
  const answer = await fetch(path).catch(() => null);
  return answer?.ok ? answer.json().catch(() => null) : null;
}

/** The configuration in force. It also tells whether changes need a token. */
export async function configuration() {
  const config = await read("v1/config");
  if (config === null) throw new Error("the gate does not tell its configuration");
  asks = Boolean(config.admin?.tokenFile);
  return config;
}

/** Whether a token has to be typed before anything can be changed. */
export async function needsToken() {
  if (asks === undefined) await configuration();
  return asks && token === "";
}

/** The tag of an ingress's settings as they are now: a change that carries it is refused when somebody was faster. */
export async function tagOf(ingress) {
  const answer = await fetch(`v1/ingresses/${encodeURIComponent(ingress)}`).catch(() => null);
  return answer?.ok ? answer.headers.get("ETag") : null;
}

/** Changes something; returns the answer, or throws what is wrong in the gate's words. */
export async function change(method, path, body, tag = null) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (tag !== null) headers["If-Match"] = tag;
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const doc = await answer.json().catch(() => ({}));
  if (answer.status === 401) {
    const wrong = token !== "";
    [token, asks] = ["", true];
    throw new Error(wrong ? "Refused: the token is not the right one. Nothing was changed." : "Refused: a token is needed. Nothing was changed.");
  }
  if (answer.status === 412) throw new Error("Somebody else changed it meanwhile. Nothing was changed: close this and look again.");
  if (!answer.ok) throw new Error([doc.detail ?? `Refused: status ${answer.status}`, ...(doc.problems ?? [])].join("\n"));
  return doc;
}
