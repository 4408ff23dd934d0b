// The charts: uPlot with colours from the style sheet, so that one chart serves
// light and dark.

import { Stack } from "./stack.js";
import { clock, element, millis, number, reasons, setText } from "./format.js";

const HEIGHT = 150;
const SHORTEST = 60; // seconds; a window grows with the history from here to its length
const SYNC = "admitd"; // cursors move together

/** What is drawn. An optional series shows in the legend once it is not zero. */
const charts = () => [
  {
    id: "requests", title: "Requests", unit: "per second, stacked", format: number, stack: true,
    series: [
      { field: "offered", label: "received", sum: true, fields: ["admitted", "rejected"] },
      { field: "admitted", label: "admitted", less: "failed" },
      { field: "failed", label: "failed at the backend", glyph: "✖", optional: true },
      ...reasons.list.map((r) => ({ field: r.name, label: `refused: ${r.words}`, colour: reasons.colour(r.name), glyph: reasons.glyph(r.name), optional: true })),
      { field: "other", label: "refused, reason not kept", optional: true },
      { field: "would", label: "would be refused", dashed: true, beside: true, optional: true },
    ],
  },
  {
    id: "concurrency", title: "In flight", unit: "requests", format: number,
    series: [
      { field: "inFlight", label: "in flight", fill: true }, { field: "limit", label: "limit", dashed: true, stepped: true },
      { field: "queued", label: "queued", optional: true },
    ],
  },
  {
    id: "latency", title: "Latency", unit: "of what was admitted", format: millis, axis: (v) => (v < 1000 ? `${+v.toPrecision(3)} ms` : `${+(v / 1000).toPrecision(3)} s`), none: "no latency measured in this window",
    series: [
      { field: "p99", label: "p99", optional: true }, { field: "rtt", label: "mean", fill: true }, { field: "base", label: "without load", dashed: true },
      { field: "wait", label: "wait in the gate", optional: true },
    ],
  },
  {
    id: "bucket", title: "Request bucket", unit: "tokens", format: number, when: (c) => c[1].some((v, i) => v !== null && v < c[2][i] / 4),
    series: [{ field: "tokens", label: "tokens", fill: true }, { field: "burst", label: "burst", dashed: true }],
  },
  {
    id: "connections", title: "Connections", unit: "open, all partitions", format: number, ingress: true,
    when: (_, ingress) => crowded(ingress.doc.connections),
    series: [{ field: "open", label: "open", fill: true, stepped: true }],
  },
];

/** Whether the bound on connections limits, or soon will. */
export const crowded = (c) => Boolean(c) && (c.refused > 0 || c.open > c.maxOpen / 2);

