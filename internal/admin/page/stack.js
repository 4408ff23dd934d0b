// A stack of areas under one line: what was received, and what became of it.

const APART = 120; // pixels between two markers of one area
const THICK = 9; // pixels; a thinner area has no room for a marker

export class Stack {
  /** items are a line on top, the areas from below upwards, and lines beside the stack. */
  constructor(items) {
    this.items = items;
    this.top = items.find((i) => i.sum);
    this.beside = items.filter((i) => i.beside);
    this.areas = items.filter((i) => !i.sum && !i.beside);
    this.order = [this.top, ...this.areas.toReversed(), ...this.beside];
  }

  fills(item) { return this.areas.includes(item); }

  /** Computes a column for each item from columns of fields. */
  raw(columns, fields) {
    const of = (field) => columns[fields.indexOf(field) + 1];
    const admitted = of("admitted"), rejected = of("rejected");
    return [columns[0], ...this.items.map((item) => {
      if (item.sum) return admitted.map((v, i) => (v === null ? null : v + (rejected[i] ?? 0)));
      if (item.field !== "other") return of(item.field);
      const known = this.areas.filter((a) => a.glyph && a.field !== "failed").map((a) => of(a.field));
      return rejected.map((v, i) => {
        if (v === null) return null;
        const rest = v - known.reduce((s, c) => s + (c[i] ?? 0), 0);
        return rest > 0.01 * v ? rest : 0; // the past is told to four figures
      });
    })];
  }

  /** Piles the areas up, in the order in which they are drawn. */
  piled(raw) {
    const column = (item) => raw[this.items.indexOf(item) + 1];
    const heights = new Map();
    let below = null;
    for (const area of this.areas) {
      const less = area.less ? column(this.items.find((i) => i.field === area.less)) : null;
      const height = column(area).map((v, i) => (v === null ? null : Math.max(0, v - (less?.[i] ?? 0))));
      const base = below;
      below = base ? height.map((v, i) => (base[i] === null ? v : base[i] + (v ?? 0))) : height;
      heights.set(area, below);
    }
    this.piles = heights;
    return [raw[0], column(this.top), ...this.areas.toReversed().map((a) => heights.get(a)), ...this.beside.map(column)];
  }

  /** Draws each area's marker into it, where there is room. */
  glyphs(u) {
    if (!this.piles) return;
    const { ctx, bbox } = u, ratio = devicePixelRatio, times = u.data[0];
    ctx.save();
    ctx.font = `${9 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    for (let x = bbox.left + bbox.width - 14 * ratio; x > bbox.left; x -= APART * ratio) {
      const at = u.posToIdx(x, true);
      if (at === undefined || times[at] === undefined) continue;
      let floor = 0;
      for (const area of this.areas) {
        const v = this.piles.get(area)[at];
        if (v === null || v === undefined) continue;
        const low = u.valToPos(floor, "y", true), high = u.valToPos(v, "y", true);
        floor = v;
        if (!area.glyph || low - high < THICK * ratio) continue;
        ctx.fillStyle = area.stroke;
        ctx.fillText(area.glyph, u.valToPos(times[at], "x", true), (low + high) / 2);
      }
    }
    ctx.restore();
  }
}
