// The page: which view is shown, where its state comes from, and when it is drawn.

import { token } from "./api.js";
import { DecisionsView } from "./decisions.js";
import { byId, compare, element, plural, reconcile, set } from "./dom.js";
import { LabView } from "./lab.js";
import { MapView } from "./map.js";
import { PlanView } from "./plan.js";
import { Stream } from "./stream.js";
import { TopologiesView } from "./topologies.js";
import * as url from "./url.js";
import { WorkloadsView } from "./workloads.js";

const TABS = ["map", "workloads", "decisions", "topologies", "lab"];

class App {
  constructor() {
    this.view = url.read();
    this.isScheduled = false;
    this.opened = null;
    this.stream = new Stream({
      onChange: () => this.draw(),
      onConnection: (text) => this.connection(text),
      onUnauthenticated: (reason) => this.signIn(reason),
    });
    this.plan = new PlanView(this);
    this.views = {
      map: new MapView(this),
      workloads: new WorkloadsView(this),
      decisions: new DecisionsView(this),
      topologies: new TopologiesView(),
      lab: new LabView(this),
    };
    for (const link of document.querySelectorAll("[data-tab]")) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        this.change({ tab: link.dataset.tab }, { push: true });
      });
    }
    window.addEventListener("popstate", () => {
      this.view = url.read();
      this.connect();
      this.draw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    byId("signin-form").addEventListener("submit", (event) => {
      event.preventDefault();
      token.set(byId("token").value);
      byId("token").value = "";
      byId("signin").hidden = true;
      this.opened = null;
      this.connect();
    });
    this.connect();
    this.draw();
  }

  connect() {
    const parameters = { workload: this.view.workload, key: this.view.key };
    const asked = JSON.stringify(parameters);
    if (asked === this.opened) return;
    this.opened = asked;
    this.stream.open(parameters);
  }

  change(changes, settings) {
    Object.assign(this.view, changes);
    url.write(this.view, settings);
    this.connect();
    this.draw();
  }

  choose(workload, more = {}) {
    this.change({ workload, replicas: "", ...more }, { push: true });
  }

  planned() {
    this.draw();
  }

  connection(text) {
    const status = this.stream.state.status.get("cluster");
    const shown = text === "live" && status && !status.live ? "file" : text;
    const badge = byId("connection");
    set(badge, "text", shown);
    set(badge, "data-state", shown);
  }

  signIn(reason) {
    this.opened = null;
    token.clear();
    this.connection("signed out");
    set(byId("signin-reason"), "text", reason);
    byId("signin").hidden = false;
    byId("token").focus();
    this.draw();
  }

  // Draws with the next frame, however many changes have come.
  draw() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      this.render();
    });
  }

  render() {
    const { state } = this.stream;
    const isSignedOut = !byId("signin").hidden;
    const status = state.status.get("cluster");
    const lab = document.querySelector('[data-tab="lab"]');
    lab.hidden = !status?.lab;
    const tab = TABS.includes(this.view.tab) ? this.view.tab : "map";
    const shown = tab === "lab" ? ["lab", "map"] : [tab];
    for (const link of document.querySelectorAll("[data-tab]")) {
      set(link, "aria-current", link.dataset.tab === tab ? "page" : null);
    }
    for (const section of document.querySelectorAll("[data-view]")) section.hidden = isSignedOut || !status || !shown.includes(section.id);
    this.summary(status);
    if (!status || isSignedOut) return;
    if (!this.view.workload && state.workloads.size) {
      this.change({ workload: first(state.workloads) });
      return;
    }
    this.plan.update(state, this.view);
    for (const name of shown) this.views[name].render(state, this.view, this.plan.plan);
    document.body.dataset.drawn = String(Number(document.body.dataset.drawn ?? 0) + 1);
  }

  summary(status) {
    const parts = status ? [status.origin, plural(status.nodes, "node"), plural(status.pods, "pod"), plural(status.workloads, "workload")] : [];
    set(byId("cluster"), "text", parts.join(" · "));
    document.title = status ? `Trimtab: ${status.origin}` : "Trimtab";
    const notices = status ? [...status.gaps, ...status.problems] : [];
    reconcile(byId("notices"), notices, (text) => element("p", { class: "notice", text }));
  }
}

// Without a choice, the workload that is the least level; of equal ones the largest.
function first(workloads) {
  const lead = (row) => Math.max(0, ...row.overview.constraints.map((each) => each.skew - each.maxSkew));
  const order = ([key, row], [otherKey, other]) => lead(other) - lead(row) || other.overview.pods - row.overview.pods || compare(key, otherKey);
  return [...workloads].sort(order)[0][0];
}

window.trimtab = new App();
