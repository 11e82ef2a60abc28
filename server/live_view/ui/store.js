// What a reload keeps: the chat and its settings, in this tab alone and only as long as the tab is open.

const CHAT = "hydrant.chat";
const SETTINGS = "hydrant.settings";

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

export const keptSettings = () => read(SETTINGS) ?? {};
export const keepSettings = (settings) => write(SETTINGS, settings);
