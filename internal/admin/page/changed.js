// What was changed at run time, beside what the file says, and the way back for
// each of it.

import { change, needsToken, read, useToken } from "./api.js";
import { decodeChanges, decodeOverrides } from "./decode.js";
import { element, number } from "./format.js";

const byId = (id) => document.getElementById(id);
const shown = (v) => (v === null ? "–" : typeof v === "object" ? JSON.stringify(v) : String(v));

/** A merge patch that sets one value. Names come from clients: none is taken for what objects inherit. */
function patchOf(path, value) {
  return path.toReversed().reduce((inner, name) => Object.assign(Object.create(null), { [name]: inner }), value);
}

/** What an override says, in words. */
export function overrideWords(o) {
  const words = [];
  if (o.rate === "none") words.push("nothing passes");
  else if (o.rate !== null) words.push(o.rate === 0 ? "no rate" : `${number(o.rate)}/s`);
  if (o.limit !== null) words.push(`limit ${number(o.limit)}`);
  if (o.burstSeconds !== null) words.push(`burst ${number(o.burstSeconds)} s`);
  if (o.until) words.push(`until ${new Date(o.until).toLocaleTimeString("en-GB")}`);
  return words.join(", ");
}

export class Changed {
  /** announce tells those who cannot see the page. */
  constructor(announce) {
    this.announce = announce;
    byId("changed-close").addEventListener("click", () => byId("changed").close());
    byId("changed-form").addEventListener("submit", (e) => e.preventDefault());
  }

  /** Opens the list for the ingresses of these names. */
  async open(ingresses) {
    this.ingresses = ingresses;
    byId("changed-error").textContent = "";
    byId("changed-token-field").hidden = !await needsToken().catch(() => false);
    await this.#fill();
    if (!byId("changed").open) byId("changed").showModal();
  }

  async #fill() {
    const rows = [];
    for (const c of decodeChanges(await read("v1/changes"))) {
      const undo = c.file === null ? null : () => change("PATCH", `v1/ingresses/${encodeURIComponent(c.ingress)}`, patchOf(c.path, c.file));
      rows.push(this.#row(c.ingress, c.path.join("."), shown(c.file), shown(c.now), undo));
    }
    for (const ingress of this.ingresses) {
      const at = `v1/ingresses/${encodeURIComponent(ingress)}/overrides`;
      for (const o of decodeOverrides(await read(at))) {
        rows.push(this.#row(ingress, o.key, "as configured", overrideWords(o), () => change("DELETE", `${at}/${encodeURIComponent(o.id)}`)));
      }
    }
    byId("changed-rows").replaceChildren(...rows);
    byId("changed-none").hidden = rows.length > 0;
  }

  #row(ingress, what, file, now, undo) {
    const button = element("button", { type: "button", className: "small", textContent: "Undo", disabled: undo === null, title: undo === null ? "The file does not set it: the next reload ends it." : "" });
    button.setAttribute("aria-label", `Undo ${what}`);
    button.addEventListener("click", () => this.#undo(button, what, undo));
    return element("tr", {},
      element("th", { scope: "row", textContent: what }, element("span", { className: "muted", textContent: ` ${ingress}` })),
      element("td", { textContent: file }), element("td", { textContent: now }), element("td", {}, button));
  }

  async #undo(button, what, undo) {
    const error = byId("changed-error");
    error.textContent = "";
    button.disabled = true;
    try {
      useToken(byId("changed-token").value.trim());
      await undo();
      this.announce(`Undone: ${what}`);
      await this.#fill();
    } catch (err) {
      error.textContent = err.message;
      button.disabled = false;
      byId("changed-token-field").hidden = !await needsToken().catch(() => false);
    }
  }
}
