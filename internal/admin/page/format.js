// How numbers and words are written.

const GLYPHS = ["▲", "◆", "■", "●", "✚", "▼", "★"]; // one for each colour --r0 to --r6, so that colour alone says nothing

/** The reasons of refusals as the gate lists them; each has words, a colour and a marker of its own. */
export const reasons = {
  list: [],
  /** Takes the list; reports whether it is another one. */
  take(list) {
    if (JSON.stringify(list) === JSON.stringify(this.list)) return false;
    this.list = list;
    return true;
  },
  index(name) { return this.list.findIndex((r) => r.name === name); },
  words(name) { return this.list.find((r) => r.name === name)?.words ?? name.replaceAll("_", " "); },
  colour(name) { return `--r${Math.max(0, this.index(name)) % GLYPHS.length}`; },
  glyph(name) { return GLYPHS[Math.max(0, this.index(name)) % GLYPHS.length]; },
};

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

const isNumber = (v) => typeof v === "number" && Number.isFinite(v);

/** A count or a rate; "–" when there is none. */
export function number(v) {
  if (!isNumber(v)) return "–";
  if (Math.abs(v) >= 100000) return short.format(v);
  return (Math.abs(v) < 10 ? one : whole).format(v);
}

const figures = (v) => (v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : whole.format(v));

/** Milliseconds; "–" when unknown. */
export function millis(v) {
  if (!isNumber(v) || v <= 0) return "–";
  if (v >= 999.5) return `${figures(v / 1000)}\u00a0s`;
  return `${figures(v)}\u00a0ms`;
}

/** A share of 0 to 1. */
export function percent(v) {
  if (!isNumber(v)) return "–";
  if (v > 0 && v < 0.01) return "<\u00a01\u00a0%";
  if (v < 1 && v > 0.99) return ">\u00a099\u00a0%";
  return `${Math.round(v * 100)}\u00a0%`;
}

/** How long something is, in words. */
export function age(seconds) {
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

/** The time of day of seconds since the epoch. */
export function clock(at, seconds) {
  return new Date(at * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined });
}

/** Makes an element; properties are set, children appended. */
export function element(name, properties = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in e) e[key] = value;
    else e.setAttribute(key, value);
  }
  e.append(...children);
  return e;
}

/** Sets a text, but only when it differs: assistive technology rereads what is set. */
export function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}
