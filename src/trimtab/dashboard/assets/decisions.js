// Recent decisions with their explanations, the latest first.

import { json } from "./api.js";
import { byId, clock, compare, element, reconcile, set, shortKey } from "./dom.js";

const SORTS = [
  ["scale-down", "Scale-downs"],
  ["placement", "Placements"],
  ["allocation", "Allocations"],
];
const RESULTS = { level: "good", best: "good", missed: "bad" };
const SHOWN = 100;
const MOST_DOMAINS = 12;

export class DecisionsView {
  constructor(app) {
    this.app = app;
    this.list = byId("decisions-list");
    this.hidden = new Set();
    const boxes = SORTS.map(([sort, title]) => {
      const box = element("input", { type: "checkbox", checked: true, onchange: () => this.toggle(sort, box.checked) });
      return element("label", { class: "check" }, box, title);
    });
    byId("decisions-sorts").append(...boxes);
  }

  toggle(sort, isShown) {
    if (isShown) this.hidden.delete(sort);
    else this.hidden.add(sort);
    this.app.draw();
  }

  render(state) {
    const rows = [...state.decisions].filter(([, row]) => !this.hidden.has(row.sort));
    rows.sort(([one, row], [other, another]) => compare(another.time, row.time) || compare(other, one));
    const keys = rows.slice(0, SHOWN).map(([key]) => key);
    reconcile(this.list, keys.length ? keys : [""], (key) => (key ? card(state.decisions.get(key)) : empty(state)));
  }
}

function empty(state) {
  const live = state.status.get("cluster")?.live;
  const text = live ? "None yet. Scale something: kubectl scale deployment/web --replicas=6" : "The file has none.";
  return element("li", { class: "card empty", text });
}

function card(row) {
  const tables = row.distributions.filter((each) => each.domains.length && each.domains.length <= MOST_DOMAINS).map(distribution);
  const made = element(
    "li",
    { class: "card", "data-sort": row.sort },
    element(
      "p",
      { class: "meta" },
      element("span", { class: "chip", text: row.sort }),
      row.result ? element("span", { class: `chip ${RESULTS[row.result] ?? ""}`, text: row.result }) : null,
      element("time", { datetime: row.time, title: row.time, text: clock(row.time) }),
    ),
    element("h3", { text: `${row.namespace}/${row.subject}` }),
    element("p", { class: "said", text: row.sentence }),
  );
  if (tables.length) made.append(element("div", { class: "distributions" }, tables));
  if (row.sort !== "scale-down") made.append(...why(row));
  return made;
}

function why(row) {
  const answer = element("p", { class: "said answer", role: "status" });
  const ask = async () => {
    try {
      const pod = `${row.namespace}/${row.subject.slice("Pod/".length)}`;
      const { sentence, placement, explanation } = await json("explain", { pod });
      set(answer, "text", row.sort === "placement" && placement ? `${placement}${because(explanation)}` : sentence);
    } catch (error) {
      set(answer, "text", error.message);
    }
  };
  const button = element("button", { type: "button", class: "quiet", text: "Why?", "aria-label": `Why? ${row.subject}`, onclick: ask });
  return [button, answer];
}

// The plugins that gave the node most of its score.
function because(explanation) {
  const scores = explanation.placement.scores.filter((each) => each.weighted > 0).sort((one, other) => other.weighted - one.weighted);
  return scores.length ? `: ${scores.map((each) => `${each.plugin} ${each.weighted}`).join(", ")}` : "";
}

function distribution(each) {
  const columns = [
    ["before", each.before],
    ["left", each.left],
    ["planned", each.planned],
    ["Kubernetes alone may leave", each.stock],
  ].filter(([, counts]) => counts.length);
  const head = element("tr", {}, element("th", { scope: "col", text: shortKey(each.topologyKey) }), columns.map(([name]) => element("th", { scope: "col", text: name })));
  const rows = each.domains.map((domain, index) =>
    element("tr", {}, element("th", { scope: "row", text: domain }), columns.map(([, counts]) => element("td", { class: "numeric", text: String(counts[index]) }))),
  );
  return element("table", { class: "small" }, element("thead", {}, head), element("tbody", {}, rows));
}
