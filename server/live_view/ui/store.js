// What a reload keeps: the chat and its settings, in this tab alone and only as long as the tab is open. And whose a session is: a tab
// that was duplicated begins with a copy of all of it.

const CHAT = "hydrant.chat";
const SETTINGS = "hydrant.settings";
const CLAIM_MS = 3000; // a page that was reloaded has let go of its session by then

function read(name) {
  try {
    return JSON.parse(sessionStorage.getItem(name));
  } catch {
    return null; // not ours
  }
}

// A chat too long for the browser's few megabytes is not kept, nor is half of it.
function write(name, value) {
  try {
    sessionStorage.setItem(name, JSON.stringify(value));
  } catch {
    sessionStorage.removeItem(name);
  }
}

const isCall = (call) => [call?.id, call?.function?.name, call?.function?.arguments].every((text) => typeof text === "string");
const isMessage = (message) => {
  const { role, content, calls = [], stopped = false, cut = false, nothing = "", note = "" } = message ?? {};
  return ["user", "assistant"].includes(role) && [content, nothing, note].every((text) => typeof text === "string")
    && [stopped, cut].every((is) => typeof is === "boolean") && Array.isArray(calls) && calls.every(isCall);
};

// {session, messages: [{role, content, calls, stopped, cut, nothing, note}], draft, beginning}, or null.
export function keptChat() {
  const chat = read(CHAT);
  const is_chat = typeof chat?.session === "string" && /^[\w-]{1,64}$/.test(chat.session) && Array.isArray(chat.messages);
  return is_chat && chat.messages.every(isMessage) ? { ...chat, draft: typeof chat.draft === "string" ? chat.draft : "" } : null;
}
export const keepChat = (chat) => write(CHAT, chat);

let leave = () => {};

// Whether the session is this page's, and none of another that is open. The one that the page had before is left. Over connections
// that the browser does not trust nobody can say, and it is.
export function claim(session) {
  leave();
  const left = new Promise((resolve) => (leave = resolve));
  return new Promise((resolve) => {
    if (!navigator.locks) return resolve(true);
    navigator.locks.request(`hydrant.${session}`, { signal: AbortSignal.timeout(CLAIM_MS) }, () => {
      resolve(true);
      return left;
    }).catch((error) => resolve(error.name !== "TimeoutError"));
  });
}

export const keptSettings = () => read(SETTINGS) ?? {};
export const keepSettings = (settings) => write(SETTINGS, settings);
