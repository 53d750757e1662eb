// The buttons of the lab: each does what a command of the walk does, and shows that command.

import { json } from "./api.js";
import { byId, compare, element, options, set } from "./dom.js";

export class LabView {
  constructor(app) {
    this.app = app;
    this.result = byId("lab-result");
    this.zone = element("input", { id: "lab-zone", value: "zone-d", pattern: "[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", required: true, spellcheck: "false" });
    this.nodes = element("input", { id: "lab-nodes", type: "number", min: 1, max: 50, value: 4, required: true });
    this.zones = element("select", { id: "lab-zones" });
    this.workload = element("select", { id: "lab-workload" });
    this.replicas = element("input", { id: "lab-replicas", type: "number", min: 0, max: 1000, value: 20, required: true });
    byId("lab-controls").append(
      this.form("Add a zone", "add-zone", [["Zone", this.zone], ["Nodes", this.nodes]], () => ({ zone: this.zone.value, nodes: Number(this.nodes.value) })),
      this.form("Fail a zone", "fail-zone", [["Zone", this.zones]], () => ({ zone: this.zones.value }), [["Recover it", "recover-zone"]]),
      this.form("Scale", "scale", [["Workload", this.workload], ["Replicas", this.replicas]], () => ({ workload: this.workload.value, replicas: Number(this.replicas.value) })),
    );
  }

  form(title, action, fields, body, others = []) {
    const buttons = [element("button", { type: "submit", text: title, "data-action": action })];
    for (const [label, other] of others) {
      buttons.push(element("button", { type: "button", class: "quiet", text: label, "data-action": other, onclick: () => this.act(other, body()) }));
    }
    const made = element(
      "form",
      { class: "card" },
      element("h3", { text: title }),
      fields.map(([label, field]) => element("label", {}, label, field)),
      element("p", { class: "buttons" }, buttons),
    );
    made.addEventListener("submit", (event) => {
      event.preventDefault();
      this.act(action, body());
    });
    return made;
  }

  async act(action, body) {
    set(this.result, "text", "working…");
    try {
      const answer = await json(`lab/${action}`, {}, { method: "POST", body });
      set(this.result, "text", answer.said);
    } catch (error) {
      set(this.result, "text", error.message);
    }
  }

  render(state, view) {
    const domains = [...new Set([...state.nodes.values()].map((node) => node.domain ?? ""))].filter(Boolean).sort(compare);
    options(this.zones, domains.map((name) => [name, name]), domains.includes(this.zones.value) ? this.zones.value : (domains[0] ?? ""));
    const workloads = [...state.workloads.keys()].sort(compare);
    const chosen = workloads.includes(this.workload.value) ? this.workload.value : view.workload || workloads[0] || "";
    options(this.workload, workloads.map((key) => [key, key]), chosen);
  }
}