class Chart {
  constructor(root, spec) {
    this.spec = spec;
    this.items = spec.series.map((s) => {
      const value = element("b");
      const swatch = element("i", { className: s.glyph ? "glyph" : s.dashed ? "dashed" : "", textContent: s.glyph ?? "" });
      const colour = s.colour ?? `--c-${s.field}`;
      swatch.style.color = `var(${colour})`;
      return { ...s, colour, swatch, value, entry: element("li", {}, swatch, s.label + " ", value) };
    });
    this.stack = spec.stack ? new Stack(this.items) : null;
    this.plot = element("div", { className: "plot", id: `plot-${spec.id}` });
    this.none = element("p", { className: "none", hidden: true, textContent: spec.none ?? "" });
    this.figure = element("div", { className: "chart", role: "figure", id: `chart-${spec.id}` },
      element("h3", {}, spec.title + " ", element("span", { textContent: spec.unit })),
      element("ul", { className: "legend" }, ...this.items.map((i) => i.entry)), this.plot, this.none);
    root.append(this.figure);
    this.range = [0, 1];
    this.colours();
    this.u = new uPlot(this.#options(), [[], ...spec.series.map(() => [])], this.plot);
    this.plot.querySelector("canvas").id = `canvas-${spec.id}`;
    this.watch = new ResizeObserver(() => this.u.setSize(this.#size()));
    this.watch.observe(this.plot);
  }

  #size() { return { width: Math.max(this.plot.clientWidth, 120), height: HEIGHT }; }

  /** Reads the colours anew. */
  colours() {
    const colour = (value) => {
      const probe = element("i", { hidden: true });
      probe.style.color = value;
      this.figure.append(probe);
      const c = getComputedStyle(probe).color;
      probe.remove();
      return c;
    };
    this.text = colour("var(--muted)");
    this.grid = colour("var(--grid)");
    for (const i of this.items) {
      i.stroke = colour(`var(${i.colour})`);
      i.wash = this.stack ? colour(`color-mix(in srgb, var(${i.colour}) ${i.glyph ? 38 : 20}%, var(--card))`) : i.stroke.replace(/^rgb\((.*)\)$/, "rgba($1, 0.16)");
    }
  }

  /** The items in the order in which they are drawn: of a stack the top first, since each covers those above it. */
  #drawn() { return this.stack ? this.stack.order : this.items; }

  #options() {
    const axis = {
      stroke: () => this.text, font: "11px system-ui, sans-serif", ticks: { show: false },
      grid: { stroke: () => this.grid, width: 1 },
    };
    return {
      ...this.#size(), legend: { show: false }, padding: [8, 34, 0, 0],
      cursor: { sync: { key: SYNC }, points: { show: !this.stack, size: 6 }, y: false, drag: { x: false, y: false } },
      hooks: { setCursor: [() => this.#legend()], draw: [(u) => this.#marks(u), (u) => this.stack?.glyphs(u)] },
      scales: { x: { time: true, range: () => this.range }, y: { range: (_, min, max) => [Math.min(min, 0), Math.max(max * 1.1, 1)] } },
      axes: [
        { ...axis, space: 62, size: 24, values: (_, ticks, __, ___, step) => ticks.map((v) => clock(v, step < 60)) },
        { ...axis, size: 48, space: 32, values: (_, ticks) => ticks.map((v) => (v === 0 ? "0" : (this.spec.axis ?? this.spec.format)(v))) },
      ],
      series: [{}, ...this.#drawn().map((i) => ({
        stroke: () => i.stroke, fill: i.fill || this.stack?.fills(i) ? () => i.wash : undefined, width: i.dashed ? 1.5 : this.stack ? 1.5 : 2,
        dash: i.dashed ? [5, 4] : undefined, points: { show: false }, spanGaps: false,
        paths: i.stepped ? uPlot.paths.stepped({ align: -1 }) : undefined,
      }))],
    };
  }

  /** Draws a line where somebody changed something. */
  #marks(u) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = this.text;
    ctx.setLineDash([2, 3]);
    for (const m of this.done ?? []) {
      const at = Date.parse(m.at) / 1000;
      if (at < this.range[0] || at > this.range[1]) continue;
      const x = Math.round(u.valToPos(at, "x", true));
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (this.stack) ctx.fillText(m.text, x + 4, bbox.top + 10);
    }
    ctx.restore();
  }

  /** Shows the last seconds of an entity. */
  show(store, ingress, entity, seconds) {
    const fields = [...new Set(this.items.flatMap((i) => i.fields ?? (i.field === "other" ? [] : [i.field])))];
    const { first, now, columns } = store.history(entity, fields, seconds);
    this.range = [Math.max(now - seconds, Math.min(first, now - SHORTEST)), now];
    const raw = this.stack ? this.stack.raw(columns, fields) : columns;
    this.columns = raw;
    this.done = store.doc.marks.filter((m) => !m.ingress || m.ingress === ingress.doc.name);
    this.figure.hidden = this.spec.when !== undefined && !this.spec.when(columns, ingress);
    this.u.setData(this.stack ? this.stack.piled(raw) : columns, true);
    let any = false;
    this.items.forEach((item, i) => {
      any ||= raw[i + 1].some((v) => v !== null);
      item.entry.hidden = item.optional && !raw[i + 1].some((v) => v > 0);
    });
    this.none.hidden = any || !this.spec.none;
    this.#legend();
  }

  /** Writes the values under the cursor into the legend, or the newest. */
  #legend() {
    if (!this.columns) return;
    const index = this.u?.cursor.idx ?? this.columns[0].length - 1;
    const words = [];
    this.items.forEach((item, i) => {
      const value = this.spec.format(this.columns[i + 1][index] ?? NaN);
      setText(item.value, value);
      if (!item.entry.hidden) words.push(`${item.label} ${value}`);
    });
    this.figure.setAttribute("aria-label", `${this.spec.title}, ${this.spec.unit}: ${words.join(", ")}`);
  }

  redraw() {
    this.colours();
    this.u.redraw(false);
  }

  destroy() {
    this.watch.disconnect();
    this.u.destroy();
  }
}

/** All charts of the page. */
export class Charts {
  constructor(root) {
    this.root = root;
    this.charts = [];
  }

  /** Draws them anew for the reasons that the gate lists now. */
  build() {
    for (const c of this.charts) c.destroy();
    this.root.replaceChildren();
    this.charts = charts().map((spec) => new Chart(this.root, spec));
  }

  /** Shows a partition, or the ingress where partition is null. */
  show(store, ingress, partition, seconds) {
    for (const c of this.charts) c.show(store, ingress, c.spec.ingress ? ingress : partition ?? ingress, seconds);
  }

  redraw() { for (const c of this.charts) c.redraw(); }
}
