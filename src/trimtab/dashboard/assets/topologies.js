// UnitedTopologies: how full each subset is, its limits, its reservations, and the levels of its pods.

import { byId, compare, element, plural, reconcile } from "./dom.js";

const LEVELS = ["Guaranteed", "BestEffort", "Redundant"];

export class TopologiesView {
  constructor() {
    this.list = byId("topologies-list");
  }

  render(state) {
    const keys = [...state.topologies.keys()].sort(compare);
    const drawn = keys.map((key) => `${key} ${JSON.stringify(state.topologies.get(key))}`);
    const rows = new Map(drawn.map((text, index) => [text, state.topologies.get(keys[index])]));
    reconcile(this.list, drawn.length ? drawn : [""], (text) => (text ? card(rows.get(text)) : empty()));
  }
}

function empty() {
  return element("p", { class: "card empty", text: "There is no UnitedTopology in what may be listed." });
}

function card(topology) {
  const size = topology.replicas === null ? "the workload does not exist" : `${plural(topology.replicas, "replica")} of ${topology.target}`;
  const most = Math.max(1, ...topology.subsets.map((each) => Math.max(each.pods + each.reserved, each.limit ?? 0)));
  const head = ["subset", "pods", "minimum", "maximum", "reserved", "filling"];
  return element(
    "article",
    { class: "card topology", "data-key": `${topology.namespace}/${topology.name}` },
    element("h3", { text: `${topology.namespace}/${topology.name}` }),
    element("p", { class: "meta" }, element("span", { class: "chip", text: topology.strategy }), ` ${size}`, topology.ready ? ` · Ready ${topology.ready}` : ""),
    element(
      "div",
      { class: "scroll", role: "region", tabindex: "0", "aria-label": `Subsets of ${topology.name}` },
      element(
        "table",
        {},
        element("thead", {}, element("tr", {}, head.map((text) => element("th", { scope: "col", text })))),
        element("tbody", {}, topology.subsets.map((subset) => row(subset, most))),
      ),
    ),
    topology.outside ? element("p", { text: `${plural(topology.outside, "pod")} in no subset` }) : null,
  );
}

function row(subset, most) {
  const counts = LEVELS.filter((level) => subset.levels[level]).map((level) => `${subset.levels[level]} ${level}`);
  const filling = element("div", { class: "filling", role: "img", "aria-label": counts.join(", ") || "empty" });
  filling.style.setProperty("--most", String(most));
  for (const level of LEVELS) {
    if (subset.levels[level]) filling.append(segment(level.toLowerCase(), subset.levels[level]));
  }
  if (subset.reserved) filling.append(segment("reserved", subset.reserved));
  if (subset.limit !== null) {
    const mark = element("i", { class: "limit" });
    mark.style.setProperty("--at", String(subset.limit / most));
    filling.append(mark);
  }
  const skipped = subset.skippedUntil ? element("span", { class: "chip bad", text: `skipped until ${subset.skippedUntil}` }) : null;
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, subset.name, " ", skipped),
    element("td", { class: "numeric", text: String(subset.pods) }),
    element("td", { class: "numeric", text: subset.minimum ? String(subset.minimum) : "–" }),
    element("td", { class: "numeric", text: subset.limit === null ? "none" : String(subset.limit) }),
    element("td", { class: "numeric", text: String(subset.reserved) }),
    element("td", { class: "wide" }, filling, element("span", { class: "counts", text: counts.join(", ") })),
  );
}

function segment(kind, count) {
  const made = element("i", { class: kind });
  made.style.setProperty("--count", String(count));
  return made;
}
