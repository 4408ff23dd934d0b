// The live page: takes the stream of events, keeps a bounded history of it and
// shows one ingress at a time.

import { Charts } from "./charts.js";
import { REASONS, element, millis, number, percent, setText } from "./format.js";
import { Settings } from "./settings.js";
import { Store } from "./store.js";
import { Table } from "./table.js";
import { Tuner } from "./tuner.js";

const byId = (id) => document.getElementById(id);
const store = new Store();
const view = { ingress: null, partition: null, seconds: 300, frozen: null, connected: false };
const seen = () => view.frozen ?? store; // what is shown

const QUIET = 10000; // milliseconds between two announcements of one state, which may flutter
const announced = new Map();
/** Tells assistive technology; a state is told only when it changes, and not too often. */
function announce(text, state) {
  if (state !== undefined) {
    const before = announced.get(state);
    if (before?.text === text || (before && performance.now() - before.at < QUIET)) return;
    announced.set(state, { text, at: before ? performance.now() : -QUIET });
    if (!before) return; // what was there when the page came is read with the page
  }
  byId("announce").textContent = text;
}

const charts = new Charts(byId("charts"));
const settings = new Settings(announce);
new Tuner(announce); // looks after itself
const table = new Table((name) => {
  view.partition = name;
  if (name !== null) announce(`Charts of partition ${name}`);
  show();
});

// ---- what is shown ----

function pill(text, kind, title) { return { text, kind, title: title ?? "" }; }

/** The state of the daemon in a few words each. */
function pills(doc) {
  const list = [];
  if (!view.connected || lost()) list.push(pill("connection lost, trying again", "bad"));
  else if (view.frozen) list.push(pill(`paused at ${new Date(view.frozen.doc.at).toLocaleTimeString()}`, "warn"));
  if (!doc) return list;
  list.push(doc.draining ? pill("draining", "bad", "nothing new is admitted") : pill("serving", "ok"));
  const fallback = doc.ingresses.some((i) => i.fallback);
  list.push(doc.clock.trusted
    ? pill(fallback ? "fallback limits" : "clock trusted", fallback ? "warn" : "ok", doc.clock.detail)
    : pill("clock not trusted, limits fixed", "warn", doc.clock.detail));
  list.push(doc.config.lastSuccessful
    ? pill("config in force", "ok", `since ${doc.config.lastSuccess ?? "the start"}`)
    : pill("last reload refused", "bad", (doc.config.problems ?? []).join("\n")));
  return list;
}

function showPills() {
  const list = pills(store.doc);
  const root = byId("pills");
  const key = JSON.stringify(list);
  if (root.dataset.key === key) return;
  root.dataset.key = key;
  root.replaceChildren(...list.map((p) => element("li", { className: `pill ${p.kind}`, title: p.title, textContent: p.text })));
  announce(list.map((p) => p.text).join(", "), "pills");
}

const LOST = 4000; // milliseconds without an event after which the link is taken for lost
let heard = 0; // when the last event came
const lost = () => store.doc !== null && !view.frozen && (!view.connected || performance.now() - heard > LOST);

/** What the gate says of the ingress; nothing, while nothing is known of the present. */
function verdict(ingress) {
  if (!lost()) return ingress.entity.doc.verdict;
  const at = new Date(store.doc.at).toLocaleTimeString("en-GB"), seconds = Math.round((performance.now() - heard) / 1000);
  return { level: "", text: `No link to the gate: last seen ${at}, ${seconds} s ago`, told: "No link to the gate" };
}
setInterval(() => lost() && show(), 1000); // how long ago it was grows

/** How each backend answers, where there is something to say. */
function showBackends(doc) {
  const now = Date.parse(doc.at);
  const words = (doc.backends ?? []).filter((b) => b.state !== "up" && b.state !== "unknown").map((b) => {
    const since = b.since ? ` for ${Math.round((now - Date.parse(b.since)) / 1000)} s` : "";
    return `${b.address} is ${b.state}${since}${b.cause && b.state !== "slow" ? ` (${b.cause})` : ""}`;
  });
  setText(byId("backends"), words.join(" · "));
}

