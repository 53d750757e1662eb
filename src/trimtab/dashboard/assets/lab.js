// The buttons of the lab: each does what a command of the walk does, and shows that command.

import { json } from "./api.js";
import { byId, compare, element, options, set } from "./dom.js";

const LETTERS = "abcdefghijklmnopqrstuvwxyz";

export class LabView {
  constructor(app) {
    this.app = app;
    this.result = byId("lab-result");
    this.zone = element("input", { id: "lab-zone", pattern: "[a-z0-9]([a-z0-9\\-]{0,30}[a-z0-9])?", required: true, spellcheck: "false" });
    this.nodes = element("input", { id: "lab-nodes", type: "number", min: 1, max: 50, value: 4, required: true });
    this.zones = element("select", { id: "lab-zones" });
    this.workload = element("select", { id: "lab-workload", onchange: () => this.take() });
    this.replicas = element("input", { id: "lab-replicas", type: "number", min: 0, max: 1000, value: 9, required: true });
    this.suggested = "";
    this.taken = "";
    byId("lab-controls").append(
      this.form("Scale", "scale", "As kubectl scale does; the map below follows.", [["Workload", this.workload], ["Replicas", this.replicas]], () => ({
        workload: this.workload.value,
        replicas: Number(this.replicas.value),
      })),
      this.form("Add a zone", "add-zone", "Nodes join the cluster; pods go there with the next scale-up.", [["Name", this.zone], ["Nodes", this.nodes]], () => ({
        zone: this.zone.value,
        nodes: Number(this.nodes.value),
      })),
      this.form("Fail a zone", "fail-zone", "Its nodes send no heartbeats: they are not ready after a while.", [["Zone", this.zones]], () => ({ zone: this.zones.value }), [
        ["Recover it", "recover-zone"],
      ]),
    );
  }

  form(title, action, hint, fields, body, others = []) {
    const buttons = [element("button", { type: "submit", text: title, "data-action": action })];
    for (const [label, other] of others) {
      buttons.push(element("button", { type: "button", class: "quiet", text: label, "data-action": other, onclick: () => this.act(other, body()) }));
    }
    const made = element(
      "form",
      { class: "card" },
      element("div", {}, element("h3", { text: title }), element("p", { class: "hint", text: hint })),
      element("div", { class: "fields" }, fields.map(([label, field]) => element("label", {}, label, field)), element("p", { class: "buttons" }, buttons)),
    );
    made.addEventListener("submit", (event) => {
      event.preventDefault();
      this.act(action, body());
    });
    return made;
  }

  async act(action, body) {
    set(this.result, "data-state", "working");
    set(this.result, "text", "working…");
    if (action === "scale" && body.workload !== this.app.view.workload) this.app.choose(body.workload);
    try {
      const answer = await json(`lab/${action}`, {}, { method: "POST", body });
      set(this.result, "data-state", "done");
      set(this.result, "text", answer.said);
    } catch (error) {
      set(this.result, "data-state", "failed");
      set(this.result, "text", error.message);
    }
  }

  // Takes the current size of the chosen workload into the field.
  take() {
    const row = this.app.stream.state.workloads.get(this.workload.value);
    this.taken = this.workload.value;
    if (row) this.replicas.value = String(row.overview.replicas);
  }

  render(state, view) {
    const zones = [...state.status.get("cluster").zones].sort(compare);
    options(this.zones, zones.map((name) => [name, name]), zones.includes(this.zones.value) ? this.zones.value : (zones[0] ?? ""));
    const workloads = [...state.workloads.keys()].sort(compare);
    const chosen = workloads.includes(this.workload.value) ? this.workload.value : view.workload || workloads[0] || "";
    options(this.workload, workloads.map((key) => [key, key]), chosen);
    if (this.taken !== this.workload.value) this.take();
    if (this.zone.value === this.suggested) this.suggest(new Set(zones));
  }

  // Proposes a name that no zone has yet, until another one is typed.
  suggest(zones) {
    const letter = [...LETTERS].find((each) => !zones.has(`zone-${each}`)) ?? "z";
    this.suggested = `zone-${letter}`;
    if (this.zone.value !== this.suggested) this.zone.value = this.suggested;
  }
}
