// The figures on top: those that answer the first questions, and a bucket or the
// connections only where they limit.

import { crowded } from "./charts.js";
import { element, millis, number, percent, reasons, setText } from "./format.js";

export class Tiles {
  constructor(root) {
    this.root = root;
    this.tiles = new Map();
  }

  /** Writes a tile; sub is a second line, kind a colour. Without a value there is none. */
  #tile(id, title, value, { sub = "", kind = "" } = {}) {
    let t = this.tiles.get(id);
    if (!t) {
      if (value === null) return;
      t = { name: element("dt"), value: element("dd"), sub: element("dd", { className: "sub" }) };
      t.root = element("div", { className: "tile", id: `tile-${id}` }, t.name, t.value, t.sub);
      this.root.append(t.root);
      this.tiles.set(id, t);
    }
    t.root.hidden = value === null;
    if (value === null) return;
    setText(t.name, title);
    setText(t.value, value);
    t.value.className = kind;
    setText(t.sub, sub || "\u00a0");
    t.sub.title = sub;
  }

  /** Answers of the backend since the reading before, by class; null when there were none. */
  #answers({ name, responses }) {
    if (this.before?.responses === responses) return this.shares; // it is drawn again
    const before = this.before?.name === name ? this.before.responses : null;
    this.before = { name, responses };
    this.shares = null;
    if (before === null) return null;
    const now = [...responses].map(([kind, n]) => [kind, Math.max(0, n - (before.get(kind) ?? 0))]).filter(([, n]) => n > 0);
    const all = now.reduce((sum, [, n]) => sum + n, 0);
    if (all > 0) this.shares = now.map(([kind, n]) => ({ kind, share: n / all }));
    return this.shares;
  }

  /** A picture of the answers: a bar whose parts are their classes. */
  #showAnswers(doc) {
    const parts = this.#answers(doc), failed = (p) => p.kind === "5xx" || p.kind === "error";
    const bad = (parts ?? []).filter(failed).reduce((sum, p) => sum + p.share, 0);
    this.#tile("answers", "Answers", parts === null ? (doc.responses.size > 0 ? "–" : null) : bad > 0 ? `${percent(bad)} errors` : "no errors", {
      sub: (parts ?? []).map((p) => `${p.kind} ${percent(p.share)}`).join(", "), kind: bad > 0.1 ? "bad" : bad > 0.01 ? "warn" : "",
    });
    const t = this.tiles.get("answers");
    if (!t) return;
    if (!t.bar) t.root.append(t.bar = element("div", { className: "answers", "aria-hidden": "true" }));
    t.bar.replaceChildren(...(parts ?? []).map((p) => {
      const part = element("span", { className: `answer-${p.kind}` });
      part.style.flexGrow = String(p.share);
      return part;
    }));
  }

  /** Shows an ingress, with the figures that the store has added up. */
  show({ entity, sums }) {
    if (!entity.rate.known) {
      for (const [id, title] of [["admitted", "Admitted"], ["rejected", "Refused"], ["failed", "Failed"]]) this.#tile(id, title, "–");
      return;
    }
    const { rate, doc } = entity, shadow = doc.mode === "shadow";
    const refused = shadow ? rate.would : rate.rejected, c = doc.connections, b = doc.requests;
    this.#tile("admitted", "Admitted", `${number(rate.admitted)}/s`, { sub: `of ${number(rate.received)}/s received` });
    this.#tile("rejected", shadow ? "Would be refused" : "Refused", `${number(refused)}/s`, {
      sub: refused > 0 ? `${percent(refused / Math.max(rate.received, refused))}${entity.reason ? `, ${reasons.words(entity.reason)}` : ""}` : "nobody", kind: refused > 0 ? "warn" : "",
    });
    this.#tile("failed", "Failed", `${number(rate.failed)}/s`, {
      sub: rate.failed > 0 ? `${percent(rate.failed / Math.max(rate.admitted, rate.failed))} of what was admitted` : "all were answered", kind: rate.failed > 0 ? "bad" : "",
    });
    this.#showAnswers(doc);
    this.#tile("p99", "Latency, p99", millis(doc.p99MS), { sub: `mean ${millis(rate.rtt)}, base ${millis(sums.base)}` });
    this.#tile("wait", "Wait in the gate", rate.wait > 0 ? millis(rate.wait) : "none", {
      sub: doc.queued ? `${number(doc.queued)} wait now` : "nobody waits", kind: rate.wait > sums.base ? "warn" : "",
    });
    this.#tile("inflight", "In flight", number(doc.inFlight), { sub: `limit ${number(sums.limit)}` });
    this.#tile("wasted", "Wasted work", Number.isNaN(rate.wasted) ? "–" : percent(rate.wasted), {
      sub: "its caller had gone", kind: rate.wasted > 0.05 ? "warn" : "",
    });
    this.#tile("tokens", "Bucket", b && b.tokens < b.burst / 4 ? number(b.tokens) : null, {
      sub: b ? `of ${number(b.burst)} tokens, ${number(b.rate)}/s` : "", kind: b && b.tokens < 1 ? "warn" : "",
    });
    this.#tile("open", "Connections", crowded(c) ? number(c.open) : null, {
      sub: c ? (c.refused ? `${number(c.refused)} turned away` : `of at most ${number(c.maxOpen)}`) : "", kind: c && c.open >= c.maxOpen ? "warn" : "",
    });
  }
}
