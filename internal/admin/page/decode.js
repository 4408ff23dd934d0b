// What the gate sends becomes what this page works with here, and nowhere else:
// every field has its type, what is missing has a value, and what is not a
// status is an error. Names of partitions come from clients and may be anything;
// they are kept in Maps and shown as text.

/**
 * @typedef {{ received: number, admitted: number, failed: number, succeeded: number, abandoned: number, busyMS: number,
 *   waitedMS: number, rejected: Map<string, number>, wouldReject: Map<string, number> }} Counts
 * @typedef {{ rate: number, burst: number, tokens: number }} Bucket
 * @typedef {{ name: string, label: string, key: boolean, algorithm: string, limit: number, inFlight: number, queued: number,
 *   wasted: number, baseRTTMS: number, explain: string, fallback: boolean, requests: Bucket | null, counts: Counts }} Partition
 * @typedef {{ address: string, state: string, since: string, cause: string }} Backend
 * @typedef {{ open: number, maxOpen: number, refused: number }} Connections
 * @typedef {{ name: string, ingress: string, warming: boolean, rejectedShare: number, forNothingShare: number, enforcedShare: number,
 *   p50MS: number, p99MS: number, limit: number }} Candidate
 * @typedef {{ name: string, protocol: string, listen: string, backend: string, mode: string, draining: boolean, fallback: boolean,
 *   verdict: { level: string, text: string, told: string }, backends: Backend[], inFlight: number, queued: number,
 *   limit: number, baseRTTMS: number, p99MS: number, requests: Bucket | null, connections: Connections | null, counts: Counts, partitions: Partition[],
 *   partitionCount: number, gone: string[], forecast: string, classes: Classes | null, top: Map<string, Asker[]>, shapes: Shape[] }} Ingress
 * @typedef {{ name: string, received: number, refused: number, over: number }} Asker
 * @typedef {{ name: string, share: number, meanMS: number, cost: number, ended: number, refused: number }} Shape
 * @typedef {{ unknown: number, counts: { name: string, admitted: number, rejected: number, shed: number, exempted: number }[] }} Classes
 * @typedef {{ group: string, gate: string, mode: string, problem: string, gates: number, quotaCount: number,
 *   quotas: { name: string, perSecond: number, share: number, demand: number, stock: number, gates: number, mode: string }[] }} Fleet
 * @typedef {{ name: string, words: string }} Reason
 * @typedef {{ version: string, at: string, uptimeSeconds: number, draining: boolean, clock: { trusted: boolean, detail: string },
 *   config: { lastSuccessful: boolean, lastSuccess: string, problems: string[], changed: number }, reasons: Reason[],
 *   fleet: Fleet | null, ingresses: Ingress[], shadow: Candidate[], marks: { at: string, ingress: string, text: string }[] }} Status
 */

const number = (v, otherwise = 0) => (typeof v === "number" && Number.isFinite(v) ? v : otherwise);
const text = (v) => (typeof v === "string" ? v : "");
const object = (v) => (v !== null && typeof v === "object" ? v : {});
const list = (v, of) => (Array.isArray(v) ? v.map((e) => of(object(e))) : []);
const texts = (v) => (Array.isArray(v) ? v.filter((e) => typeof e === "string") : []);
const numbers = (v) => new Map(Object.entries(object(v)).filter(([, n]) => Number.isFinite(n)));

/** @returns {Counts} */
function counts(v) {
  const c = object(v);
  return {
    received: number(c.received), admitted: number(c.admitted), failed: number(c.failed), succeeded: number(c.succeeded),
    abandoned: number(c.abandoned), busyMS: number(c.busyMS), waitedMS: number(c.waitedMS),
    rejected: numbers(c.rejected), wouldReject: numbers(c.wouldReject),
  };
}

/** @returns {Bucket | null} */
const bucket = (v) => (v ? { rate: number(v.rate), burst: number(v.burst), tokens: number(v.tokens) } : null);

/** @returns {Partition} */
function partition(p) {
  return {
    name: text(p.name), label: text(p.label), key: p.key === true, algorithm: text(p.algorithm), limit: number(p.limit),
    inFlight: number(p.inFlight), queued: number(p.queued), wasted: number(p.wasted), baseRTTMS: number(p.baseRTTMS), explain: text(p.explain),
    fallback: p.fallback === true, requests: bucket(p.requests), counts: counts(p.counts),
  };
}

/** @returns {Connections | null} */
function connections(c) {
  if (!c) return null;
  return { open: number(c.open), maxOpen: number(c.maxOpen), refused: [...numbers(c.rejected).values()].reduce((a, n) => a + n, 0) };
}

/** @returns {Asker} */
const asker = (a) => ({ name: text(a.name), received: number(a.received), refused: number(a.refused), over: number(a.over) });

/** @returns {Shape} */
const shape = (s) => ({ name: text(s.name), share: number(s.share), meanMS: number(s.meanMS), cost: number(s.cost), ended: number(s.ended), refused: number(s.refused) });

/** @returns {Classes | null} */
function classes(c) {
  if (!c) return null;
  const row = (n) => ({ name: text(n.class), admitted: number(n.admitted), rejected: number(n.rejected), shed: number(n.shed), exempted: number(n.exempted) });
  return { unknown: number(c.unknown), counts: list(c.counts, row) };
}

