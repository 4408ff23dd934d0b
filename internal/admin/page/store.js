// Keeps what the stream of events tells: the newest status, and a bounded
// history of it, one point per event.

import { reasons } from "./format.js";

export const CAPACITY = 1830; // points per series: 30 min and a little at one per second
const MAX_TRACKED = 512; // partitions with a history; further ones only have their present values
const MAX_GAP = 4; // seconds without an event after which a line is broken
const MEAN = 10; // seconds over which the means are taken that rows are sorted by

/** The series beside those of the reasons; rates are per second, times in milliseconds. */
const GAUGES = ["limit", "inFlight", "queued", "rtt", "base", "wait", "p99", "tokens", "burst", "open"];
const RATES = ["admitted", "rejected", "would", "failed"];

const total = (counts) => { let sum = 0; for (const n of counts.values()) sum += n; return sum; };
const still = () => ({ received: 0, admitted: 0, rejected: 0, would: 0, failed: 0, wasted: NaN, rtt: NaN, wait: NaN, reasons: new Map(), known: false });

/** The present values and the history of an ingress (partition "") or of a partition. */
export class Entity {
  constructor(name) {
    this.name = name;
    this.rate = still();
    this.mean = { received: 0, admitted: 0, rejected: 0, failed: 0 };
    this.past = []; // counts of the last seconds, the oldest first
    this.before = null;
    this.series = null; // field -> ring; null = no history
  }

  /** Computes rates from the counts of two documents, seconds apart. */
  advance(doc, counts, seconds, at) {
    this.doc = doc;
    const old = this.before;
    this.before = counts;
    this.#average(counts, at);
    const rate = this.rate = still();
    if (!old || old === counts || !(seconds > 0)) return;
    rate.known = true; // before, nothing happens as far as is known
    const per = (now, then) => Math.max(0, now - then) / seconds;
    for (const f of ["received", "admitted", "failed"]) rate[f] = per(counts[f], old[f]);
    const ended = counts.succeeded - old.succeeded; // measured by the gate in every mode, also when no limit learns
    if (ended > 0) rate.rtt = (counts.busyMS - old.busyMS) / ended;
    if (rate.admitted > 0) {
      rate.wait = (counts.waitedMS - old.waitedMS) / (counts.admitted - old.admitted);
      rate.wasted = per(counts.abandoned, old.abandoned) / rate.admitted;
    }
    for (const [reason, n] of counts.rejected) {
      const r = per(n, old.rejected.get(reason) ?? 0);
      if (r > 0) rate.reasons.set(reason, r);
      rate.rejected += r;
    }
    for (const [reason, n] of counts.wouldReject) rate.would += per(n, old.wouldReject.get(reason) ?? 0);
  }

  /** Takes the means of the last seconds. */
  #average(counts, at) {
    if (this.past.length && (at <= this.past.at(-1).at || counts.received < this.past.at(-1).counts.received)) this.past = [];
    this.past.push({ at, counts });
    while (at - this.past[0].at > MEAN + 0.5) this.past.shift();
    const then = this.past[0], seconds = Math.max(at - then.at, 1);
    const per = (f) => Math.max(0, f(counts) - f(then.counts)) / seconds;
    this.mean = {
      received: per((c) => c.received), admitted: per((c) => c.admitted), failed: per((c) => c.failed), rejected: per((c) => total(c.rejected)),
    };
  }

  /** The reason that most of the present refusals have, or "". */
  get reason() {
    let most = "", top = 0;
    for (const [reason, r] of this.rate.reasons) if (r > top) [most, top] = [reason, r];
    return most;
  }

  put(tick, field, value) {
    let ring = this.series[field];
    if (!ring) {
      if (!value) return; // a series begins with its first value
      ring = this.series[field] = new Float32Array(CAPACITY).fill(NaN);
      if (!GAUGES.includes(field)) for (let t = Math.max(this.born + 1, tick - CAPACITY + 1); t < tick; t++) ring[t % CAPACITY] = 0;
    }
    ring[tick % CAPACITY] = value ?? NaN;
  }

  /** Writes one point; without values, a break in every line. */
  record(tick, values) {
    this.born ??= tick; // a rate needs two events: the first point has none
    if (!values) {
      for (const ring of Object.values(this.series)) ring[tick % CAPACITY] = NaN;
      return;
    }
    for (const f of RATES) this.put(tick, f, this.rate[f]);
    for (const { name } of reasons.list) this.put(tick, name, this.rate.reasons.get(name) ?? 0);
    for (const f of GAUGES) this.put(tick, f, values[f]);
  }
}

