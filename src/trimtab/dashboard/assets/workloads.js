// The table of workloads, filtered and sorted.

import { byId, compare, element, plural, reconcile, set, shortKey } from "./dom.js";

const PAGE = 100;
const COLUMNS = [
  ["name", "Workload", (row) => `${row.overview.namespace}/${row.overview.name}`],
  ["kind", "Kind", (row) => row.overview.kind],
  ["replicas", "Replicas", (row) => row.overview.replicas],
  ["ready", "Ready", (row) => row.overview.ready],
  ["skew", "Skew", (row) => Math.max(-1, ...row.overview.constraints.map((each) => each.skew - each.maxSkew))],
  ["policy", "Policy", (row) => row.overview.policy.name ?? ""],
  ["mode", "Mode", (row) => row.overview.policy.mode ?? ""],
  ["last", "Last scale-down", (row) => row.lastScaleDown],
];

export class WorkloadsView {
  constructor(app) {
    this.app = app;
    this.shown = PAGE;
    this.table = byId("workloads-table");
    this.body = element("tbody");
    this.heads = new Map(COLUMNS.map(([name, title]) => [name, this.head(name, title)]));
    const caption = element("caption", { class: "sr", text: "Workloads, their levels and what applies to them" });
    this.table.append(caption, element("thead", {}, element("tr", {}, [...this.heads.values()])), this.body);
    byId("workloads-filter").addEventListener("input", (event) => app.change({ filter: event.target.value }));
    byId("workloads-more").addEventListener("click", () => {
      this.shown += PAGE;
      app.draw();
    });
  }

  head(name, title) {
    const button = element("button", { type: "button", text: title, onclick: () => this.sort(name) });
    return element("th", { scope: "col", "data-column": name }, button);
  }

  sort(name) {
    const current = this.app.view.sort || "name";
    this.app.change({ sort: current === name ? `-${name}` : name });
  }

  render(state, view) {
    const field = byId("workloads-filter");
    if (field.value !== view.filter && document.activeElement !== field) field.value = view.filter;
    const found = sorted(filtered([...state.workloads], view.filter), view.sort || "name");
    const column = (view.sort || "name").replace(/^-/, "");
    for (const [name, head] of this.heads) {
      set(head, "aria-sort", name === column ? (view.sort.startsWith("-") ? "descending" : "ascending") : null);
    }
    set(byId("workloads-count"), "text", `${found.length} of ${plural(state.workloads.size, "workload")}`);
    byId("workloads-more").hidden = found.length <= this.shown;
    const rows = new Map(found.slice(0, this.shown));
    reconcile(this.body, [...rows.keys()], (key) => this.row(key, rows.get(key).overview), (line, key) => fill(line, rows.get(key)));
  }

  row(key, { namespace, name }) {
    const link = element("a", { href: `?tab=map&workload=${encodeURIComponent(key)}`, text: `${namespace}/${name}` });
    link.addEventListener("click", (event) => {
      event.preventDefault();
      this.app.choose(key, { tab: "map" });
    });
    return element("tr", { "data-key": key }, element("th", { scope: "row" }, link));
  }
}

// Replaces the cells of a row that has changed; its link stays, and so does the focus on it.
function fill(line, row) {
  if (line.shown === row) return;
  line.shown = row;
  const { overview } = row;
  const { policy } = overview;
  while (line.children.length > 1) line.lastChild.remove();
  line.append(
    element("td", {}, overview.kind, overview.rollingOut ? element("span", { class: "chip", text: "rollout" }) : null),
    element("td", { class: "numeric", text: String(overview.replicas) }),
    element("td", { class: "numeric", text: `${overview.ready}/${overview.pods}` }),
    element("td", {}, element("ul", { class: "levels" }, overview.constraints.map(level))),
    element("td", { text: policy.name || "none", title: policy.problem || policy.reason || "" }),
    element("td", {}, policy.mode ? element("span", { class: `chip ${policy.mode.toLowerCase()}`, text: policy.mode }) : null),
    element("td", { class: "said", text: row.lastScaleDown || "none seen" }),
  );
}

function level(constraint) {
  const pods = constraint.pods.length ? constraint.pods.join("/") : "";
  const bad = constraint.skew > Math.max(1, constraint.maxSkew);
  return element(
    "li",
    {},
    element("span", { class: `skew ${bad ? "bad" : "good"}`, text: String(constraint.skew) }),
    element("span", { text: ` ${shortKey(constraint.topologyKey)}${constraint.hard ? " (hard)" : ""}` }),
    pods ? element("span", { class: "counts", text: ` ${pods}` }) : null,
  );
}

function filtered(rows, filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return rows;
  return rows.filter(([key, row]) => {
    const text = [key, row.overview.policy.name, row.overview.policy.mode, row.lastScaleDown].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function sorted(rows, sort) {
  const value = COLUMNS.find(([name]) => name === sort.replace(/^-/, ""))?.[2] ?? COLUMNS[0][2];
  const sign = sort.startsWith("-") ? -1 : 1;
  const order = (one, other) => (typeof one === "number" ? one - other : compare(one, other));
  return rows.sort(([key, row], [otherKey, other]) => sign * order(value(row), value(other)) || compare(key, otherKey));
}
