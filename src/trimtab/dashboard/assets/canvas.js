// Nodes of a large cluster: a cell for each, drawn on a canvas. A cell has the colour of the pod of the chosen workload
// that goes first of those on the node, and a ring where the plan deletes one.

import { element, plural, set } from "./dom.js";

const CELL = 12;
const GAP = 3;
const BANDS = 8;

export function drawNodes(card, cells, onPoint) {
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
  card.cells = cells;
  card.onPoint = onPoint;
  const used = cells.filter((cell) => cell.first).length;
  const down = cells.filter((cell) => cell.node.ready === false).length;
  const text = `${plural(cells.length, "node")}: ${used} with pods of the chosen workload, ${down} not ready. Arrow keys explain single nodes.`;
  set(parts.surface, "aria-label", text);
  draw(card);
}

function draw(card) {
  const { surface, canvas } = card.parts;
  if (!surface || !card.cells) return;
  const width = canvas.clientWidth || 200;
  const columns = Math.max(1, Math.floor((width + GAP) / (CELL + GAP)));
  const height = Math.ceil(card.cells.length / columns) * (CELL + GAP);
  const scale = window.devicePixelRatio || 1;
  if (surface.width !== Math.round(width * scale) || surface.height !== Math.round(height * scale)) {
    surface.width = Math.round(width * scale);
    surface.height = Math.round(height * scale);
    surface.style.setProperty("height", `${height}px`);
  }
  card.columns = columns;
  const colours = palette(card);
  const context = surface.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  card.cells.forEach((cell, index) => {
    const x = (index % columns) * (CELL + GAP);
    const y = Math.floor(index / columns) * (CELL + GAP);
    context.fillStyle = colourOf(cell, colours);
    context.beginPath();
    context.roundRect(x + 1, y + 1, CELL - 2, CELL - 2, 3);
    context.fill();
    if (index === card.at || cell.goes) {
      context.strokeStyle = index === card.at ? colours.ring : colours.goes;
      context.lineWidth = 2;
      context.beginPath();
      context.roundRect(x, y, CELL, CELL, 4);
      context.stroke();
    }
  });
}

function palette(card) {
  const style = getComputedStyle(card);
  const value = (name) => style.getPropertyValue(name);
  return {
    bands: Array.from({ length: BANDS }, (_, index) => value(`--band-${index}`)),
    empty: value("--cell-empty"),
    unranked: value("--other"),
    down: value("--cell-down"),
    ring: value("--text"),
    goes: value("--bad"),
  };
}

function colourOf(cell, colours) {
  if (cell.node.ready === false) return colours.down;
  if (!cell.first) return colours.empty;
  return cell.band === null ? colours.unranked : colours.bands[cell.band];
}

function point(card, event) {
  const box = card.parts.surface.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left) / (CELL + GAP));
  const row = Math.floor((event.clientY - box.top) / (CELL + GAP));
  if (column < card.columns) explain(card, row * card.columns + column);
}

function step(card, event) {
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: card.columns, ArrowUp: -card.columns };
  if (!(event.key in steps)) return;
  event.preventDefault();
  explain(card, Math.max(0, Math.min(card.cells.length - 1, (card.at ?? -1) + steps[event.key])));
}

function explain(card, index) {
  const cell = card.cells[index];
  if (!cell || index === card.at) return;
  card.at = index;
  const { name, node } = cell;
  const note = node.ready === false ? ", not ready" : node.schedulable === false ? ", cordoned" : "";
  const goes = cell.goes ? `, ${cell.goes} deleted at this size` : "";
  card.onPoint(`${name}: ${plural(node.pods ?? 0, "pod")}, ${node.chosen ?? 0} of the chosen workload${goes}${note}`, cell.first?.[0]);
  draw(card);
}
