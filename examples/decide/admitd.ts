// Asks admitd before work and reports after it. No dependencies: Node 18, Deno,
// Bun, or a browser's fetch.
//
//   const gate = new Gate("http://127.0.0.1:9463");
//   await gate.permit({ ingress: "jobs", partition: "nightly" }, async () => { … });
//
// Work that throws ends the permit as dropped. Where the gate refuses, Refused says
// why and when to come again; where it cannot be reached, fetch's own error is
// thrown, and whether work goes on is yours to choose.

export type Outcome = "success" | "ignored" | "dropped";

export interface Ask {
  ingress: string;
  partition?: string;
  operation?: string; // for exemptions and costs
  class?: string;
  cost?: number; // tokens; left out = what the operation costs
  ttlMS?: number; // the permit ends as dropped after it; left out = 10,000
}

/** What every client of a gate is told. */
export interface Refusal {
  status: number;
  code: number;
  detail: string;
  reason: string;
  ingress: string;
  partition: string;
  errorLabels: string[];
  retryAfterMS?: number;
}

/** The gate refused. */
export class Refused extends Error {
  readonly document: Refusal;

  constructor(document: Refusal) {
    super(`${document.detail}: ${document.reason} of ${document.ingress}`);
    this.name = "Refused";
    this.document = document;
  }

  /** Milliseconds until a retry may succeed; undefined = it never will. */
  get retryAfterMS(): number | undefined {
    return this.document.errorLabels.includes("RetryableError") ? this.document.retryAfterMS ?? 1000 : undefined;
  }
}

/** A decisions listener. */
export class Gate {
  private readonly url: string;
  private readonly headers: Record<string, string>;

  constructor(url: string, token?: string) {
    this.url = url.replace(/\/$/, "");
    this.headers = { "Content-Type": "application/json" };
    if (token) this.headers["Authorization"] = `Bearer ${token}`;
  }

  /** Asks for a permit and returns its id. patienceMS bounds waiting in the gate's queue. */
  async admit(ask: Ask, patienceMS?: number): Promise<string> {
    const patience: Record<string, string> = patienceMS ? { "X-Admitd-Deadline-Ms": String(Math.ceil(patienceMS)) } : {};
    const answer = await this.call("POST", "/v1/admissions", JSON.stringify(ask), patience);
    const permit: unknown = (JSON.parse(answer) as { permit?: unknown } | null)?.permit;
    if (typeof permit !== "string" || permit === "") throw new Error("admitd: the answer holds no permit");
    return permit;
  }

  /** Returns a permit. One that has expired is no error. */
  async end(permit: string, outcome: Outcome = "success"): Promise<void> {
    await this.call("DELETE", `/v1/admissions/${encodeURIComponent(permit)}?outcome=${outcome}`, undefined, {}, 404);
  }

  /** Runs work under a permit. */
  async permit<T>(ask: Ask, work: () => Promise<T>, patienceMS?: number): Promise<T> {
    const permit = await this.admit(ask, patienceMS);
    let outcome: Outcome = "dropped";
    try {
      const result = await work();
      outcome = "success";
      return result;
    } finally {
      await this.end(permit, outcome).catch(() => undefined); // it expires
    }
  }

  private async call(method: string, path: string, body: string | undefined, headers: Record<string, string>, fine = 0): Promise<string> {
    const answer = await fetch(this.url + path, { method, body, headers: { ...this.headers, ...headers } });
    const text = await answer.text();
    if (answer.ok || answer.status === fine) return text;
    let document: Partial<Refusal> = {};
    try {
      document = JSON.parse(text);
    } catch {
      // not a document: told below
    }
    if (document.code === 462) throw new Refused(document as Refusal);
    throw new Error(`admitd: ${method} ${path}: ${answer.status} ${text.slice(0, 200)}`);
  }
}
