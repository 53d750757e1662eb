// Requests to the server of this page, with the token if one was given.

const KEY = "trimtab-token";

export class Unauthenticated extends Error {}

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (text) => sessionStorage.setItem(KEY, text),
  clear: () => sessionStorage.removeItem(KEY),
};

function headers() {
  const text = token.get();
  return text ? { Authorization: `Bearer ${text}` } : {};
}

export async function request(path, parameters = {}, { signal, method = "GET", body } = {}) {
  const query = new URLSearchParams(parameters);
  const answer = await fetch(`api/${path}?${query}`, {
    signal,
    method,
    body: body === undefined ? undefined : JSON.stringify(body),
    headers: body === undefined ? headers() : { ...headers(), "Content-Type": "application/json" },
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
  });
  if (answer.ok) return answer;
  const reason = await answer.json().then(
    (tree) => tree.error,
    () => `${answer.status} ${answer.statusText}`,
  );
  if (answer.status === 401) throw new Unauthenticated(reason);
  throw new Error(reason);
}

export async function json(path, parameters, settings) {
  return (await request(path, parameters, settings)).json();
}
