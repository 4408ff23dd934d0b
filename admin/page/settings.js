// The dialog that changes a rate, a limit or the mode: edit, review before and
// after, apply. The token stays in the input and goes nowhere else.

import { element } from "./format.js";

const INGRESS = [
  { path: ["mode"], label: "Mode", choices: ["enforce", "shadow", "off"] },
  { path: ["requests", "rate"], label: "Request rate, per second (0 = unlimited)" },
  { path: ["requests", "burstSeconds"], label: "Burst, seconds of the rate" },
  { path: ["connections", "rate"], label: "Connection rate, per second (0 = unlimited)" },
  { path: ["connections", "maxOpen"], label: "Connections open, at most" },
  { path: ["partitions", "total"], label: "In flight over all partitions, at most (0 = no bound)" },
];
const PARTITION = [
  { path: ["rate"], label: "Rate, per second (0 = unlimited)" },
  { path: ["burstSeconds"], label: "Burst, seconds of the rate" },
  { path: ["limit", "limit"], label: "Limit, in flight" },
  { path: ["limit", "minLimit"], label: "Lowest limit" },
  { path: ["limit", "maxLimit"], label: "Highest limit" },
  { path: ["queue", "depth"], label: "Queue depth" },
];

const get = (o, path) => path.reduce((v, key) => v?.[key], o);
const set = (o, path, value) => {
  const last = path.at(-1);
  path.slice(0, -1).reduce((v, key) => (v[key] ??= {}), o)[last] = value;
};
const byId = (id) => document.getElementById(id);

/** Lists what differs between two settings, as [path, before, after]. */
export function differences(before, after, path = "") {
  if (before !== null && after !== null && typeof before === "object" && typeof after === "object") {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((k) => {
      const name = Array.isArray(after) ? after[k]?.name ?? k : k;
      return differences(before[k] ?? null, after[k] ?? null, path ? `${path}.${name}` : name);
    });
  }
  return before === after ? [] : [[path, before, after]];
}

export class Settings {
  /** announce is told what happened, for those who cannot see it. */
  constructor(announce) {
    this.announce = announce;
    this.dialog = byId("dialog");
    byId("cancel").addEventListener("click", () => this.dialog.close());
    byId("back").addEventListener("click", () => this.#stage("edit"));
    byId("form").addEventListener("submit", (e) => {
      e.preventDefault();
      this.#next();
    });
  }

  /** Opens the dialog for an ingress, with a partition chosen or null. */
  async open(ingress, partition) {
    this.ingress = ingress;
    byId("dialog-title").textContent = `Change settings of ${ingress}`;
    byId("dialog-error").textContent = "";
    try {
      const answer = await fetch("v1/config");
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const config = await answer.json();
      this.config = config.ingresses.find((i) => i.name === ingress);
      if (!this.config) throw new Error("the ingress is gone");
    } catch (err) {
      this.announce(`The settings cannot be read: ${err.message}`);
      return;
    }
    this.values = new Map();
    this.#fields(byId("fields-ingress"), "Ingress", INGRESS, this.config, []);
    const named = this.config.partitions.named ?? [];
    this.partition = named.some((n) => n.name === partition) ? partition : "default";
    this.#partition();
    this.#stage("edit");
    if (!this.dialog.open) this.dialog.showModal();
  }

  /** Shows the fields of one partition, with a choice of which. */
  #partition() {
    const box = byId("fields-partition");
    const named = this.config.partitions.named ?? [];
    const of = (name) => (name === "default" ? this.config.partitions.default : named.find((n) => n.name === name));
    const select = element("select", { id: "which" },
      ...["default", ...named.map((n) => n.name)].map((n) => element("option", { value: n, textContent: n === "default" ? "default (and clients' keys)" : n })));
    select.value = this.partition;
    select.addEventListener("change", () => {
      this.partition = select.value;
      this.#partition();
      byId("which").focus();
    });
    for (const key of [...this.values.keys()]) if (key.startsWith("partitions.default.") || key.startsWith("partitions.named.")) this.values.delete(key);
    const prefix = this.partition === "default" ? ["partitions", "default"] : ["partitions", "named", this.partition];
    const settings = of(this.partition);
    this.#fields(box, "Partition", PARTITION.filter((f) => get(settings, f.path) !== undefined), settings, prefix);
    const algorithm = element("p", { className: "muted", textContent: `Algorithm ${settings.limit.algorithm}` });
    box.prepend(box.querySelector("legend"), element("label", { className: "field" }, element("span", { textContent: "Which" }), select), algorithm);
  }

