// The table of partitions. Only the rows in view exist, so that a thousand
// partitions cost as much as thirty.

import { element, millis, number, percent, reasons, setText } from "./format.js";

const ROW = 36; // height of a row in pixels, as in the style sheet
const SPARE = 6; // rows kept beyond each edge

const share = (e) => (e.mean.received > 0 ? e.mean.rejected / e.mean.received : 0);
const use = (e) => (e.doc.limit > 0 ? e.doc.inFlight / e.doc.limit : 0);

/** by is what a column is sorted by, and shows: rates are means of the last seconds; words sort upwards first, numbers downwards. */
const COLUMNS = [
  { id: "name", title: "partition", by: (e) => e.name, text: true },
  { id: "rejected", title: "refused/s", by: (e) => e.mean.rejected, show: (e) => number(e.mean.rejected), hot: (e) => e.mean.rejected > 0 },
  { id: "share", title: "share", by: share, show: (e) => (e.mean.received > 0 ? percent(share(e)) : "–"), wide: true },
  { id: "reason", title: "mostly for", by: (e) => e.reason, show: (e) => (e.reason ? reasons.words(e.reason) : "–"), text: true, wide: true, mark: true },
  { id: "failed", title: "failed/s", by: (e) => e.mean.failed, show: (e) => number(e.mean.failed), bad: (e) => e.mean.failed > 0 },
  { id: "admitted", title: "admitted/s", by: (e) => e.mean.admitted, show: (e) => number(e.mean.admitted) },
  { id: "inflight", title: "in flight / limit", by: use, bar: true },
  { id: "queued", title: "queued", by: (e) => e.doc.queued, show: (e) => number(e.doc.queued), wide: true },
  { id: "rtt", title: "latency", by: (e) => e.rate.rtt || 0, show: (e) => millis(e.rate.rtt), wide: true },
  { id: "base", title: "without load", by: (e) => e.doc.baseRTTMS, show: (e) => millis(e.doc.baseRTTMS), wide: true },
  { id: "algorithm", title: "algorithm", by: (e) => e.doc.algorithm, show: (e) => e.doc.algorithm + (e.doc.fallback ? " (fallback)" : ""), text: true, wide: true },
  { id: "acts", title: "change", acts: true, text: true, wide: true },
];

export class Table {
  /**
   * choose is called with the name of a partition, or null for none; act with
   * "raise" or "block" and a name; look with what is searched.
   */
  constructor(choose, act, look) {
    this.choose = choose;
    this.act = act;
    this.held = false; // rows keep their places while somebody points at them
    this.sort = COLUMNS[1];
    this.up = false;
    this.query = "";
    this.list = []; // entities in order
    this.all = [];
    this.pool = [];
    this.scroller = document.getElementById("scroller");
    this.body = document.getElementById("rows");
    this.count = document.getElementById("count");
    this.empty = document.getElementById("empty");
    this.above = element("tr", { className: "space", "aria-hidden": "true" }, element("td", { colSpan: COLUMNS.length }));
    this.below = this.above.cloneNode(true);
    this.body.append(this.above, this.below);
    this.#head();
    this.scroller.addEventListener("scroll", () => this.#render(), { passive: true });
    new ResizeObserver(() => this.#render()).observe(this.scroller);
    this.body.addEventListener("click", (e) => this.#click(e));
    this.body.addEventListener("pointerenter", (e) => this.#hold(e.pointerType === "mouse"));
    this.body.addEventListener("pointerleave", () => this.#hold(false));
    this.scroller.addEventListener("keydown", (e) => this.#key(e));
    document.getElementById("search").addEventListener("input", (e) => {
      this.query = e.target.value.trim().toLowerCase();
      this.scroller.scrollTop = 0;
      this.show(this.all, this.chosen);
      look(e.target.value.trim());
    });
  }

  #head() {
    const row = document.getElementById("head");
    for (const c of COLUMNS) {
      if (c.acts) {
        c.th = element("th", { scope: "col", className: classes(c) + " plain", textContent: c.title });
        row.append(c.th);
        continue;
      }
      const button = element("button", { type: "button", textContent: c.title });
      c.th = element("th", { scope: "col", className: classes(c) }, button);
      button.addEventListener("click", () => {
        this.up = this.sort === c ? !this.up : Boolean(c.text);
        this.sort = c;
        this.order = null;
        this.scroller.scrollTop = 0;
        this.show(this.all, this.chosen);
      });
      row.append(c.th);
    }
  }

  /** Keeps the rows where they are, or lets them be sorted again. */
  #hold(held) {
    this.held = held;
    setText(document.getElementById("held"), held ? "order held while you point at it" : "");
    if (!held) this.show(this.all, this.chosen);
  }

  /**
   * Shows partitions; chosen is the name of the one whose charts are shown, or
   * null, count how many there are, listed or not.
   */
  show(all, chosen, count = this.total) {
    this.all = all;
    this.chosen = chosen;
    this.total = Math.max(count ?? 0, all.length);
    const q = this.query;
    const { by } = this.sort, sign = this.up ? 1 : -1;
    const keys = new Map();
    this.list = [];
    for (const e of all) {
      if (q && !e.name.toLowerCase().includes(q) && !e.doc.label.toLowerCase().includes(q) && !e.doc.algorithm.includes(q)) continue;
      keys.set(e, by(e));
      this.list.push(e);
    }
    const before = this.held && this.order ? this.order : null;
    this.list.sort((a, b) => {
      const i = before?.get(a.name) ?? Infinity, j = before?.get(b.name) ?? Infinity;
      if (i !== j) return i - j;
      const x = keys.get(a), y = keys.get(b);
      if (x !== y && !(Math.abs(x - y) < 0.05)) return x < y ? -sign : sign;
      return b.doc.counts.received - a.doc.counts.received || (a.name < b.name ? -1 : 1);
    });
    if (!before) this.order = new Map(this.list.map((e, i) => [e.name, i]));
    for (const c of COLUMNS) {
      if (c === this.sort) c.th.setAttribute("aria-sort", this.up ? "ascending" : "descending");
      else c.th.removeAttribute("aria-sort");
    }
    const table = document.getElementById("table");
    table.setAttribute("aria-rowcount", String(this.list.length + 1));
    setText(this.count, this.list.length === this.total ? String(this.total) : `${this.list.length} of ${this.total}`);
    this.empty.hidden = this.list.length > 0 || all.length === 0;
    this.#render();
  }

  /** Fills the rows in view. */
  #render() {
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - SPARE);
    const fits = Math.ceil((this.scroller.clientHeight || 400) / ROW) + 2 * SPARE;
    const last = Math.min(this.list.length, first + fits);
    const focused = this.pool.find((r) => r.button === document.activeElement)?.entity?.name;
    while (this.pool.length < last - first) this.#grow();
    while (this.pool.length > last - first) this.pool.pop().tr.remove();
    this.above.firstChild.style.height = `${first * ROW}px`;
    this.below.firstChild.style.height = `${(this.list.length - last) * ROW}px`;
    this.above.hidden = first === 0;
    this.below.hidden = last === this.list.length;
    this.pool.forEach((row, i) => fill(row, this.list[first + i], first + i, this.chosen));
    if (focused !== undefined) this.pool.find((r) => r.entity.name === focused)?.button.focus({ preventScroll: true });
  }

  #grow() {
    const button = element("button", { type: "button", tabIndex: -1 });
    const row = { button, cells: [], tr: element("tr") };
    for (const c of COLUMNS) {
      if (c.id === "name") {
        row.tr.append(element("th", { scope: "row", className: classes(c) }, button));
        continue;
      }
      const cell = element("td", { className: classes(c) });
      if (c.acts) {
        for (const [does, what] of [["raise", "Raise…"], ["block", "Block…"]]) {
          const act = element("button", { type: "button", className: "small", tabIndex: -1, textContent: what });
          act.dataset.does = does;
          cell.append(act);
        }
        row.acts = cell;
        row.tr.append(cell);
        continue;
      }
      const text = document.createTextNode("");
      const mark = c.mark ? element("i", { className: "glyph", "aria-hidden": "true" }) : null;
      if (mark) cell.append(mark);
      cell.append(text);
      let bar = null;
      if (c.bar) cell.append(bar = element("span", { className: "use", "aria-hidden": "true" }, element("span")));
      row.cells.push({ c, cell, text, bar, mark });
      row.tr.append(cell);
    }
    this.body.insertBefore(row.tr, this.below);
    this.pool.push(row);
  }

  #click(e) {
    const row = this.pool.find((r) => r.tr.contains(e.target));
    if (!row) return;
    const does = e.target.closest("button")?.dataset.does;
    if (does) return this.act(does, row.entity.name);
    this.choose(row.entity.name === this.chosen ? null : row.entity.name);
    this.pool.find((r) => r.entity.name === row.entity.name)?.button.focus({ preventScroll: true });
  }