const tiles = new Map();
/** Writes a tile; id names it, sub is a second line, share is told when one points at it. */
function tile(id, title, value, { sub = "", kind = "", share } = {}) {
  let t = tiles.get(id);
  if (!t) {
    t = { value: element("dd"), sub: element("dd", { className: "sub" }) };
    t.root = element("div", { className: "tile", id: `tile-${id}` }, element("dt", { textContent: title }), t.value, t.sub);
    byId("tiles").append(t.root);
    tiles.set(id, t);
  }
  setText(t.value, value);
  t.value.className = kind;
  setText(t.sub, sub || "\u00a0");
  t.root.title = share === undefined ? "" : `${percent(share)} full`;
}

function showTiles(ingress) {
  const { entity, sums } = ingress, { rate, doc } = entity, c = doc.connections;
  tile("admitted", "Admitted", `${number(rate.admitted)}/s`, { sub: `of ${number(rate.received)}/s received` });
  tile("failed", "Failed", `${number(rate.failed)}/s`, {
    sub: rate.failed > 0 ? `${percent(rate.failed / Math.max(rate.admitted, rate.failed))} of what was admitted` : "got no answer from the backend", kind: rate.failed > 0 ? "bad" : "",
  });
  const refused = rate.rejected > 0;
  tile("rejected", doc.mode === "shadow" ? "Would reject" : "Rejected", `${number(doc.mode === "shadow" ? rate.would : rate.rejected)}/s`, {
    sub: refused ? `${percent(rate.rejected / rate.received)}, ${REASONS[entity.reason]}` : "", kind: refused ? "warn" : "",
  });
  tile("inflight", "In flight", number(doc.inFlight), { sub: `limit ${number(sums.limit)}${doc.queued ? `, ${number(doc.queued)} queued` : ""}` });
  tile("wait", "Wait in the gate", rate.wait === 0 ? "none" : millis(rate.wait), { sub: "mean over what is admitted", kind: rate.wait > sums.rtt ? "warn" : "" });
  tile("rtt", "RTT", millis(sums.rtt), { sub: sums.base > 0 ? `base ${millis(sums.base)}` : "no base" });
  const b = doc.requests;
  tile("tokens", "Bucket", b ? number(b.tokens) : "∞", {
    sub: b ? `of ${number(b.burst)} tokens, ${number(b.rate)}/s` : "no request rate", kind: b && b.tokens < 1 ? "warn" : "", share: b ? Math.max(0, b.tokens) / b.burst : undefined,
  });
  if (c) {
    const turned = Object.values(c.rejected).reduce((a, n) => a + n, 0);
    tile("open", "Connections", number(c.open), { sub: turned ? `${number(turned)} turned away` : `of at most ${number(c.maxOpen)}` });
  }
}

function showTabs() {
  const root = byId("tabs");
  const names = [...seen().ingresses.keys()];
  if (!names.includes(view.ingress)) [view.ingress, view.partition] = [names[0] ?? null, null];
  const key = names.join("\n");
  if (root.dataset.key !== key) {
    root.dataset.key = key;
    root.replaceChildren(...names.map((name) => {
      const tab = element("button", { type: "button", role: "tab", textContent: name }, element("span", { className: "dot" }));
      tab.dataset.name = name;
      tab.setAttribute("aria-controls", "overview");
      tab.addEventListener("click", () => {
        [view.ingress, view.partition] = [name, null];
        announced.delete("verdict");
        recall();
        show();
      });
      return tab;
    }));
  }
  for (const tab of root.children) {
    const { doc } = seen().ingresses.get(tab.dataset.name).entity;
    const chosen = tab.dataset.name === view.ingress;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    tab.firstElementChild.className = `dot ${lost() ? "idle" : doc.verdict.level || "idle"}`;
    tab.firstElementChild.title = lost() ? "" : doc.verdict.told;
  }
}