export class Store {
  constructor() {
    this.doc = null;
    this.began = NaN; // seconds since the epoch, of the first event: when the page was opened
    this.ingresses = new Map(); // name -> {entity, partitions: Map(name -> Entity)}
    this.times = new Float64Array(CAPACITY); // seconds since the epoch; a break in a line where NaN fields are
    this.ticks = 0;
    this.tracked = 0;
  }

  /** Takes an event; whole says that it holds everything. */
  take(doc, whole) {
    const at = Date.parse(doc.at) / 1000;
    const last = this.ticks ? this.times[(this.ticks - 1) % CAPACITY] : 0;
    const seconds = last ? at - last : 0;
    if (seconds < 0) this.#forgetHistory(); // the daemon's clock was set back
    if (seconds > MAX_GAP) this.#tick(last + 0.001, true);
    const restarted = this.doc && doc.uptimeSeconds < this.doc.uptimeSeconds;
    if (!(this.began <= at)) this.began = at;
    this.doc = doc;
    const names = new Set(doc.ingresses.map((i) => i.name));
    for (const [name, ingress] of this.ingresses) if (!names.has(name)) this.#forget(ingress, name);
    for (const ingress of doc.ingresses) this.#ingress(ingress, whole, restarted ? 0 : seconds, at);
    this.#tick(at, false);
  }

  /** Takes what the daemon remembers of an ingress, in place of what was seen so far, so that charts begin full. */
  fill(name, past, spare = 0) {
    const ingress = this.ingresses.get(name);
    if (!ingress) return;
    const first = Math.max(0, past.at.length - CAPACITY + spare);
    this.#forgetHistory();
    for (let i = first; i < past.at.length; i++) this.times[i - first] = past.at[i] / 1000;
    this.ticks = past.at.length - first;
    const put = (entity, { at, columns }) => {
      if (!entity?.series) return;
      const from = past.at.findIndex((t) => t >= (at[0] ?? Infinity));
      if (from < 0) return;
      entity.born = Math.max(0, from - first);
      for (const [field, values] of columns) {
        values.forEach((v, k) => from + k >= first && entity.put(from + k - first, field, v));
      }
    };
    put(ingress.entity, past);
    for (const [part, series] of past.partitions) put(ingress.partitions.get(part), series);
  }