  #fields(box, title, fields, settings, prefix) {
    box.replaceChildren(element("legend", { textContent: title }));
    for (const f of fields) {
      const before = get(settings, f.path);
      const path = [...prefix, ...f.path];
      let input;
      if (f.choices) {
        input = element("select", {}, ...f.choices.map((c) => element("option", { value: c, textContent: c })));
      } else {
        input = element("input", { type: "number", min: "0", step: "any", inputMode: "decimal" });
      }
      input.id = `set-${path.join("-")}`;
      input.value = String(before);
      this.values.set(path.join("."), { path, before, input, label: f.label });
      box.append(element("label", { className: "field" }, element("span", { textContent: f.label }), input));
    }
  }

  /** What was edited, as [{path, before, after, label}]. */
  #edits() {
    const edits = [];
    for (const { path, before, input, label } of this.values.values()) {
      if (input.tagName !== "SELECT" && (input.value.trim() === "" || !Number.isFinite(Number(input.value)))) {
        input.focus();
        throw new Error(`${label}: a number is needed`);
      }
      const after = input.tagName === "SELECT" ? input.value : Number(input.value);
      if (after !== before) edits.push({ path, before, after, label });
    }
    if (!edits.length) throw new Error("Nothing was changed.");
    return edits;
  }

  #stage(stage) {
    this.stage = stage;
    byId("edit").hidden = stage !== "edit";
    byId("review").hidden = stage === "edit";
    byId("back").hidden = stage !== "review";
    byId("next").textContent = { edit: "Review", review: "Apply", done: "Close" }[stage];
    byId("cancel").hidden = stage === "done";
    if (stage !== "done") byId("dialog-error").textContent = "";
    if (stage !== "edit") byId("next").focus();
  }

  #table(rows) {
    byId("diff").tBodies[0].replaceChildren(...rows.map(([what, before, after]) => element("tr", {},
      element("th", { scope: "row", textContent: what }),
      element("td", { textContent: before === null ? "–" : String(before) }),
      element("td", { textContent: after === null ? "–" : String(after) }))));
  }

  async #next() {
    const error = byId("dialog-error");
    error.textContent = "";
    if (this.stage === "done") return this.dialog.close();
    try {
      const edits = this.#edits();
      if (this.stage === "edit") {
        this.#table(edits.map((e) => [e.path.join("."), e.before, e.after]));
        return this.#stage("review");
      }
      await this.#apply(edits);
    } catch (err) {
      error.textContent = err.message;
      this.announce(err.message);
    }
  }

  async #apply(edits) {
    const patch = {};
    for (const e of edits) set(patch, e.path, e.after);
    const headers = { "Content-Type": "application/json" };
    const token = byId("token").value.trim();
    if (token) headers.Authorization = `Bearer ${token}`;
    byId("next").disabled = true;
    try {
      const answer = await fetch(`v1/ingresses/${encodeURIComponent(this.ingress)}`, { method: "PATCH", headers, body: JSON.stringify(patch) });
      const doc = await answer.json();
      if (answer.status === 401) throw new Error(token ? "Refused: the token is not the right one. Nothing was changed." : "Refused: a token is needed. Go back and enter it. Nothing was changed.");
      if (!answer.ok) throw new Error([doc.detail ?? `status ${answer.status}`, ...(doc.problems ?? [])].join("\n"));
      const rows = differences(doc.before, doc.after);
      this.#table(rows);
      this.#stage("done");
      byId("dialog-title").textContent = `Changed ${this.ingress}`;
      this.announce(`Changed: ${rows.map(([what, , after]) => `${what} is now ${after}`).join(", ")}`);
    } finally {
      byId("next").disabled = false;
    }
  }
}
