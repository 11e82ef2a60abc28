// The server as the page sees it: the same endpoints any client has.

import { find } from "./dom.js";

const KEY = "hydrant.key";
const isKey = (text) => /^[\x21-\x7e]+$/.test(text); // a browser sends nothing with others in its head
export const keyNow = () => {
  const key = sessionStorage.getItem(KEY) ?? "";
  return isKey(key) ? key : null;
};

// How the server ends an answer that is no whole one.
const STOPPED = ["abort", "error"];

export class ApiError extends Error {
  // `retry_after`: seconds, where the server says that the same may be asked again then; else null.
  constructor(status, message, code, retry_after = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.retry_after = retry_after;
  }
}

const cutOff = () => new ApiError(0, "The connection ended before the answer did.", null);

let waiting = null; // who waits for a key

async function errorOf(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // Not ours: a proxy's, perhaps.
  }
  const after = response.headers.get("Retry-After") ?? "";
  const retry_after = /^\d{1,6}$/.test(after) ? Number(after) : null;
  return new ApiError(response.status, error.message ?? `The server answered ${response.status}.`, error.code ?? null, retry_after);
}

// Shows the form for the key; resolves when one was given. One form for all who wait, so it stays when one of them gives up.
function askForKey(refused) {
  find("key-form").hidden = false;
  find("key-error").textContent = refused;
  find("key").focus();
  waiting ??= new Promise((resolve) => {
    find("key-form").onsubmit = (event) => {
      event.preventDefault();
      const key = find("key").value.trim();
      if (!isKey(key)) {
        find("key-error").textContent = "A key has only plain characters.";
        return;
      }
      sessionStorage.setItem(KEY, key);
      find("key").value = "";
      find("key-form").hidden = true;
      waiting = null;
      resolve();
    };
  });
  return waiting;
}

// Rejects, as fetch does, when the signal says stop; never resolves.
const stopped = (signal) => new Promise((_, reject) => {
  if (signal?.aborted) reject(signal.reason);
  else signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
});

async function ask(path, options = {}) {
  while (true) {
    const key = keyNow();
    const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    let response;
    try {
      response = await fetch(path, { ...options, headers });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, "The server does not answer.", null);
    }
    if (response.ok) return response;
    const error = await errorOf(response);
    if (response.status !== 401) throw error;
    if (key !== keyNow()) continue; // another one was given meanwhile
    await Promise.race([askForKey(key ? error.message : ""), stopped(options.signal)]);
  }
}

export const getJson = async (path) => (await ask(path)).json();

// What names a session does so in this header, whatever its path says: balancers read headers, and keep a session at the server
// that has its KV.
const ofSession = (session) => ({ "X-Session-ID": session });

export const cacheOf = async (session, query) =>
  (await ask(`/v1/sessions/${session}/kv?${new URLSearchParams(query)}`, { headers: ofSession(session) })).json();

export const forget = (session) => ask(`/v1/sessions/${session}`, { method: "DELETE", headers: ofSession(session) });

// A session's streamed POST, up to the head of its answer.
export const post = (path, session, body, signal) => ask(path, {
  method: "POST",
  body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
  headers: { "Content-Type": "application/json", ...ofSession(session) },
  signal,
});

// Its parsed events, one by one. An error inside the stream is thrown like any other, an answer that the server stopped after its
// last event.
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  let stopped = false;
  while (true) {
    const { value, done } = await reader.read().catch((error) => {
      throw error.name === "AbortError" ? error : cutOff();
    });
    if (done) throw cutOff();
    pending += value;
    for (let end = pending.indexOf("\n\n"); end >= 0; end = pending.indexOf("\n\n")) {
      const event_text = pending.slice(0, end);
      pending = pending.slice(end + 2);
      if (!event_text.startsWith("data: ")) continue; // a comment: there is nothing to say at present
      const data = event_text.slice("data: ".length);
      if (data === "[DONE]") {
        if (stopped) throw new ApiError(200, "The server stopped before the answer ended.", null);
        return;
      }
      const event = JSON.parse(data);
      if (event.error) throw new ApiError(200, event.error.message, event.error.code);
      stopped ||= (event.choices ?? []).some(({ finish_reason }) => STOPPED.includes(finish_reason));
      yield event;
    }
  }
}
