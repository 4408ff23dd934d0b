// The first look: the state of the daemon, and of one ingress in a sentence.

import { element, setText } from "./format.js";

const byId = (id) => document.getElementById(id);
const pill = (text, kind, title = "") => ({ text, kind, title });

/** The state of the daemon in a few words each. */
function pills(doc, lost, frozen) {
  const list = [];
  if (lost) list.push(pill("connection lost, trying again", "bad"));
  else if (frozen) list.push(pill(`paused at ${new Date(frozen.at).toLocaleTimeString("en-GB")}`, "warn"));
  if (!doc) return list;
  list.push(doc.draining ? pill("draining", "bad", "nothing new is admitted") : pill("serving", "ok"));
  const fallback = doc.ingresses.some((i) => i.fallback);
  if (!doc.clock.trusted) list.push(pill("clock not trusted, limits fixed", "warn", doc.clock.detail));
  else if (fallback) list.push(pill("fallback limits", "warn", doc.clock.detail));
  list.push(doc.config.lastSuccessful
    ? pill("config in force", "ok", `since ${doc.config.lastSuccess || "the start"}`)
    : pill("last reload refused", "bad", doc.config.problems.join("\n")));
  return list;
}

/** Shows the pills, and tells assistive technology when they change. */
export function showPills(doc, lost, frozen, announce) {
  const list = pills(doc, lost, frozen);
  const changed = doc?.config.changed ?? 0;
  const button = byId("changed-pill");
  button.hidden = changed === 0;
  setText(button, `changed at run time (${changed})`);
  const root = byId("pills"), key = JSON.stringify(list);
  if (root.dataset.key === key) return;
  root.dataset.key = key;
  root.replaceChildren(...list.map((p) => element("li", { className: `pill ${p.kind}`, title: p.title, textContent: p.text })));
  announce(list.map((p) => p.text).join(", "), "pills");
}

/** How each backend answers, where there is something to say. */
export function showBackends(ingress, at) {
  const now = Date.parse(at);
  const words = ingress.backends.filter((b) => b.state !== "up" && b.state !== "unknown").map((b) => {
    const since = b.since ? ` for ${Math.round((now - Date.parse(b.since)) / 1000)} s` : "";
    return `${b.address} is ${b.state}${since}${b.cause && b.state !== "slow" ? ` (${b.cause})` : ""}`;
  });
  setText(byId("backends"), words.join(" · "));
}

/** Shows a tab for each ingress; choose is called with the name of one. */
export function showTabs(ingresses, chosen, lost, choose) {
  const root = byId("tabs"), names = [...ingresses.keys()], key = JSON.stringify(names);
  if (root.dataset.key !== key) {
    root.dataset.key = key;
    root.replaceChildren(...names.map((name) => {
      const tab = element("button", { type: "button", role: "tab", textContent: name }, element("span", { className: "dot" }));
      tab.dataset.name = name;
      tab.setAttribute("aria-controls", "overview");
      tab.addEventListener("click", () => choose(name));
      return tab;
    }));
  }
  for (const tab of root.children) {
    const { doc } = ingresses.get(tab.dataset.name).entity, is = tab.dataset.name === chosen;
    tab.setAttribute("aria-selected", String(is));
    tab.tabIndex = is ? 0 : -1;
    tab.firstElementChild.className = `dot ${lost ? "idle" : doc.verdict.level || "idle"}`;
    tab.firstElementChild.title = lost ? "" : doc.verdict.told;
  }
}
