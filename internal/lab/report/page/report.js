"use strict";
const report = JSON.parse(document.getElementById("data").textContent);
const app = document.getElementById("app");
const palette = ["#8c959f", "#57606a", "#0969da", "#cf222e", "#1a7f37", "#bf8700", "#8250df", "#d4518c", "#0a8a8a", "#a04000", "#556b2f", "#333399"];
const colours = {};
for (const s of report.scenarios) for (const v of s.variants) for (const r of v.rows)
  if (!(r.contender in colours)) colours[r.contender] = palette[Object.keys(colours).length % palette.length];
const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink");
const rule = getComputedStyle(document.documentElement).getPropertyValue("--line");

function el(name, text, parent, cls) {
  const e = document.createElement(name);
  if (text !== undefined && text !== null) e.textContent = text;
  if (cls) e.className = cls;
  (parent || app).appendChild(e);
  return e;
}
function axis(extra) { return Object.assign({ stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule } }, extra); }
function plot(parent, title, opts, data) {
  const box = el("div", null, parent, "plot");
  return new uPlot(Object.assign({ title, width: 540, height: 280, legend: { live: true } }, opts), data, box);
}
function table(parent, head, lines, marks) {
  const t = el("table", null, el("div", null, parent, "scroll"));
  const tr = el("tr", null, el("thead", null, t));
  head.forEach((h) => el("th", h, tr));
  const body = el("tbody", null, t);
  lines.forEach((line, i) => {
    const row = el("tr", null, body);
    line.forEach((c, j) => el("td", c, row, marks ? marks(i, j) : ""));
  });
}

// Verdicts.
el("h2", "Criteria");
table(app, ["scenario", "criterion", "by", "kept", "kept by", "because"],
  report.verdicts.map((v) => [v.scenario + ", " + v.variant, v.criterion, v.by.join(", "), v.state, (v.passing || []).join(", ") || "nobody", v.why]),
  (i, j) => j === 3 ? (report.verdicts[i].judged && !report.verdicts[i].pass ? "no l" : "yes l") : "l");

// Goodput and p99 against offered load.
function overLoad(s) {
  const variants = s.variants.slice().sort((a, b) => a.load - b.load);
  const names = [...new Set(variants.flatMap((v) => v.rows.map((r) => r.contender)))];
  const x = variants.map((v) => v.load);
  const data = (m, scale) => [x, ...names.map((n) => variants.map((v) => {
    const r = v.rows.find((r) => r.contender === n);
    return r ? r.windows[0][m].mean * scale : null;
  }))];
  const opts = (label) => ({
    scales: { x: { time: false, distr: 3 } },
    axes: [axis({ label: "offered load / capacity", values: (u, vs) => vs.map((v) => v === null ? "" : String(v)) }), axis({ label })],
    series: [{ label: "load" }, ...names.map((n) => ({ label: n, stroke: colours[n], width: 2, points: { show: true } }))],
  });
  const box = el("div", null, null, "plots");
  plot(box, "goodput / capacity", opts("goodput / capacity"), data("goodput", 1));
  plot(box, "p99 of what was admitted, ms", opts("ms"), data("p99", 1000));
}

// Bars, one group per variant.
function bars(parent, s, measure, title, scale) {
  const names = [...new Set(s.variants.flatMap((v) => v.rows.map((r) => r.contender)))];
  const groups = s.variants.length, n = names.length, slot = n + 1;
  const series = names.map((name, k) => {
    const ys = new Array(groups * slot).fill(null);
    s.variants.forEach((v, g) => {
      const r = v.rows.find((r) => r.contender === name);
      if (r) ys[g * slot + k] = r.windows[0][measure].mean * scale;
    });
    return ys;
  });
  const x = Array.from({ length: groups * slot }, (_, i) => i);
  plot(parent, title, {
    width: Math.min(1100, Math.max(360, 60 + groups * slot * 14)),
    scales: { x: { time: false, range: [-1, groups * slot] }, y: { range: (u, lo, hi) => [0, hi > 0 ? hi * 1.05 : 1] } },
    axes: [axis({ splits: s.variants.map((_, g) => g * slot + (n - 1) / 2), values: () => s.variants.map((v) => v.name), grid: { show: false } }), axis({})],
    series: [{ label: " ", value: () => "" }, ...names.map((name) => ({ label: name, stroke: colours[name], fill: colours[name], paths: uPlot.paths.bars({ size: [0.9, 14] }), points: { show: false } }))],
  }, [x, ...series]);
}

