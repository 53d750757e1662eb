// Elements. Text is always set as text: names of objects are never read as markup.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    set(made, key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

export function set(target, key, value) {
  if (key === "text") {
    if (target.textContent !== value) target.textContent = value;
  } else if (key.startsWith("on")) {
    target.addEventListener(key.slice(2), value);
  } else if (value === false || value === null || value === undefined) {
    target.removeAttribute(key);
  } else {
    const text = value === true ? "" : String(value);
    if (target.getAttribute(key) !== text) target.setAttribute(key, text);
  }
}

export function byId(id) {
  return document.getElementById(id);
}

// Keeps the children of an element equal to a list of keys, reusing what is there: focus and animations survive.
export function reconcile(parent, keys, make, update) {
  const known = parent.children_by_key ?? (parent.children_by_key = new Map());
  const wanted = new Set(keys);
  for (const [key, child] of known) {
    if (!wanted.has(key)) {
      child.remove();
      known.delete(key);
    }
  }
  let at = parent.firstElementChild;
  for (const key of keys) {
    let child = known.get(key);
    if (child === undefined) {
      child = make(key);
      known.set(key, child);
    }
    if (child !== at) {
      parent.insertBefore(child, at);
    } else {
      at = at.nextElementSibling;
    }
    update?.(child, key);
  }
  return known;
}

export function options(select, entries, chosen) {
  const text = JSON.stringify(entries);
  if (select.dataset.entries !== text) {
    select.dataset.entries = text;
    select.replaceChildren(...entries.map(([value, label]) => element("option", { value, text: label })));
  }
  if (select.value !== chosen) select.value = chosen;
}

export function shortKey(key) {
  return key.slice(key.lastIndexOf("/") + 1);
}

export function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

const ORDER = new Intl.Collator("en", { numeric: true });

export function compare(one, other) {
  return ORDER.compare(one, other);
}

// A short text for a time of today, a long one for others.
export function clock(time) {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return "";
  return at.toDateString() === new Date().toDateString() ? at.toLocaleTimeString("en-GB") : at.toLocaleString("en-GB");
}
