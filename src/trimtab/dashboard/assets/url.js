// What the page shows is in its address: a copied link shows the same.

const FIELDS = ["tab", "workload", "replicas", "key", "filter", "sort"];

export function read() {
  const query = new URLSearchParams(location.search);
  return Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]));
}

export function write(view, { push = false } = {}) {
  const query = new URLSearchParams();
  for (const name of FIELDS) {
    if (view[name]) query.set(name, view[name]);
  }
  const address = `?${query}`;
  if (address === location.search) return;
  if (push) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}
