// Nodes of a large cluster: a cell for each, drawn on a canvas; the table beside it has the numbers.

import { element, plural, set } from "./dom.js";

const CELL = 12;
const GAP = 2;

export function drawNodes(card, nodes, hasChoice) {
  const parts = card.parts;
  if (!parts.canvas) {
    parts.canvas = element("div", { class: "canvas" });
    parts.surface = element("canvas", { role: "img", tabindex: "0" });
    parts.canvas.append(parts.surface);
    card.append(parts.canvas);
    parts.surface.addEventListener("pointermove", (event) => point(card, event));
    parts.surface.addEventListener("keydown", (event) => step(card, event));
    new ResizeObserver(() => draw(card)).observe(parts.canvas);
  }
  card.shown = { nodes, hasChoice };
  const used = nodes.filter(([, node]) => (hasChoice ? node.chosen : node.pods)).length;
  const down = nodes.filter(([, node]) => node.ready === false).length;
  const what = hasChoice ? "pods of the chosen workload" : "pods";
  set(parts.surface, "aria-label", `${plural(nodes.length, "node")}: ${used} with ${what}, ${down} not ready. Arrow keys name single nodes.`);
  draw(card);
}

function draw(card) {
  const { surface, canvas } = card.parts;
  if (!surface || !card.shown) return;
  const { nodes, hasChoice } = card.shown;
  const width = canvas.clientWidth || 200;
  const columns = Math.max(1, Math.floor(width / (CELL + GAP)));
  const height = Math.ceil(nodes.length / columns) * (CELL + GAP);
  const scale = window.devicePixelRatio || 1;
  if (surface.width !== Math.round(width * scale) || surface.height !== Math.round(height * scale)) {
    surface.width = Math.round(width * scale);
    surface.height = Math.round(height * scale);
    surface.style.setProperty("height", `${height}px`);
  }
  card.columns = columns;
  const style = getComputedStyle(card);
  const colours = ["--cell-empty", "--cell-few", "--cell-some", "--cell-many", "--cell-down", "--ring"].map((name) => style.getPropertyValue(name));
  const most = Math.max(1, ...nodes.map(([, node]) => (hasChoice ? (node.chosen ?? 0) : (node.pods ?? 0))));
  const context = surface.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  nodes.forEach(([, node], index) => {
    const count = hasChoice ? (node.chosen ?? 0) : (node.pods ?? 0);
    const level = count === 0 ? 0 : 1 + Math.min(2, Math.floor((3 * (count - 0.01)) / most));
    context.fillStyle = node.ready === false ? colours[4] : colours[level];
    context.beginPath();
    context.roundRect((index % columns) * (CELL + GAP), Math.floor(index / columns) * (CELL + GAP), CELL, CELL, 3);
    context.fill();
    if (index === card.at) {
      context.strokeStyle = colours[5];
      context.lineWidth = 2;
      context.stroke();
    }
  });
}

function point(card, event) {
  const box = card.parts.surface.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left) / (CELL + GAP));
  const row = Math.floor((event.clientY - box.top) / (CELL + GAP));
  if (column < card.columns) say(card, row * card.columns + column);
}

function step(card, event) {
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: card.columns, ArrowUp: -card.columns };
  if (!(event.key in steps)) return;
  event.preventDefault();
  say(card, Math.max(0, Math.min(card.shown.nodes.length - 1, (card.at ?? -1) + steps[event.key])));
}

function say(card, index) {
  const entry = card.shown.nodes[index];
  if (!entry || index === card.at) return;
  card.at = index;
  const [name, node] = entry;
  const chosen = card.shown.hasChoice ? `, ${node.chosen ?? 0} of the chosen workload` : "";
  const note = node.ready === false ? ", not ready" : node.schedulable === false ? ", cordoned" : "";
  document.getElementById("explanation").textContent = `${name}: ${plural(node.pods ?? 0, "pod")}${chosen}${note}`;
  draw(card);
}
