// The map: domains with their nodes, and pods on them. Up to some thousand pods are elements that a keyboard and a
// screen reader can reach; of more, nodes are drawn on a canvas and counted in a table.

import { json } from "./api.js";
import { drawNodes } from "./canvas.js";
import { byId, compare, element, options, plural, reconcile, set, shortKey } from "./dom.js";

export const BANDS = 8;
const EXPLAIN_DELAY = 100;
const WORDS = { ready: "", running: "not ready", pending: "pending", terminating: "being deleted", ended: "ended" };

// The colour of a pod: 0 goes first, 7 stays longest; null where the order is not known.
export function band(pod) {
  if (!pod.position) return null;
  if (!(pod.of > 1)) return BANDS - 1;
  return Math.min(BANDS - 1, Math.floor(((pod.position - 1) * BANDS) / pod.of));
}

export class MapView {
  constructor(app) {
    this.app = app;
    this.domains = byId("map-domains");
    this.timer = 0;
    this.asked = null;
    byId("map-legend").append(...legend());
    byId("map-workload").addEventListener("change", (event) => app.choose(event.target.value));
    byId("map-key").addEventListener("change", (event) => app.change({ key: event.target.value }));
    this.domains.addEventListener("pointerover", (event) => this.explain(event.target));
    this.domains.addEventListener("focusin", (event) => this.explain(event.target));
    this.domains.addEventListener("keydown", (event) => this.move(event));
  }

  render(state, view, plan) {
    const status = state.status.get("cluster");
    if (!status) return;
    const workloads = [...state.workloads.keys()].sort(compare).map((key) => [key, key]);
    if (!workloads.some(([key]) => key === view.workload)) workloads.unshift([view.workload, view.workload || "none"]);
    options(byId("map-workload"), workloads, view.workload);
    options(byId("map-key"), status.topologyKeys.map((key) => [key, shortKey(key)]), status.topologyKey);
    this.fill(state, view, plan, status);
  }

  // Draws domains, nodes and pods, if anything of them has changed.
  fill(state, view, plan, status) {
    const { nodes, pods } = this.app.stream.versions;
    const drawn = [nodes, pods, status, view.workload, plan, matchMedia("(prefers-color-scheme: dark)").matches];
    if (this.drawn?.every((each, index) => each === drawn[index])) return;
    this.drawn = drawn;
    const groups = grouped(state, view.workload);
    this.victims = plan ? new Set(plan.controllers.flatMap((each) => each.victims.map((victim) => `${plan.namespace}/${victim.pod}`))) : new Set();
    const results = resultsByDomain(plan, status.topologyKey);
    reconcile(
      this.domains,
      [...groups.keys()].sort((one, other) => Number(one === "") - Number(other === "") || compare(one, other)),
      (name) => domainCard(name),
      (card, name) => this.renderDomain(card, name, groups.get(name), status, state, view, results.get(name)),
    );
    if (!this.domains.querySelector('[tabindex="0"]')) this.domains.querySelector(".pod")?.setAttribute("tabindex", "0");
  }

  renderDomain(card, name, group, status, state, view, result) {
    const parts = card.parts;
    const chosen = group.nodes.reduce((sum, [, node]) => sum + (node.chosen ?? 0), 0) + group.unplacedChosen;
    const pods = group.nodes.reduce((sum, [, node]) => sum + (node.pods ?? 0), 0);
    const down = group.nodes.filter(([, node]) => node.ready === false).length;
    set(parts.count, "text", String(chosen));
    set(parts.after, "text", result ? `→ ${result.after}` : "");
    parts.stock.hidden = !result;
    set(parts.stock.words, "text", result ? `Kubernetes alone ${result.certain ? "leaves" : "may leave"} ` : "");
    set(parts.stock.number, "text", result ? String(result.stock) : "");
    const nodes = name === "" ? "" : `${plural(group.nodes.length, "node")}${down ? `, ${down} down` : ""} · `;
    set(parts.summary, "text", `${nodes}${plural(pods + group.unplaced, "pod")}`);
    card.classList.toggle("down", group.nodes.length > 0 && down === group.nodes.length);
    if (status.aggregated && group.nodes.length) {
      parts.nodes.replaceChildren();
      parts.nodes.children_by_key = undefined;
      drawNodes(card, cells(group, this.victims), (text, pod) => this.sayNode(text, pod));
      return;
    }
    parts.canvas?.remove();
    parts.canvas = undefined;
    reconcile(parts.nodes, group.nodes.map(([key]) => key), nodeBox, (box, key) => this.renderNode(box, key, group, view));
  }

  renderNode(box, key, group, view) {
    const node = group.byName.get(key);
    const isDown = node.ready === false;
    box.classList.toggle("down", isDown);
    box.classList.toggle("cordoned", node.schedulable === false);
    set(box.label, "text", key || "not on a node");
    set(box.note, "text", isDown ? "not ready" : node.schedulable === false ? "cordoned" : "");
    const pods = group.pods.get(key) ?? [];
    reconcile(box.pods, pods.map(([name]) => name), podMark, (mark, name) => this.renderPod(mark, name, pods.byName.get(name), view));
  }

  renderPod(mark, key, pod, view) {
    const isOwn = pod.workload === view.workload;
    const colour = isOwn ? band(pod) : null;
    const goes = this.victims.has(key);
    set(mark, "data-band", colour ?? "none");
    set(mark, "data-state", pod.state ?? "ready");
    set(mark, "data-goes", goes || null);
    set(mark, "data-own", isOwn || null);
    set(mark, "text", isOwn && pod.position ? String(pod.position) : "");
    set(mark, "aria-label", label(key, pod, goes));
  }