function showNow() {
  showPills();
  const now = seen();
  if (!now.doc) return;
  setText(byId("version"), now.doc.version);
  showTabs();
  const ingress = now.ingresses.get(view.ingress);
  if (!ingress) return;
  const { doc } = ingress.entity;
  setText(byId("route"), `${doc.protocol} · ${doc.listen} → ${doc.backend} · mode ${doc.mode}`);
  const v = verdict(ingress);
  setText(byId("verdict"), v.text);
  byId("verdict").className = `verdict ${v.level}`;
  document.body.classList.toggle("stale", lost());
  announce(v.told, "verdict");
  showBackends(doc);
  showTiles(ingress);
  if (view.partition !== null && !ingress.partitions.has(view.partition)) view.partition = null;
  setText(byId("charts-title"), view.partition === null ? "All partitions" : `Partition ${view.partition}`);
  byId("clear").hidden = view.partition === null;
  charts.show(now, ingress.entity, view.partition === null ? null : ingress.partitions.get(view.partition), view.seconds);
  table.show([...ingress.partitions.values()], view.partition);
}

let due = false;
/** Shows the present state with the next frame; a hidden page waits. */
function show() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    showNow();
  });
}

// ---- the stream ----

/** Has the charts of the ingress that is shown begin with what the daemon remembers. */
async function recall() {
  const name = view.ingress ?? store.doc.ingresses[0]?.name;
  if (name === undefined) return;
  const answer = await fetch(`v1/history?since=15m&ingress=${encodeURIComponent(name)}`).catch(() => null);
  if (!answer?.ok) return; // the charts begin empty
  const past = (await answer.json())[name];
  if (past && !view.frozen) store.fill(name, past);
  show();
}

const RETRY = 3000; // milliseconds; the browser itself tries again only after what is not an answer

function connect() {
  const source = new EventSource("v1/events");
  for (const kind of ["status", "delta"]) {
    source.addEventListener(kind, (e) => {
      view.connected = true;
      heard = performance.now();
      store.take(JSON.parse(e.data), kind === "status");
      if (kind === "status") recall();
      show();
    });
  }
  source.addEventListener("error", () => {
    view.connected = false;
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, RETRY); // as with too many readers
    show();
  });
}
connect();

// ---- controls ----

const remembered = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
const remember = (key, value) => { try { localStorage.setItem(key, value); } catch { /* not allowed here: forgotten */ } };

const themes = ["auto", "light", "dark"];
function theme(name) {
  document.documentElement.dataset.theme = name;
  setText(byId("theme"), `Theme: ${name}`);
  remember("admitd-theme", name);
  charts.redraw();
}
const nextTheme = () => theme(themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length]);
theme(themes.includes(remembered("admitd-theme")) ? remembered("admitd-theme") : "auto");
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.redraw());

function pause() {
  if (!store.doc) return;
  view.frozen = view.frozen ? null : store.freeze();
  byId("pause").setAttribute("aria-pressed", String(Boolean(view.frozen)));
  setText(byId("pause"), view.frozen ? "Resume" : "Pause");
  show();
}
function clear() {
  view.partition = null;
  show();
}
const change = () => view.ingress !== null && settings.open(view.ingress, view.partition);

byId("theme").addEventListener("click", nextTheme);
byId("pause").addEventListener("click", pause);
byId("clear").addEventListener("click", clear);
byId("settings").addEventListener("click", change);
byId("window").addEventListener("change", (e) => {
  view.seconds = Number(e.target.value);
  show();
});
byId("tabs").addEventListener("keydown", (e) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
  const tabs = [...byId("tabs").children];
  if (!step || !tabs.includes(document.activeElement)) return;
  const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
  next.click();
  next.focus();
});

const keys = { p: pause, t: nextTheme, c: change, "/": () => byId("search").focus() };
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || byId("dialog").open) return;
  const typing = e.target instanceof HTMLInputElement || e.target instanceof HTMLSelectElement;
  if (e.key === "Escape") {
    if (typing) e.target.blur();
    else clear();
  } else if (!typing && keys[e.key]) {
    e.preventDefault();
    keys[e.key]();
  } else if (e.target.id === "search" && e.key === "ArrowDown" && table.list.length) {
    e.preventDefault();
    table.focus(0);
  }
});