  /** Arrow keys, Page and Home and End move through all rows, in view or not. */
  #key(e) {
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 2);
    const row = this.pool.find((r) => r.button === document.activeElement);
    const at = row ? this.list.indexOf(row.entity) : -1;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.list.length - 1 }[e.key];
    if (to === undefined || !this.list.length || e.target.closest("thead")) return;
    e.preventDefault();
    this.focus(Math.min(Math.max(to, 0), this.list.length - 1));
  }

  /** Focuses the row of an index and brings it into view. */
  focus(index) {
    const top = index * ROW, view = this.scroller.clientHeight - 2 * ROW;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + view) this.scroller.scrollTop = top - view;
    this.#render();
    const { name } = this.list[index];
    this.pool.find((r) => r.entity.name === name)?.button.focus({ preventScroll: true });
  }
}

const classes = (c) => [c.id === "name" ? "name" : "", c.text ? "text" : "", c.wide ? "wide-only" : "", c.acts ? "acts" : ""].filter(Boolean).join(" ");

function fill(row, entity, index, chosen) {
  row.entity = entity;
  row.tr.setAttribute("aria-rowindex", String(index + 2));
  row.tr.className = entity.name === chosen ? "chosen" : "";
  row.button.setAttribute("aria-pressed", String(entity.name === chosen));
  setText(row.button, entity.name);
  row.button.title = entity.doc.explain ? `${entity.name}: ${entity.doc.explain}` : entity.name;
  for (const act of row.acts.children) act.setAttribute("aria-label", `${act.textContent} ${entity.name}`);
  for (const { c, cell, text, bar, mark } of row.cells) {
    const value = c.bar ? `${number(entity.doc.inFlight)} / ${number(entity.doc.limit)}` : c.show(entity);
    if (text.data !== value) text.data = value;
    if (c.hot) cell.classList.toggle("hot", c.hot(entity));
    if (c.bad) cell.classList.toggle("failing", c.bad(entity));
    if (mark) {
      setText(mark, entity.reason ? reasons.glyph(entity.reason) : "");
      mark.style.color = entity.reason ? `var(${reasons.colour(entity.reason)})` : "";
    }
    if (bar) {
      bar.firstChild.style.width = `${Math.min(100, 100 * use(entity))}%`;
      bar.classList.toggle("full", use(entity) >= 1);
    }
  }
}
