// The slider: what a scale-down of the chosen workload would delete, and what would be left, as the server plans it.

import { json } from "./api.js";
import { byId, element, plural, set, shortKey } from "./dom.js";

const NOTHING = "There are no workloads yet. Create one: kubectl create deployment web --image=example.com/web:1 --replicas=9";
const FEW_DOMAINS = 6;
const MOST_DOMAINS = 100;
const MOST_VICTIMS = 100;
const BY_STOCK = { always: "Kubernetes alone deletes it, too", possible: "Kubernetes alone may delete it", never: "Kubernetes alone would keep it" };

export class PlanView {
  constructor(app) {
    this.app = app;
    this.root = byId("plan");
    this.asked = "";
    this.plan = null;
    this.controller = null;
    this.size = 0;
    this.build();
  }

  build() {
    this.slider = element("input", { type: "range", id: "replicas", min: 0, value: 0, oninput: () => this.slide() });
    this.number = element("output", { for: "replicas", id: "replicas-value" });
    this.from = element("span", { class: "from" });
    this.controls = element(
      "div",
      { class: "slider" },
      element("label", { for: "replicas", text: "Replicas" }),
      element("p", { class: "sizes" }, this.from, " → ", this.number),
      this.slider,
    );
    this.message = element("p", { class: "message", role: "status" });
    this.result = element("div", { class: "result" });
    this.root.append(this.controls, this.message, this.result);
  }

  slide() {
    this.app.change({ replicas: this.slider.value });
  }

  // Takes over the chosen workload and size; asks the server where they, or the workload, have changed.
  update(state, view) {
    const row = state.workloads.get(view.workload);
    this.controls.hidden = !row || row.overview.replicas < 1;
    if (!row) {
      this.show(null, view.workload ? "There is no such workload, or it has not been read yet." : NOTHING);
      this.asked = "";
      return;
    }
    this.size = row.overview.replicas;
    const wanted = view.replicas === "" ? this.size : Math.min(this.size, Math.max(0, Number.parseInt(view.replicas, 10) || 0));
    set(this.slider, "max", String(this.size));
    if (this.slider.value !== String(wanted)) this.slider.value = String(wanted);
    set(this.from, "text", String(this.size));
    set(this.number, "text", String(wanted));
    set(this.slider, "aria-valuetext", `${wanted} of ${this.size} replicas`);
    if (wanted >= this.size) {
      this.controller?.abort();
      this.asked = "";
      this.show(null, this.size ? "Move the slider to see which pods go, and what is left." : "It has no replicas.");
      return;
    }
    this.ask(view.workload, wanted, state);
  }

  async ask(workload, replicas, state) {
    const asked = JSON.stringify([workload, replicas, fingerprint(state, workload)]);
    if (asked === this.asked) return;
    this.asked = asked;
    this.controller?.abort();
    this.controller = new AbortController();
    const { signal } = this.controller;
    try {
      const plan = await json("plan", { workload, replicas }, { signal });
      if (!signal.aborted) this.show(plan, plan.controllers.map((each) => each.summary).join("; "));
    } catch (error) {
      if (!signal.aborted) this.show(null, error.message);
    }
  }

  // Everything but the result: open where there is room for it beside the map, else above the map on demand.
  details(plan) {
    const made = element("details", { class: "more", open: WIDE.matches || this.isOpen }, element("summary", { text: "Constraints, deleted pods, policy" }), ...rendered(plan));
    made.addEventListener("toggle", () => (this.isOpen = made.open));
    return made;
  }

  show(plan, message) {
    const isChanged = plan !== this.plan;
    this.plan = plan;
    set(this.message, "text", message);
    if (!isChanged) return;
    this.root.dataset.shown = plan ? `${plan.namespace}/${plan.kind}/${plan.name}@${plan.to}` : "";
    const told = plan ? verdict(plan, this.app.view.key) : null;
    this.message.classList.toggle("sr", Boolean(told));
    this.result.replaceChildren(...(told ? [told] : []), ...(plan ? [this.details(plan)] : []));
    this.app.planned();
  }
}

const WIDE = matchMedia("(min-width: 901px)");

// Plans are made again when the pods of the workload have changed.
function fingerprint(state, workload) {
  const pods = [...state.pods].filter(([, pod]) => pod.workload === workload);
  return [state.workloads.get(workload), pods.map(([key, pod]) => `${key}@${pod.node}:${pod.state}`).join()];
}

