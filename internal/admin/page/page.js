// The live page: takes the stream of events, keeps a bounded history of it and
// shows one ingress at a time.

import { read } from "./api.js";
import { Changed } from "./changed.js";
import { Charts } from "./charts.js";
import { decodeHistory, decodeStatus } from "./decode.js";
import { age, reasons, setText } from "./format.js";
import { showBackends, showPills, showTabs } from "./overview.js";
import { showIngresses, showPanels } from "./panels.js";
import { Settings } from "./settings.js";
import { Store } from "./store.js";
import { Table } from "./table.js";
import { Tiles } from "./tiles.js";
import { Tuner } from "./tuner.js";
import { Why } from "./why.js";

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
const tiles = new Tiles(byId("tiles"));
const changed = new Changed(announce);
const settings = new Settings(announce, (ingress) => store.ingresses.get(ingress)?.entity.doc.forecast ?? "");
new Tuner(announce); // looks after itself
const act = (does, name) => {
  const entity = store.ingresses.get(view.ingress)?.partitions.get(name);
  if (entity) settings[does](view.ingress, entity);
};
const why = new Why(act);
const table = new Table((name) => {
  view.partition = name;
  if (name !== null) announce(`Charts of partition ${name}`);
  show();
}, act, look);

const AGAIN = 2000; // milliseconds between two looks for what is searched
let sought = ""; // what is searched
let looking = null; // the next look

/** Finds partitions that the stream does not list, for as long as something is searched. */
async function look(text = sought) {
  sought = text;
  clearTimeout(looking);
  const name = view.ingress, ingress = store.ingresses.get(name);
  if (!ingress) return;
  let list = [], { at } = store.doc;
  if (text !== "" && ingress.entity.doc.partitionCount > ingress.partitions.size) {
    const answer = await read(`v1/status?ingress=${encodeURIComponent(name)}&find=${encodeURIComponent(text)}&partitions=100`);
    if (text !== sought || answer === null) return;
    const doc = decodeStatus(answer);
    [list, at] = [doc.ingresses[0]?.partitions ?? [], doc.at];
  }
  store.find(name, list, Date.parse(at) / 1000, view.partition);
  if (text !== "") looking = setTimeout(look, AGAIN);
  show();
}

// ---- what is shown ----

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

/** What the axis of the charts shows: the whole window, or since when there is something to show. */
function span(now, entity) {
  const { first, columns: [times, admitted] } = now.history(entity, ["admitted"], view.seconds);
  const known = admitted.findIndex((v) => v !== null);
  const end = times.at(-1) ?? 0, long = known < 0 ? 0 : end - times[known];
  if (long > view.seconds - 5) return `last ${age(view.seconds)}`;
  if (now.doc.uptimeSeconds < view.seconds - 5 && first <= end - now.doc.uptimeSeconds + 10) return `since the gate started, ${age(now.doc.uptimeSeconds)} ago`;
  if (Math.abs(end - long - now.began) < 5) return `since you opened this page, ${age(long)} ago`;
  return `last ${age(long)}, as far as is known`;
}

/** The partition that is refused most, or null when none is. */
function worst(ingress) {
  let most = null;
  for (const p of ingress.partitions.values()) if (p.mean.rejected > 0.05 && !(p.mean.rejected <= most?.mean.rejected)) most = p;
  return most?.name ?? null;
}

const LEVELS = ["", "ok", "warn", "bad"], MARKS = { warn: "! ", bad: "✗ " };

/** The title of the window says the worst that any ingress has to say, so that a tab in the background does. */
function showTitle(now, v) {
  let [worst, name] = [v, view.ingress];
  if (!lost()) {
    for (const [other, { entity }] of now.ingresses) {
      const said = entity.doc.verdict;
      if (LEVELS.indexOf(said.level) > LEVELS.indexOf(worst.level)) [worst, name] = [said, other];
    }
  }
  const title = `${MARKS[worst.level] ?? ""}${worst.told} · ${name} · admitd`;
  if (document.title !== title) document.title = title;
}

function choose(name) {
  [view.ingress, view.partition] = [name, null];
  announced.delete("verdict");
  recall();
  show();
}

function showNow() {
  const now = seen();
  showPills(store.doc, !view.connected || lost(), view.frozen?.doc, announce);
  if (!now.doc) return;
  setText(byId("version"), now.doc.version);
  if (!now.ingresses.has(view.ingress)) [view.ingress, view.partition] = [now.ingresses.keys().next().value ?? null, null];
  showTabs(now.ingresses, view.ingress, lost(), choose);
  const ingress = now.ingresses.get(view.ingress);
  if (!ingress) return;
  const { doc } = ingress.entity;
  setText(byId("route"), `${doc.protocol} · ${doc.listen} → ${doc.backend} · mode ${doc.mode}`);
  const v = verdict(ingress);
  setText(byId("verdict"), v.text);
  byId("verdict").className = `verdict ${v.level}`;
  document.body.classList.toggle("stale", lost());
  announce(v.told, "verdict");
  showTitle(now, v);
  showBackends(doc, now.doc.at);
  setText(byId("forecast"), lost() ? "" : doc.forecast);
  tiles.show(ingress);
  if (view.partition !== null && !ingress.partitions.has(view.partition)) view.partition = null;
  const part = view.partition === null ? null : ingress.partitions.get(view.partition);
  setText(byId("charts-title"), part === null ? "All partitions" : `Partition ${view.partition}`);
  setText(byId("charts-span"), span(now, part ?? ingress.entity));
  byId("clear").hidden = part === null;
  charts.show(now, ingress.entity, part, view.seconds);
  table.show([...ingress.partitions.values()], view.partition, doc.partitionCount);
  why.show(view.ingress, view.partition ?? worst(ingress), view.partition !== null, ingress.entity.rate.known);
  showPanels(now.doc, ingress);
  showIngresses(now.ingresses, view.ingress, choose);
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
  const answer = await fetch(`v1/history?since=30m&ingress=${encodeURIComponent(name)}`).catch(() => null);
  if (!answer?.ok) return; // the charts begin empty
  const past = decodeHistory(await answer.json(), name);
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
      const doc = decodeStatus(JSON.parse(e.data));
      if (reasons.take(doc.reasons) || charts.charts.length === 0) charts.build();
      store.take(doc, kind === "status");
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
function change() {
  const ingress = store.ingresses.get(view.ingress);
  if (ingress) settings.open(view.ingress, view.partition === null ? null : ingress.partitions.get(view.partition) ?? null);
}

byId("theme").addEventListener("click", nextTheme);
byId("pause").addEventListener("click", pause);
byId("clear").addEventListener("click", clear);
byId("settings").addEventListener("click", change);
byId("changed-pill").addEventListener("click", () => changed.open([...store.ingresses.keys()]));
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
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
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