  #forgetHistory() {
    this.ticks = 0;
    for (const { entity, partitions } of this.ingresses.values()) {
      for (const e of [entity, ...partitions.values()]) {
        e.born = undefined;
        if (e.series) e.series = {};
      }
    }
  }

  #forget(ingress, name) {
    for (const p of ingress.partitions.values()) if (p.series) this.tracked--;
    this.ingresses.delete(name);
  }

  #ingress(doc, whole, seconds, at) {
    let ingress = this.ingresses.get(doc.name);
    if (!ingress) {
      ingress = { entity: new Entity(""), partitions: new Map() };
      ingress.entity.series = {};
      this.ingresses.set(doc.name, ingress);
    }
    const { partitions } = ingress;
    const drop = (name) => {
      if (partitions.get(name)?.series) this.tracked--;
      partitions.delete(name);
    };
    for (const name of doc.gone) drop(name);
    if (whole) {
      const names = new Set(doc.partitions.map((p) => p.name));
      for (const name of [...partitions.keys()]) if (!names.has(name)) drop(name);
    }
    const changed = new Set();
    for (const p of doc.partitions) {
      changed.add(p.name);
      let entity = partitions.get(p.name);
      if (!entity) partitions.set(p.name, entity = new Entity(p.name));
      entity.found = false;
      entity.advance(p, p.counts, seconds, at);
    }
    for (const [name, entity] of partitions) {
      if (!changed.has(name) && !entity.found) entity.advance(entity.doc, entity.before, seconds, at);
      if (!entity.series && this.tracked < MAX_TRACKED) {
        entity.series = {};
        this.tracked++;
      }
    }
    ingress.entity.advance(doc, doc.counts, seconds, at);
    ingress.sums = sum(ingress.entity);
  }

  /**
   * Takes partitions that the stream does not list, because others are asked
   * more: those that a search found, and keep names for as long as it holds.
   */
  find(name, list, at, keep) {
    const partitions = this.ingresses.get(name)?.partitions;
    if (!partitions) return;
    const found = new Set(list.map((p) => p.name));
    for (const [part, entity] of partitions) {
      if (!entity.found || found.has(part) || part === keep) continue;
      if (entity.series) this.tracked--;
      partitions.delete(part);
    }
    for (const p of list) {
      let entity = partitions.get(p.name);
      if (entity && !entity.found) continue; // the stream tells more of it
      if (!entity) partitions.set(p.name, entity = Object.assign(new Entity(p.name), { found: true }));
      entity.advance(p, p.counts, entity.past.length ? at - entity.past.at(-1).at : 0, at);
    }
  }

  /** Writes the point of one event into every history. */
  #tick(at, gap) {
    const tick = this.ticks++;
    this.times[tick % CAPACITY] = at;
    for (const ingress of this.ingresses.values()) {
      ingress.entity.record(tick, gap ? null : ingress.sums);
      for (const p of ingress.partitions.values()) if (p.series) p.record(tick, gap ? null : gauges(p));
    }
  }

  /** A copy of what is there now, which stays as it is while events come in. */
  freeze() {
    const copy = (e) => Object.assign(new Entity(e.name), e, { past: [...e.past], series: e.series && { ...e.series } });
    const frozen = Object.create(this);
    frozen.doc = this.doc;
    frozen.ticks = this.ticks;
    frozen.ingresses = new Map();
    for (const [name, i] of this.ingresses) {
      const partitions = new Map();
      for (const [p, e] of i.partitions) partitions.set(p, copy(e));
      frozen.ingresses.set(name, { entity: copy(i.entity), partitions, sums: i.sums });
    }
    return frozen;
  }

  /** The last seconds of some fields of an entity, as arrays for a chart. */
  history(entity, fields, seconds) {
    const n = Math.min(this.ticks, CAPACITY);
    const now = this.ticks ? this.times[(this.ticks - 1) % CAPACITY] : 0;
    const first = n ? this.times[(this.ticks - n) % CAPACITY] : 0;
    const columns = [[], ...fields.map(() => [])];
    for (let tick = this.ticks - n; tick < this.ticks; tick++) {
      const slot = tick % CAPACITY;
      if (this.times[slot] < now - seconds - 2) continue;
      columns[0].push(this.times[slot]);
      fields.forEach((f, i) => {
        const v = entity?.series?.[f]?.[slot];
        columns[i + 1].push(v === undefined || Number.isNaN(v) ? null : v);
      });
    }
    return { first, now, columns };
  }
}

/** The present gauges of a partition. */
function gauges({ doc: p, rate }) {
  return {
    limit: p.limit, inFlight: p.inFlight, queued: p.queued,
    rtt: rate.rtt, wait: rate.wait, base: p.baseRTTMS || NaN, p99: NaN,
    tokens: p.requests?.tokens ?? NaN, burst: p.requests?.burst ?? NaN, open: NaN,
  };
}

/** The present gauges of an ingress, over all its partitions, listed here or not. */
function sum({ doc, rate }) {
  return {
    limit: doc.limit || NaN, inFlight: doc.inFlight, queued: doc.queued,
    rtt: rate.rtt, wait: rate.wait, base: doc.baseRTTMS || NaN, p99: doc.p99MS || NaN,
    tokens: doc.requests?.tokens ?? NaN, burst: doc.requests?.burst ?? NaN, open: doc.connections?.open ?? NaN,
  };
}
