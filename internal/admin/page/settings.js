// The dialog that changes one thing: what, to which number, for how long. It
// shows before and after, and then applies.

import { change, configuration, needsToken, read, tagOf, useToken } from "./api.js";
import { overrideWords } from "./changed.js";
import { decodeOverrides } from "./decode.js";
import { element } from "./format.js";

const INGRESS = [
  { path: ["mode"], label: "Mode", choices: ["enforce", "shadow", "off"] },
  { path: ["requests", "rate"], label: "Request rate, per second (0 = no bound)" },
  { path: ["requests", "burstSeconds"], label: "Burst, seconds of the rate" },
  { path: ["partitions", "total"], label: "In flight over all partitions, at most (0 = no bound)" },
  { path: ["connections", "maxOpen"], label: "Open connections, at most" },
  { path: ["connections", "rate"], label: "New connections, per second (0 = no bound)" },
];
const PARTITION = [
  { path: ["rate"], label: "Rate, requests per second (0 = no bound)" },
  { path: ["burstSeconds"], label: "Burst, seconds of the rate" },
  { path: ["limit", "limit"], label: "Limit, requests in flight" },
  { path: ["limit", "maxLimit"], label: "Highest limit, requests in flight" },
  { path: ["limit", "minLimit"], label: "Lowest limit, requests in flight" },
  { path: ["queue", "depth"], label: "Queue, requests that may wait" },
];
const KEY = [
  { path: ["rate"], label: "Rate, requests per second (0 = no bound)" },
  { path: ["limit"], label: "Limit, requests in flight" },
];

const get = (o, path) => path.reduce((v, key) => v?.[key], o);
/** An object with one value under a path; no name is taken for what objects inherit. */
const put = (path, value) => path.toReversed().reduce((inner, name) => Object.assign(Object.create(null), { [name]: inner }), value);
const byId = (id) => document.getElementById(id);