  explain(target) {
    const key = target.closest?.(".pod")?.dataset.key;
    if (!key || key === this.asked) return;
    this.asked = key;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(key), EXPLAIN_DELAY);
  }

  async ask(key, before = "") {
    try {
      const { sentence } = await json("explain", { pod: key });
      if (this.asked === key) this.say(before + sentence);
    } catch (error) {
      if (this.asked === key) this.say(error.message);
    } finally {
      if (this.asked === key) this.asked = null;
    }
  }

  // A node of a large cluster: its numbers at once, and then the pod of the chosen workload that goes first.
  sayNode(text, pod) {
    clearTimeout(this.timer);
    this.asked = pod;
    this.say(text);
    if (pod) this.timer = setTimeout(() => this.ask(pod, `${text}. `), EXPLAIN_DELAY);
  }

  say(text) {
    set(byId("explanation"), "text", text);
    set(byId("explanation"), "data-said", true);
  }

  // Arrow keys move between pods; Home and End go to the first and the last.
  move(event) {
    const marks = [...this.domains.querySelectorAll(".pod")];
    const at = marks.indexOf(document.activeElement);
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: marks.length - 1 };
    let next = marks[steps[event.key]];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") next = nextNode(marks, at, event.key === "ArrowDown" ? 1 : -1);
    if (at < 0 || !next) return;
    event.preventDefault();
    marks[at].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }
}

function nextNode(marks, at, step) {
  const own = marks[at]?.closest(".node");
  for (let index = at; marks[index]; index += step) {
    if (marks[index].closest(".node") !== own) return marks[index];
  }
  return undefined;
}

function label(key, pod, goes) {
  const place = pod.position ? `, goes ${pod.position} of ${pod.of}` : "";
  const word = WORDS[pod.state ?? "ready"];
  return `${key}${word ? `, ${word}` : ""}${place}${goes ? ", deleted by this scale-down" : ""}`;
}

function grouped(state, chosen) {
  const groups = new Map();
  const of = (name) => {
    if (!groups.has(name)) groups.set(name, { nodes: [], byName: new Map(), pods: new Map(), unplaced: 0, unplacedChosen: 0 });
    return groups.get(name);
  };
  for (const [key, node] of state.nodes) of(node.domain ?? "").nodes.push([key, node]);
  for (const [key, pod] of [...state.pods].sort(([one], [other]) => compare(one, other))) {
    const node = state.nodes.get(pod.node ?? "");
    const group = of(node ? (node.domain ?? "") : "");
    const where = node ? pod.node : "";
    if (!node) group.unplaced += 1;
    if (!node && pod.workload === chosen) group.unplacedChosen += 1;
    if (!group.pods.has(where)) group.pods.set(where, Object.assign([], { byName: new Map() }));
    group.pods.get(where).push([key, pod]);
    group.pods.get(where).byName.set(key, pod);
  }
  for (const group of groups.values()) {
    group.nodes.sort(([one], [other]) => compare(one, other));
    if (group.unplaced) group.nodes.push(["", { pods: 0 }]);
    group.byName = new Map(group.nodes);
  }
  return groups;
}

// What a plan says of each domain, if it has a constraint on the key that nodes are grouped by.
function resultsByDomain(plan, topologyKey) {
  const found = new Map();
  for (const controller of plan?.controllers ?? []) {
    const constraint = controller.constraints.find((each) => each.topologyKey === topologyKey);
    constraint?.domains.forEach((domain, index) => {
      found.set(domain, { after: constraint.after[index], stock: constraint.stock[index], certain: constraint.stockIsCertain });
    });
  }
  return found;
}

function domainCard(name) {
  const parts = {
    count: element("span", { class: "count" }),
    after: element("span", { class: "after" }),
    stock: stockLine(),
    summary: element("p", { class: "summary" }),
    nodes: element("ul", { class: "nodes" }),
  };
  const title = element("h3", { text: name || "no domain" });
  const numbers = element("p", { class: "numbers" }, parts.count, parts.after);
  const card = element("article", { class: "domain", "data-domain": name }, element("header", {}, title, numbers, parts.stock, parts.summary), parts.nodes);
  card.parts = parts;
  return card;
}

function stockLine() {
  const words = element("span");
  const number = element("strong");
  return Object.assign(element("p", { class: "stock", hidden: true }, words, number), { words, number });
}

// The nodes of a domain as cells: the pods on each, and of the chosen workload's pods the one that goes first.
function cells(group, victims) {
  return group.nodes.map(([name, node]) => {
    const own = group.pods.get(name) ?? [];
    const ranked = own.filter(([, pod]) => pod.position).sort(([, one], [, other]) => one.position - other.position);
    const [first] = ranked.length ? ranked : own;
    return { name, node, first, band: first ? band(first[1]) : null, goes: own.filter(([key]) => victims.has(key)).length };
  });
}

function nodeBox() {
  const label = element("span", { class: "name" });
  const note = element("span", { class: "note" });
  const pods = element("div", { class: "pods" });
  const box = element("li", { class: "node" }, element("p", {}, label, note), pods);
  return Object.assign(box, { label, note, pods });
}

function podMark(key) {
  return element("button", { type: "button", class: "pod", "data-key": key, tabindex: "-1" });
}

function legend() {
  const bands = element("span", { class: "bands", "aria-hidden": "true" });
  for (let index = 0; index < BANDS; index += 1) bands.append(element("i", { "data-band": index }));
  const other = (state, text) => element("li", {}, element("i", { class: "pod-like", ...state, "aria-hidden": "true" }), text);
  return [
    element("li", { title: "The order in which pods go when the workload shrinks to one" }, "goes first", bands, "stays longest"),
    other({ "data-goes": true }, "deleted at this size"),
    other({ "data-state": "pending" }, "not ready"),
    other({ "data-band": "none" }, "other workloads"),
  ];
}
