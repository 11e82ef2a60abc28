// The server as the page sees it: the same endpoints any client has.

import { find } from "./dom.js";

const KEY = "hydrant.key";

export class ApiError extends Error {
  constructor(status, message, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

let waiting = null; // who waits for a key

function headers() {
  const key = sessionStorage.getItem(KEY);
  return key ? { Authorization: `Bearer ${key}` } : {};
}

async function errorOf(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // Not ours: a proxy's, perhaps.
  }
  return new ApiError(response.status, error.message ?? `The server answered ${response.status}.`, error.code ?? null);
}

// Shows the form for the key; resolves when one was given.
function askForKey(refused) {
  find("key-form").hidden = false;
  find("key-error").textContent = refused;
  find("key").focus();
  waiting ??= new Promise((resolve) => {
    find("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, find("key").value.trim());
      find("key").value = "";
      find("key-form").hidden = true;
      waiting = null;
      resolve();
    }, { once: true });
  });
  return waiting;
}

async function ask(path, options = {}) {
  while (true) {
    let response;
    try {
      response = await fetch(path, { ...options, headers: { ...headers(), ...options.headers } });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, "The server does not answer.", null);
    }
    if (response.ok) return response;
    const error = await errorOf(response);
    if (response.status !== 401) throw error;
    await askForKey(sessionStorage.getItem(KEY) ? error.message : "");
  }
}

export const getJson = async (path) => (await ask(path)).json();

export const forget = (session) => ask(`/v1/sessions/${session}`, { method: "DELETE" });

// The parsed events of a streamed POST, one by one. An error inside the stream is thrown like any other.
export async function* stream(path, body, signal) {
  const response = await ask(path, {
    method: "POST",
    body: JSON.stringify({ ...body, stream: true }),
    headers: { "Content-Type": "application/json" },
    signal,
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  while (true) {
    const { value, done } = await reader.read();
    if (done) throw new ApiError(0, "The connection ended before the answer did.", null);
    pending += value;
    for (let end = pending.indexOf("\n\n"); end >= 0; end = pending.indexOf("\n\n")) {
      const data = pending.slice("data: ".length, end);
      pending = pending.slice(end + 2);
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new ApiError(200, event.error.message, event.error.code);
      yield event;
    }
  }
}
