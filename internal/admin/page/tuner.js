// What the tuner moves and why, and the button that stops it. Hidden where no
// tuner is configured. The token stays in its input and goes nowhere else.

import { change, configuration, needsToken, read, useToken } from "./api.js";
import { element, number, setText } from "./format.js";

const EVERY = 3000; // milliseconds between two looks
const RARELY = 60000; // the same while there is no tuner: a reload may bring one
const SHOWN = 6; // decisions listed

const byId = (id) => document.getElementById(id);
const amount = (v) => (v === null || v === undefined ? "no bound" : number(v));

/** One row of a table, cells as text. */
function row(cells) { return element("tr", {}, ...cells.map((textContent) => element("td", { textContent }))); }

export class Tuner {
  constructor(announce) {
    this.announce = announce;
    this.frozen = false;
    byId("tuner-freeze").addEventListener("click", () => this.toggle());
    byId("tuner-form").addEventListener("submit", (e) => e.preventDefault());
    this.look();
  }

  /** Asks, shows, and asks again later. */
  async look() {
    let wait = EVERY;
    try {
      const configured = ((await configuration()).tuner?.policies ?? []).length > 0; // to ask in vain would be an error in the console
      const doc = configured ? await read(`v1/tuner?records=${SHOWN}`) : null;
      byId("tuner").hidden = doc === null; // there is none, or reading needs a token
      if (doc) this.show(doc);
      else wait = RARELY;
      byId("tuner-token").hidden = !await needsToken();
    } catch { /* the daemon is away; the page says so elsewhere */ }
    setTimeout(() => this.look(), wait);
  }

  show(doc) {
    this.frozen = Boolean(doc.frozen);
    setText(byId("tuner-freeze"), this.frozen ? "Unfreeze" : "Freeze");
    const blind = doc.signals.filter((s) => !s.trusted).map((s) => `${s.name} (${s.distrust})`);
    setText(byId("tuner-state"), `mode ${doc.mode}${doc.hold ? `, holds still: ${doc.hold}` : ""}`
      + (blind.length > 0 ? `, not trusted: ${blind.join(", ")}` : ""));
    byId("tuner-settings").replaceChildren(...doc.settings.map((s) => row(
      [s.setting, amount(s.value), amount(s.base), s.byHand ? "by hand" : s.policy ?? "", s.why ?? ""])));
    byId("tuner-records").replaceChildren(...doc.records.map((r) => element("li", {
      textContent: `${new Date(r.at).toLocaleTimeString()} ${r.kind} ${r.policy ?? ""} ${r.setting ?? ""}`
        + `${r.setting ? ` ${amount(r.old)} → ${amount(r.new)}` : ""}: ${r.why}`,
    })));
  }

  /** Stops the tuner, or lets it go on. */
  async toggle() {
    const verb = this.frozen ? "unfreeze" : "freeze";
    let told = `Tuner: ${verb} done`;
    try {
      useToken(byId("tuner-token").value.trim());
      byId("tuner-token").value = "";
      await change("POST", `v1/tuner/${verb}`);
      this.frozen = verb === "freeze";
    } catch (err) { told = err.message; }
    setText(byId("tuner-freeze"), this.frozen ? "Unfreeze" : "Freeze");
    setText(byId("tuner-told"), told);
    this.announce(told);
  }
}
