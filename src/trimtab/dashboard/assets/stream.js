// The state of the cluster: sent once, then its differences, as server-sent events. They are read with fetch, because
// an EventSource cannot send a token.

import { request, Unauthenticated } from "./api.js";

const FIRST_DELAY = 500;
const LONGEST_DELAY = 10000;

export function emptyState() {
  return { status: new Map(), nodes: new Map(), pods: new Map(), workloads: new Map(), decisions: new Map(), topologies: new Map() };
}

export class Stream {
  constructor({ onChange, onConnection, onUnauthenticated }) {
    this.state = emptyState();
    this.versions = {};
    this.bytes = 0;
    this.onChange = onChange;
    this.onConnection = onConnection;
    this.onUnauthenticated = onUnauthenticated;
    this.controller = null;
  }

  open(parameters) {
    this.controller?.abort();
    this.controller = new AbortController();
    this.run(parameters, this.controller.signal);
  }

  async run(parameters, signal) {
    let delay = FIRST_DELAY;
    while (!signal.aborted) {
      try {
        const answer = await request("events", parameters, { signal });
        for await (const [name, content] of events(answer.body, (size) => (this.bytes += size))) {
          if (signal.aborted) return;
          this.receive(name, content);
          this.onConnection("live");
          delay = FIRST_DELAY;
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Unauthenticated) {
          this.state = emptyState();
          this.onUnauthenticated(error.message);
          return;
        }
      }
      if (signal.aborted) return;
      this.onConnection("reconnecting");
      await new Promise((resolve) => setTimeout(resolve, delay));
      delay = Math.min(2 * delay, LONGEST_DELAY);
    }
  }

  receive(name, content) {
    if (name === "state") {
      const state = emptyState();
      for (const [section, rows] of Object.entries(content)) state[section] = new Map(Object.entries(rows));
      this.state = state;
      this.changed(Object.keys(state));
    } else if (name === "change") {
      for (const [section, { set, gone }] of Object.entries(content)) {
        for (const [key, row] of Object.entries(set)) this.state[section].set(key, row);
        for (const key of gone) this.state[section].delete(key);
      }
      this.changed(Object.keys(content));
    }
  }

  // Counts the changes of each section, so that what has not changed is not drawn again.
  changed(sections) {
    for (const section of sections) this.versions[section] = (this.versions[section] ?? 0) + 1;
    this.onChange();
  }
}

// Events from a stream of bytes; comments are skipped.
export async function* events(body, count = () => {}) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    while (true) {
      const { value, done } = await reader.read();
      if (done) return;
      count(value.length);
      text += value;
      const pieces = text.split("\n\n");
      text = pieces.pop();
      for (const piece of pieces) {
        const fields = Object.fromEntries(piece.split("\n").map(field));
        if (fields.data) yield [fields.event, JSON.parse(fields.data)];
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function field(line) {
  const at = line.indexOf(": ");
  return at > 0 ? [line.slice(0, at), line.slice(at + 2)] : ["", ""];
}