function* rendered(plan) {
  for (const controller of plan.controllers) {
    if (plan.controllers.length > 1) yield element("h3", { text: `${controller.name}: ${controller.from} → ${controller.to}` });
    for (const constraint of controller.constraints) yield constraintTable(constraint);
    yield element("p", { class: "certainty", text: certainty(controller) });
    yield victims(controller);
  }
  if (plan.nodesEmptied.length) yield element("p", { text: `Nodes emptied: ${plan.nodesEmptied.join(", ")}` });
  yield element("p", { class: "policy", text: policySentence(plan.policy) });
  if (plan.obstacles.length) {
    yield element("div", { class: "obstacles" }, element("h3", { text: "In the way" }), element("ul", {}, plan.obstacles.map((text) => element("li", { text }))));
  }
}

function policySentence(policy) {
  if (!policy.name) return `Policy: none: ${policy.reason}`;
  return `Policy: ${policy.name} (${policy.mode})${policy.isDefault ? ", a default policy" : ""}`;
}

function certainty(controller) {
  if (controller.costs === null) return "No costs can bring this plan about.";
  if (controller.costs === 0) return "The controller alone leaves a result that is as level: no costs are needed.";
  return `Trimtab makes this certain with costs on ${plural(controller.costs, "pod")}.`;
}

// What is left in each domain, in the largest letters: with Trimtab, and by Kubernetes alone.
function verdict(plan, key) {
  const [controller] = plan.controllers;
  const constraint = controller?.constraints.find((each) => each.topologyKey === key) ?? controller?.constraints[0];
  if (plan.controllers.length !== 1 || !constraint || constraint.domains.length > FEW_DOMAINS) return null;
  const line = (kind, name, counts) =>
    element("div", { class: kind }, element("dt", { text: name }), element("dd", { text: counts.join(" / ") }));
  const may = constraint.stockIsCertain ? "leaves" : "may leave";
  return element(
    "dl",
    { class: "verdict" },
    line("after", "with Trimtab", constraint.after),
    line("stock", `Kubernetes alone ${may}`, constraint.stock),
  );
}

function constraintTable(constraint) {
  const { domains } = constraint;
  const kind = constraint.hard ? "hard" : "soft";
  const title = [element("strong", { text: shortKey(constraint.topologyKey) }), ` ${kind}, maxSkew ${constraint.maxSkew}`];
  const skews = element(
    "dl",
    { class: "skews" },
    skew("skew now", constraint.skewBefore, constraint.maxSkew),
    skew("with Trimtab", constraint.skewAfter, constraint.maxSkew),
    skew(constraint.stockIsCertain ? "alone" : "alone up to", constraint.skewStock, constraint.maxSkew),
  );
  const made = element("div", { class: "constraint", "data-key": constraint.topologyKey }, element("p", { class: "caption" }, ...title), skews);
  if (domains.length > MOST_DOMAINS) {
    made.append(element("p", { class: "hint", text: `${domains.length} domains` }));
  } else if (domains.length > FEW_DOMAINS) {
    made.append(element("details", {}, element("summary", { text: `${domains.length} domains` }), domainTable(constraint)));
  } else {
    made.append(domainTable(constraint));
  }
  return made;
}

function domainTable(constraint) {
  const most = Math.max(1, ...constraint.before, ...constraint.after, ...constraint.stock);
  const head = element("tr", {}, ["domain", "now", "Trimtab", "alone"].map((text) => element("th", { scope: "col", text })));
  const rows = constraint.domains.map((domain, index) =>
    element(
      "tr",
      { "data-domain": domain },
      element("th", { scope: "row", text: domain }),
      bar(constraint.before[index], most, "before"),
      bar(constraint.after[index], most, "after"),
      bar(constraint.stock[index], most, "stock"),
    ),
  );
  const caption = element("caption", { class: "sr", text: `Pods by ${constraint.topologyKey}: now, with Trimtab, and by Kubernetes alone` });
  return element("table", { class: "bars" }, caption, element("thead", {}, head), element("tbody", {}, rows));
}

function skew(name, value, allowed) {
  return element("div", {}, element("dt", { text: name }), element("dd", { text: String(value), class: value > Math.max(1, allowed) ? "bad" : "good" }));
}

function bar(count, most, kind) {
  const fill = element("span", { class: `fill ${kind}`, "aria-hidden": "true" });
  fill.style.setProperty("--share", String(count / most));
  return element("td", {}, element("span", { class: "number", text: String(count) }), fill);
}

function victims(controller) {
  const shown = controller.victims.slice(0, MOST_VICTIMS);
  const rows = shown.map((victim) =>
    element(
      "li",
      {},
      element("span", { class: "pod-name", text: victim.pod }),
      element("span", { class: "why", text: `${victim.reason}; ${BY_STOCK[victim.byStock]}` }),
    ),
  );
  const more = controller.victims.length > shown.length ? [element("li", { text: `and ${controller.victims.length - shown.length} more` })] : [];
  return element(
    "details",
    { class: "victims" },
    element("summary", { text: `${plural(controller.victims.length, "pod")} deleted, and why` }),
    element("ol", { "data-victims": controller.name }, rows, more),
  );
}
