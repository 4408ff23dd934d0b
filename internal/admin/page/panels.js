// What has a place only where it exists: who makes the load, classes, shapes, the
// fleet, candidates.

import { element, millis, number, percent, setText } from "./format.js";

const byId = (id) => document.getElementById(id);

/** A row: its name, and cells as text. */
function row(name, cells, kind = "") {
  return element("tr", { className: kind }, element("th", { scope: "row", textContent: name }), ...cells.map((textContent) => element("td", { textContent })));
}

/** Fills the table of a section; without rows the section is hidden. */
function fill(id, rows) {
  byId(id).hidden = rows.length === 0;
  byId(`${id}-rows`).replaceChildren(...rows);
}

/** What other limits would have done with the same requests. */
function showCandidates(list) {
  const cells = (c) => [percent(c.rejectedShare), percent(c.enforcedShare), percent(c.forNothingShare), millis(c.p50MS), millis(c.p99MS), number(c.limit)];
  fill("candidates", list.map((c) => (c.warming ? row(c.name, ["watching the backend; nothing is counted yet", "", "", "", "", ""]) : row(c.name, cells(c)))));
}

const NAMED = 3; // rates that are named where files of gates differ

const MANY = 0.5; // share of the requests from which on one asker stands out

/** Who makes the load, by kind. Names come from clients. */
function showLoad({ doc, mean }) {
  const rows = [];
  for (const [kind, list] of doc.top) {
    for (const a of list) {
      const share = mean.received > 0 ? Math.min(1, a.received / mean.received) : NaN;
      rows.push(row(a.name, [kind, `${a.over > 0 ? "≤ " : ""}${number(a.received)}`, percent(share), number(a.refused)], share > MANY && list.length > 1 ? "most" : ""));
    }
  }
  fill("load", rows);
}

let before = { at: 0, key: "", counts: new Map() }; // of the classes, some seconds ago
let rates = new Map();

/** Who goes first, and what becomes of it, per second. */
function showClasses({ doc }, at) {
  const seconds = Date.parse(at) / 1000, list = doc.classes?.counts ?? [];
  if (before.key !== doc.name || seconds < before.at || seconds - before.at >= 3) {
    const gone = before.key === doc.name ? seconds - before.at : 0;
    const per = (c, f) => (gone > 0 ? Math.max(0, c[f] - (before.counts.get(c.name)?.[f] ?? 0)) / gone : 0);
    rates = new Map(list.map((c) => [c.name, ["admitted", "rejected", "shed", "exempted"].map((f) => number(per(c, f)))]));
    before = { at: seconds, key: doc.name, counts: new Map(list.map((c) => [c.name, c])) };
  }
  fill("classes", list.map((c) => row(c.name, rates.get(c.name) ?? ["–", "–", "–", "–"])));
}

/** What requests cost, by what they have in common. */
function showShapes({ doc }) {
  fill("shapes", doc.shapes.map((s) => row(s.name, [percent(s.share), millis(s.meanMS), number(s.cost), number(s.ended), number(s.refused)], s.share > MANY ? "most" : "")));
}

/** What this gate shares with others. */
function showFleet(fleet) {
  fill("fleet", (fleet?.quotas ?? []).map((q) => row(q.name, [`${number(q.perSecond)}/s`, `${number(q.share)}/s`, `${number(q.demand)}/s`, number(q.gates), q.mode])));
  if (!fleet) return;
  byId("fleet").hidden = false;
  const differ = fleet.differs.filter((r) => r.source === "file"); // what was set at run time is meant to differ
  const told = differ.slice(0, NAMED).map((r) => `${r.name} is ${number(r.perSecond)}/s by the file of gate ${r.by}, ${number(r.ownPerSecond)}/s by this gate's`);
  if (differ.length > NAMED) told.push(`and ${differ.length - NAMED} more`);
  const problem = fleet.problem ? `, ${fleet.problem}` : "", files = differ.length > 0 ? `; files of gates differ: ${told.join(", ")}` : "";
  setText(byId("fleet-state"), `group ${fleet.group}, ${fleet.gates} gates, this one goes by: ${fleet.mode}${problem}${files}`);
  byId("fleet-state").className = fleet.mode === "leased" && differ.length === 0 ? "muted" : "warn";
}

/** Every ingress in a line, the worst first, where there are several; choose is called with the name of one. */
export function showIngresses(ingresses, chosen, choose) {
  const levels = ["bad", "warn", "ok", ""];
  const list = ingresses.size > 1 ? [...ingresses.values()].map((i) => i.entity) : [];
  list.sort((a, b) => levels.indexOf(a.doc.verdict.level) - levels.indexOf(b.doc.verdict.level));
  fill("ingresses", list.map(({ doc, mean }) => {
    const button = element("button", { type: "button", className: "small", textContent: doc.name });
    button.addEventListener("click", () => choose(doc.name));
    const said = element("td", { className: `text ${doc.verdict.level}`, textContent: doc.verdict.told });
    const cells = [mean.received, mean.rejected, mean.failed].map((n) => element("td", { textContent: number(n) }));
    return element("tr", { className: doc.name === chosen ? "current" : "" }, element("th", { scope: "row" }, button), said, ...cells);
  }));
}

/** Shows what exists of an ingress. */
export function showPanels(doc, ingress) {
  showLoad(ingress.entity);
  showClasses(ingress.entity, doc.at);
  showShapes(ingress.entity);
  showFleet(doc.fleet);
  showCandidates(doc.shadow.filter((c) => c.ingress === ingress.entity.doc.name));
}
