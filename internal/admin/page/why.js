// Why a limit is what it is, in the gate's own sentences: of the partition that
// is chosen, or of the one that is refused most.

import { read } from "./api.js";
import { decodeExplanation } from "./decode.js";
import { element, setText } from "./format.js";

const EVERY = 5000; // milliseconds for which an explanation holds
const SHOWN = 8; // changes of the limit

const byId = (id) => document.getElementById(id);

export class Why {
  /** act is called with "raise" or "block" and the name of a partition. */
  constructor(act) {
    for (const does of ["raise", "block"]) byId(`why-${does}`).addEventListener("click", () => act(does, this.name));
  }

  /** Shows the explanation of a partition. The box stays when there is none (null), so that nothing below it jumps. */
  async show(ingress, name, chosen, known = true) {
    byId("why-acts").hidden = name === null;
    if (name === null) {
      this.#clear();
      this.key = null;
      setText(byId("why-title"), known ? "Nobody is refused" : "Who is refused");
      setText(byId("why-text"), "Choose a partition to see why its limit is what it is.");
      return;
    }
    const key = JSON.stringify([ingress, name]), now = performance.now();
    if (key === this.key && now - this.asked < EVERY) return;
    if (key !== this.key) this.#clear();
    [this.key, this.name, this.asked] = [key, name, now];
    setText(byId("why-title"), chosen ? `Why: ${name}` : `Refused most: ${name}`);
    const answer = await read(`v1/explain/${encodeURIComponent(ingress)}/${encodeURIComponent(name)}`);
    if (key !== this.key) return; // another one was chosen meanwhile
    if (answer === null) {
      setText(byId("why-text"), "The gate has no explanation for it yet.");
      return;
    }
    const e = decodeExplanation(answer);
    setText(byId("why-text"), e.text);
    byId("why-more").hidden = e.changes.length === 0;
    byId("why-changes").replaceChildren(...e.changes.slice(0, SHOWN).map((c) => element("li", {
      textContent: `${new Date(c.at).toLocaleTimeString("en-GB")}  ${c.from} → ${c.to}  ${c.meaning}`,
    })));
  }

  #clear() {
    setText(byId("why-text"), "…");
    byId("why-changes").replaceChildren();
    byId("why-more").hidden = true;
  }
}
