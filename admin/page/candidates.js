// What other limits would have done with the same requests.

import { element, millis, number, percent } from "./format.js";

const byId = (id) => document.getElementById(id);

/** Shows the candidates of an ingress; hidden where there are none. */
export function showCandidates(doc, ingress) {
  const list = doc.shadow.filter((c) => c.ingress === ingress);
  byId("candidates").hidden = list.length === 0;
  const cells = (c) => [percent(c.rejectedShare), percent(c.enforcedShare), percent(c.forNothingShare), millis(c.p50MS), millis(c.p99MS), number(c.limit)];
  byId("candidates-rows").replaceChildren(...list.map((c) => element("tr", {}, element("th", { scope: "row", textContent: c.name }),
    ...(c.warming ? [element("td", { colSpan: 6, className: "text", textContent: "watching the backend; nothing is counted yet" })]
      : cells(c).map((textContent) => element("td", { textContent }))))));
}