export class Settings {
  /** announce is told what happened; forecast says what would come with the gate off. */
  constructor(announce, forecast) {
    this.announce = announce;
    this.forecast = forecast;
    this.dialog = byId("dialog");
    byId("cancel").addEventListener("click", () => this.dialog.close());
    byId("back").addEventListener("click", () => this.#stage("edit"));
    byId("target").addEventListener("change", () => this.#target());
    byId("setting").addEventListener("change", () => this.#setting());
    byId("value").addEventListener("input", () => this.#consequence());
    byId("choice").addEventListener("input", () => this.#consequence());
    byId("form").addEventListener("submit", (e) => {
      e.preventDefault();
      this.#next();
    });
  }

  /** Opens the dialog for the ingress, or for the partition of an entity. */
  async open(ingress, entity) {
    await this.#open(ingress, entity, entity ? `Change ${entity.name}` : `Change ${ingress}`, false);
  }

  /** Opens it to let more of one key in. */
  raise(ingress, entity) { return this.#open(ingress, entity, `Raise ${entity.name}`, false); }

  /** Opens it to let nothing of one key in. */
  block(ingress, entity) { return this.#open(ingress, entity, `Block ${entity.name}`, true); }

  async #open(ingress, entity, title, blocks) {
    [this.ingress, this.entity, this.blocks] = [ingress, entity, blocks];
    byId("dialog-title").textContent = title;
    byId("dialog-error").textContent = "";
    try {
      this.tag = await tagOf(ingress);
      this.config = (await configuration()).ingresses.find((i) => i.name === ingress);
      if (!this.config) throw new Error("the ingress is gone");
      this.overrides = decodeOverrides(await read(`v1/ingresses/${encodeURIComponent(ingress)}/overrides`));
    } catch (err) {
      this.announce(`The settings cannot be read: ${err.message}`);
      return;
    }
    await this.#token();
    this.#targets();
    this.#stage("edit");
    if (!this.dialog.open) this.dialog.showModal();
    if (blocks) byId("next").focus();
    else (byId("choice").hidden ? byId("value") : byId("choice")).focus();
  }

  async #token() { byId("token-field").hidden = !await needsToken().catch(() => false); }

  /** What can be changed: the row first, when the dialog opened on one. */
  #targets() {
    const list = [];
    if (this.entity) list.push({ label: `${this.entity.name} alone`, settings: KEY, kind: "key" });
    if (!this.blocks) {
      list.push({ label: `the ingress ${this.ingress}`, settings: INGRESS, from: this.config, prefix: [] });
      for (const n of this.config.partitions.named ?? []) {
        list.push({ label: `partition ${n.name}`, settings: PARTITION, from: n, prefix: ["partitions", "named", n.name] });
      }
      list.push({ label: "every partition without a name", settings: PARTITION, from: this.config.partitions.default, prefix: ["partitions", "default"] });
    }
    this.targets = list;
    byId("target").replaceChildren(...list.map((t, i) => element("option", { value: String(i), textContent: t.label })));
    byId("target-field").hidden = list.length === 1;
    this.#target();
  }

  #target() {
    this.target = this.targets[Number(byId("target").value) || 0];
    const { settings, from, kind } = this.target;
    this.choices = kind === "key" ? settings : settings.filter((s) => get(from, s.path) !== undefined);
    byId("setting").replaceChildren(...this.choices.map((s, i) => element("option", { value: String(i), textContent: s.label })));
    if (kind === "key" && this.entity.reason === "concurrency_limit") byId("setting").value = "1"; // what refuses it
    byId("setting-field").hidden = this.blocks;
    byId("lasts-field").hidden = kind !== "key";
    byId("dialog-note").textContent = this.blocks ? "Nothing of it passes any more. Everybody else is left alone."
      : kind === "key" ? "Holds for this one key, over the configuration. A reload keeps it."
      : "Takes effect at once and lasts until the next reload or restart. Requests in flight are kept.";
    this.#setting();
  }

  #setting() {
    this.setting = this.choices[Number(byId("setting").value) || 0];
    this.before = this.#present();
    const { choices, label } = this.setting;
    byId("value-field").hidden = this.blocks || Boolean(choices);
    byId("choice-field").hidden = !choices;
    byId("choice").hidden = !choices;
    if (choices) byId("choice").replaceChildren(...choices.map((c) => element("option", { value: c, textContent: c })));
    (choices ? byId("choice") : byId("value")).value = String(this.before ?? "");
    byId("value-label").textContent = label;
    byId("value").select();
    this.#consequence();
  }

  /** The value in force. */
  #present() {
    if (this.target.kind !== "key") return get(this.target.from, this.setting.path);
    const { doc } = this.entity;
    return this.setting.path[0] === "limit" ? doc.limit : doc.requests?.rate ?? 0;
  }

  /** What switching the gate off would do, told before it is done. */
  #consequence() {
    const off = Boolean(this.setting.choices) && byId("choice").value !== "enforce" && this.before === "enforce";
    byId("consequence").textContent = off ? this.forecast(this.ingress) : "";
  }

  /** What is to be changed: a value and the patch for it. */
  #edit() {
    const key = this.target.kind === "key", { choices, label, path } = this.setting;
    const lasts = byId("lasts").value;
    if (this.blocks) return { after: "nothing passes", patch: { overrides: put([this.entity.name], this.#with({ rate: "none" }, lasts)) } };
    let after = byId("choice").value;
    if (!choices) {
      const typed = byId("value").value.trim();
      after = Number(typed);
      if (typed === "" || !Number.isFinite(after)) {
        byId("value").focus();
        throw new Error(`${label}: a number is needed`);
      }
    }
    if (after === this.before) throw new Error("Nothing was changed.");
    if (key) return { after, patch: { overrides: put([this.entity.name], this.#with({ [path[0]]: after }, lasts)) } };
    return { after, patch: put([...this.target.prefix, ...path], after) };
  }

  /** An override with what is overridden already, and its time. */
  #with(change, lasts) {
    const old = this.overrides.find((o) => o.key === this.entity.name);
    const kept = {};
    if (old && change.rate !== "none") for (const f of ["rate", "limit", "burstSeconds"]) if (old[f] !== null && old[f] !== "none") kept[f] = old[f];
    return { ...kept, ...change, ...(lasts ? { for: lasts } : {}) };
  }

  #stage(stage) {
    this.stage = stage;
    byId("edit").hidden = stage !== "edit";
    byId("review").hidden = stage === "edit";
    byId("back").hidden = stage !== "review";
    byId("next").textContent = { edit: this.blocks ? "Block" : "Review", review: "Apply", done: "Close" }[stage];
    byId("next").classList.toggle("danger", this.blocks && stage === "edit");
    byId("cancel").hidden = stage === "done";
    if (stage !== "done") byId("dialog-error").textContent = "";
    if (stage !== "edit") byId("next").focus();
  }

  #table(what, before, after) {
    byId("diff").tBodies[0].replaceChildren(element("tr", {}, element("th", { scope: "row", textContent: what }),
      element("td", { textContent: String(before ?? "–") }), element("td", { textContent: String(after ?? "–") })));
  }

  #what() { return this.target.kind === "key" ? `${this.entity.name}: ${this.blocks ? "requests" : this.setting.path[0]}` : [...this.target.prefix, ...this.setting.path].join("."); }

  async #next() {
    const error = byId("dialog-error");
    error.textContent = "";
    if (this.stage === "done") return this.dialog.close();
    try {
      const { after, patch } = this.#edit();
      if (this.stage === "edit" && !this.blocks) {
        this.#table(this.#what(), this.before, after);
        return this.#stage("review");
      }
      await this.#apply(after, patch);
    } catch (err) {
      error.textContent = err.message;
      this.announce(err.message);
      await this.#token();
      if (!byId("token-field").hidden && this.stage === "review") byId("back").focus();
    }
  }

  async #apply(after, patch) {
    useToken(byId("token").value.trim());
    byId("token").value = "";
    byId("next").disabled = true;
    try {
      const doc = await change("PATCH", `v1/ingresses/${encodeURIComponent(this.ingress)}`, patch, this.tag);
      const now = this.target.kind === "key" ? overrideWords(decodeOverrides({ overrides: [doc.after] })[0]) : get(this.#settingsOf(doc.after), this.setting.path) ?? after;
      this.#table(this.#what(), this.blocks ? "as configured" : this.before, now);
      this.#stage("done");
      byId("dialog-title").textContent = `Changed ${this.entity && this.target.kind === "key" ? this.entity.name : this.ingress}`;
      byId("dialog-note").textContent = "It is in force. “Changed at run time” on top of the page takes it back.";
      this.announce(`Changed: ${this.#what()} is now ${now}`);
    } finally {
      byId("next").disabled = false;
    }
  }

  /** The part of the answer that the target stands for. */
  #settingsOf(after) {
    const [, which, name] = this.target.prefix;
    if (which === "named") return Object.hasOwn(after.partitions?.named ?? {}, name) ? after.partitions.named[name] : undefined;
    return which === "default" ? after.partitions?.default : after;
  }
}
