// The charts: uPlot with colours from the style sheet, so that one chart serves
// light and dark.

import { REASONS, clock, element, millis, number, setText } from "./format.js";

const HEIGHT = 145;
const SHORTEST = 60; // seconds; a window grows with the history from here to its length
const SYNC = "admitd"; // cursors move together

const reasonSeries = Object.entries(REASONS).map(([field, label]) => ({ field, label, optional: true }));

/** What is drawn. An optional series shows in the legend once it is not zero. */
const CHARTS = [
  {
    id: "requests", title: "Requests", unit: "per second", wide: true, format: number,
    series: [
      { field: "admitted", label: "admitted", fill: true }, { field: "failed", label: "failed at the backend", optional: true }, ...reasonSeries,
      { field: "would", label: "would be rejected", dashed: true, optional: true },
    ],
  },
  {
    id: "concurrency", title: "Concurrency", unit: "requests", format: number,
    series: [
      { field: "inFlight", label: "in flight", fill: true }, { field: "limit", label: "limit", dashed: true, stepped: true },
      { field: "queued", label: "queued", optional: true },
    ],
  },
  {
    id: "latency", title: "Latency", unit: "of what was admitted", format: millis, axis: (v) => `${+v.toPrecision(3)} ms`, none: "no latency measured in this window",
    series: [{ field: "rtt", label: "RTT", fill: true }, { field: "base", label: "base RTT", dashed: true }, { field: "wait", label: "wait in the gate", optional: true }],
  },
  {
    id: "bucket", title: "Request bucket", unit: "tokens", format: number, none: "no request rate is set",
    series: [{ field: "tokens", label: "tokens", fill: true }, { field: "burst", label: "burst", dashed: true }],
  },
  {
    id: "connections", title: "Connections", unit: "open, all partitions", format: number, ingress: true, none: "no connections are counted",
    series: [{ field: "open", label: "open", fill: true, stepped: true }],
  },
];

class Chart {
  constructor(root, spec) {
    this.spec = spec;
    this.items = spec.series.map((s) => {
      const value = element("b");
      const swatch = element("i", { className: s.dashed ? "dashed" : "" });
      swatch.style.color = `var(--c-${s.field})`;
      return { ...s, swatch, value, entry: element("li", {}, swatch, s.label + " ", value) };
    });
    this.plot = element("div", { className: "plot", id: `plot-${spec.id}` });
    this.none = element("p", { className: "none", hidden: true, textContent: spec.none ?? "" });
    this.figure = element("div", { className: spec.wide ? "chart wide" : "chart", role: "figure", id: `chart-${spec.id}` },
      element("h3", {}, spec.title + " ", element("span", { textContent: spec.unit })),
      element("ul", { className: "legend" }, ...this.items.map((i) => i.entry)), this.plot, this.none);
    root.append(this.figure);
    this.range = [0, 1];
    this.colours();
    this.u = new uPlot(this.#options(), [[], ...spec.series.map(() => [])], this.plot);
    this.plot.querySelector("canvas").id = `canvas-${spec.id}`;
    new ResizeObserver(() => this.u.setSize(this.#size())).observe(this.plot);
  }

  #size() { return { width: Math.max(this.plot.clientWidth, 120), height: HEIGHT }; }

  /** Reads the colours anew. */
  colours() {
    const colour = (name) => {
      const probe = element("i", { hidden: true });
      probe.style.color = `var(${name})`;
      this.figure.append(probe);
      const c = getComputedStyle(probe).color;
      probe.remove();
      return c;
    };
    this.text = colour("--muted");
    this.grid = colour("--grid");
    for (const i of this.items) {
      i.stroke = colour(`--c-${i.field}`);
      i.wash = i.stroke.replace(/^rgb\((.*)\)$/, "rgba($1, 0.16)");
    }
  }

  #options() {
    const axis = {
      stroke: () => this.text, font: "11px system-ui, sans-serif", ticks: { show: false },
      grid: { stroke: () => this.grid, width: 1 },
    };
    return {
      ...this.#size(), legend: { show: false }, padding: [8, 34, 0, 0],
      cursor: { sync: { key: SYNC }, points: { size: 6 }, y: false, drag: { x: false, y: false } },
      hooks: { setCursor: [() => this.#legend()], draw: [(u) => this.#marks(u)] },
      scales: { x: { time: true, range: () => this.range }, y: { range: (_, min, max) => [Math.min(min, 0), Math.max(max * 1.1, 1)] } },
      axes: [
        { ...axis, space: 62, size: 24, values: (_, ticks, __, ___, step) => ticks.map((v) => clock(v, step < 60)) },
        { ...axis, size: 48, space: 32, values: (_, ticks) => ticks.map((v) => (v === 0 ? "0" : (this.spec.axis ?? this.spec.format)(v))) },
      ],
      series: [{}, ...this.items.map((i) => ({
        stroke: () => i.stroke, fill: i.fill ? () => i.wash : undefined, width: i.dashed ? 1.5 : 2,
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
      if (this.spec.wide) ctx.fillText(m.text, x + 4, bbox.top + 10);
    }
    ctx.restore();
  }

  /** Shows the last seconds of an entity. */
  show(store, ingress, entity, seconds) {
    const { first, now, columns } = store.history(entity, this.items.map((i) => i.field), seconds);
    this.range = [Math.max(now - seconds, Math.min(first, now - SHORTEST)), now];
    this.columns = columns;
    this.done = (store.doc.marks ?? []).filter((m) => !m.ingress || m.ingress === ingress);
    this.u.setData(columns, true);
    let any = false;
    this.items.forEach((item, i) => {
      const seen = columns[i + 1].some((v) => v !== null);
      any ||= seen;
      item.entry.hidden = item.optional && !columns[i + 1].some((v) => v > 0);
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
}

/** All charts of the page. */
export class Charts {
  constructor(root) { this.charts = CHARTS.map((spec) => new Chart(root, spec)); }

  /** Shows a partition, or the ingress where partition is null. */
  show(store, ingress, partition, seconds) {
    for (const c of this.charts) c.show(store, ingress.doc.name, c.spec.ingress ? ingress : partition ?? ingress, seconds);
  }

  redraw() { for (const c of this.charts) c.redraw(); }
}