/** @returns {Fleet | null} */
function fleet(f) {
  if (!f) return null;
  const quota = (q) => ({
    name: text(q.name), perSecond: number(q.perSecond), share: number(q.share), demand: number(q.demand), stock: number(q.stock), gates: number(q.gates), mode: text(q.mode),
  });
  return {
    group: text(f.group), gate: text(f.gate), mode: text(f.mode), problem: text(f.problem), gates: number(f.gates),
    quotaCount: number(f.quotaCount), quotas: list(f.quotas, quota),
    differs: list(f.differs, (r) => ({ name: text(r.name), perSecond: number(r.perSecond), ownPerSecond: number(r.ownPerSecond), by: text(r.by), source: text(r.source) })),
  };
}

/** @returns {Ingress} */
function ingress(i) {
  const partitions = list(i.partitions, partition), verdict = object(i.verdict);
  return {
    name: text(i.name), protocol: text(i.protocol), listen: text(i.listen), backend: text(i.backend), mode: text(i.mode),
    draining: i.draining === true, fallback: i.fallback === true,
    verdict: { level: text(verdict.level), text: text(verdict.text), told: text(verdict.told) },
    backends: list(i.backends, (b) => ({ address: text(b.address), state: text(b.state), since: text(b.since), cause: text(b.cause) })),
    inFlight: number(i.inFlight), queued: number(i.queued), limit: number(i.limit), baseRTTMS: number(i.baseRTTMS), p99MS: number(i.p99MS),
    responses: numbers(i.responses), invalid: numbers(i.invalid), requests: bucket(i.requests), connections: connections(i.connections), counts: counts(i.counts), partitions,
    partitionCount: number(i.partitionCount, partitions.length), gone: texts(i.gone), forecast: text(i.forecast),
    classes: classes(i.classes), top: new Map(Object.entries(object(i.top)).map(([kind, l]) => [kind, list(l, asker)])),
    shapes: list(i.shapes, shape),
  };
}

/** @returns {Candidate} */
function candidate(c) {
  return {
    name: text(c.name), ingress: text(c.ingress), warming: c.warming === true, rejectedShare: number(c.rejectedShare),
    forNothingShare: number(c.forNothingShare), enforcedShare: number(c.enforcedShare), p50MS: number(c.p50MS), p99MS: number(c.p99MS),
    limit: number(c.limit),
  };
}

/**
 * Reads a status or an event of the stream.
 * @returns {Status}
 * @throws when v is neither
 */
export function decodeStatus(v) {
  const d = object(v);
  if (!Array.isArray(d.ingresses) || Number.isNaN(Date.parse(d.at))) throw new Error("this is not a status of admitd");
  const c = object(d.config), clock = object(d.clock);
  return {
    version: text(d.version), at: d.at, uptimeSeconds: number(d.uptimeSeconds), draining: d.draining === true,
    clock: { trusted: clock.trusted === true, detail: text(clock.detail) },
    config: { lastSuccessful: c.lastSuccessful === true, lastSuccess: text(c.lastSuccess), problems: texts(c.problems), changed: number(c.changed) },
    reasons: list(d.reasons, (r) => ({ name: text(r.name), words: text(r.words) })),
    fleet: fleet(d.fleet), ingresses: list(d.ingresses, ingress), shadow: list(d.shadow, candidate),
    marks: list(d.marks, (m) => ({ at: text(m.at), ingress: text(m.ingress), text: text(m.text) })),
  };
}

/** Reads a series of the history: times, and columns by name. */
function series(v) {
  const s = object(v);
  const at = Array.isArray(s.at) ? s.at.map((t) => number(t)) : [];
  const columns = new Map(Object.entries(object(s.columns)).filter(([, c]) => Array.isArray(c) && c.length === at.length));
  return { at, columns };
}

/** Reads what the gate remembers of one ingress; null when it remembers nothing. */
export function decodeHistory(v, name) {
  const all = object(v), past = Object.hasOwn(all, name) ? all[name] : null;
  if (!past) return null;
  return { ...series(past), partitions: new Map(Object.entries(object(past.partitions)).map(([part, s]) => [part, series(s)])) };
}

/** Reads why a limit is what it is. */
export function decodeExplanation(v) {
  const e = object(v);
  return {
    text: text(e.text),
    changes: list(e.changes, (c) => ({ at: text(c.at), from: number(c.from), to: number(c.to), meaning: text(c.meaning) || text(c.by) || text(c.why) })),
  };
}

/** Reads the overrides of an ingress. */
export function decodeOverrides(v) {
  return list(object(v).overrides, (o) => ({
    id: text(o.id), key: text(o.key), rate: o.rate === "none" ? "none" : number(o.rate, null), limit: number(o.limit, null),
    burstSeconds: number(o.burstSeconds, null), until: text(o.until), by: text(o.by),
  }));
}

/** Reads what was changed at run time; values are numbers or words. */
export function decodeChanges(v) {
  return list(object(v).changes, (c) => ({ ingress: text(c.ingress), path: texts(c.path), file: c.file ?? null, now: c.now ?? null }));
}
