"use strict";
// Keeps the status as the stream of events tells it, and shows it as a table
// per ingress.
(() => {
  const state = document.getElementById("state");
  const main = document.getElementById("ingresses");
  const columns = ["partition", "algorithm", "limit", "in flight", "queued", "base RTT", "admitted", "rejected"];
  const rows = new Map(); // ingress name -> partition name -> partition

  const element = (name, text, className) => {
    const e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
  };
  const sum = (counts) => Object.values(counts || {}).reduce((a, b) => a + b, 0);

  function merge(doc, whole) {
    const names = new Set(doc.ingresses.map((i) => i.name));
    for (const name of rows.keys()) if (whole || !names.has(name)) rows.delete(name);
    for (const ingress of doc.ingresses) {
      if (!rows.has(ingress.name)) rows.set(ingress.name, new Map());
      const partitions = rows.get(ingress.name);
      for (const name of ingress.gone || []) partitions.delete(name);
      for (const p of ingress.partitions) partitions.set(p.name, p);
    }
  }

  function show(doc) {
    const parts = [doc.draining ? "draining" : "serving", "version " + doc.version];
    if (!doc.clock.trusted) parts.push("clock not trusted");
    if (!doc.config.lastSuccessful) parts.push("last reload failed");
    state.textContent = parts.join(" · ");
    state.className = doc.draining || !doc.clock.trusted || !doc.config.lastSuccessful ? "warn" : "";
    main.replaceChildren(...doc.ingresses.map((ingress) => {
      const section = element("section");
      section.append(element("h2", ingress.name));
      let line = `${ingress.protocol} ${ingress.listen} → ${ingress.backend}, ${ingress.mode}, ${ingress.inFlight} in flight, ${ingress.queued} queued`;
      if (ingress.requests) line += `, ${ingress.requests.tokens.toFixed(0)} of ${ingress.requests.burst.toFixed(0)} tokens`;
      if (ingress.connections) line += `, ${ingress.connections.open} connections`;
      section.append(element("p", line));
      const table = element("table");
      const head = element("tr");
      for (const c of columns) {
        const th = element("th", c);
        th.scope = "col";
        head.append(th);
      }
      table.append(head);
      for (const p of rows.get(ingress.name).values()) {
        const tr = element("tr");
        const rtt = p.baseRTTMS ? p.baseRTTMS.toFixed(2) + " ms" : "–";
        for (const v of [p.name, p.algorithm, p.limit, p.inFlight, p.queued, rtt, p.counts.admitted, sum(p.counts.rejected)]) {
          tr.append(element("td", v));
        }
        table.append(tr);
      }
      section.append(table);
      return section;
    }));
  }

  const source = new EventSource("v1/events");
  const listen = (kind) => source.addEventListener(kind, (e) => {
    const doc = JSON.parse(e.data);
    merge(doc, kind === "status");
    show(doc);
  });
  listen("status");
  listen("delta");
  source.onerror = () => { state.textContent = "connection lost, trying again"; state.className = "warn"; };
})();