// What happened over time, for one contender.
function shade(trigger) {
  return { hooks: { drawClear: [(u) => {
    if (trigger[1] <= trigger[0]) return;
    const a = Math.max(u.valToPos(trigger[0], "x", true), u.bbox.left), b = Math.min(u.valToPos(trigger[1], "x", true), u.bbox.left + u.bbox.width);
    u.ctx.save(); u.ctx.fillStyle = "rgba(191,135,0,.18)"; u.ctx.fillRect(a, u.bbox.top, b - a, u.bbox.height); u.ctx.restore();
  }] } };
}
function overTime(s, v) {
  const rows = v.rows.filter((r) => r.series && r.series.t.length);
  if (!rows.length) return;
  const line = el("p");
  el("label", "contender ", line);
  const pick = el("select", null, line);
  rows.forEach((r) => { const o = el("option", r.contender, pick); o.value = r.contender; });
  const start = rows.find((r) => r.contender === "vegas") || rows[0];
  pick.value = start.contender;
  const box = el("div", null, null, "plots");
  const draw = () => {
    box.replaceChildren();
    const d = rows.find((r) => r.contender === pick.value).series;
    const opts = (series, label) => ({
      height: 240, scales: { x: { time: false } }, plugins: [shade(s.trigger)],
      axes: [axis({ label: "s" }), axis({ label })],
      series: [{ label: "s" }, ...series.map(([n, c]) => ({ label: n, stroke: c, width: 1.5, points: { show: false } }))],
    });
    plot(box, "limit and requests inside", opts([["limit", "#0969da"], ["inside", "#cf222e"]], ""), [d.t, d.limit, d.inside]);
    plot(box, "age of the backend's queue, ms", opts([["age", "#8250df"]], "ms"), [d.t, d.age]);
    plot(box, "requests per second", opts([["offered", "#8c959f"], ["good", "#1a7f37"], ["refused", "#bf8700"], ["failed", "#cf222e"]], "1/s"), [d.t, d.offered, d.good, d.refused, d.failed]);
    plot(box, "attempts per request", opts([["attempts", "#d4518c"]], ""), [d.t, d.attempts]);
  };
  pick.addEventListener("change", draw);
  draw();
}

const pct = (x) => (100 * x).toFixed(2) + " %", ms = (x) => (1000 * x).toFixed(0) + " ms";
for (const s of report.scenarios) {
  el("h2", s.name);
  el("p", s.about);
  if (new Set(s.variants.map((v) => v.load)).size > 2) overLoad(s);
  const box = el("div", null, null, "plots");
  bars(box, s, "falseRefused", "false refusals, %", 100);
  bars(box, s, "attempts", "attempts per request", 1);
  if (s.trigger[1] > s.trigger[0]) bars(box, s, "recover", "time to recover, s", 1);
  for (const v of s.variants) {
    v.windows.forEach((w, i) => {
      el("h3", v.name + ": " + w);
      table(app, ["", "goodput", "good", "p50", "p99", "refused", "falsely", "failed", "attempts", "recovers"], v.rows.map((r) => {
        const m = r.windows[i];
        return [r.contender, m.goodput.mean.toFixed(3), m.good.mean.toFixed(3), ms(m.p50.mean), ms(m.p99.mean), pct(m.refused.mean), pct(m.falseRefused.mean), pct(m.failed.mean), m.attempts.mean.toFixed(2), m.recover.mean.toFixed(1) + " s"];
      }));
    });
    overTime(s, v);
  }
}
