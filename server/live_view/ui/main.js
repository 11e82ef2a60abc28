// Puts the page together: which model, which settings, and who tells whom.

import { getJson } from "./api.js";
import { Chat } from "./chat.js";
import { CurlDialog } from "./curl.js";
import { find } from "./dom.js";
import { Memory } from "./memory.js";
import { patiently } from "./patience.js";
import { Settings } from "./settings.js";
import { keptChat } from "./store.js";

function showError(text) {
  find("chat-error").textContent = text;
  find("chat-error").hidden = text === "";
}

function isBeside(dialog, { clientX: x, clientY: y }) {
  const { left, right, top, bottom } = dialog.getBoundingClientRect();
  return x < left || x > right || y < top || y > bottom;
}

// Dialogs open from their buttons; they close with their own, with Escape, or with a click beside them that began there.
function serveDialogs() {
  find("show-settings").addEventListener("click", () => find("settings-dialog").showModal());
  for (const dialog of document.querySelectorAll("dialog")) {
    let pressed = null;
    dialog.addEventListener("pointerdown", (event) => (pressed = event));
    dialog.addEventListener("click", (event) => {
      const is_beside = event.target === dialog && pressed !== null && [pressed, event].every((at) => isBeside(dialog, at));
      if (is_beside || event.target.closest("[data-close]")) dialog.close();
    });
  }
}

async function start() {
  const memory = new Memory();
  const settings = new Settings(() => memory.preview(settings.budget));
  memory.preview(settings.budget);
  settings.show();
  serveDialogs();
  const models = await patiently(() => getJson("/v1/models"), {
    onWait: (error, left) => showError(error === null ? "" : `${error.message} Asking again in ${left} s.`),
  });
  const [model] = models.data;
  find("model").textContent = find("model").title = model.id;
  settings.know(model);
  memory.know(model);
  memory.preview(settings.budget);
  const chat = new Chat({
    model: model.id,
    settings,
    onTurn: (session) => memory.begin(session, settings.recalls),
    onEnd: (by_itself) => memory.end(by_itself),
    onRenew: () => memory.reset(),
  });
  memory.onLook = (kv, is_old) => chat.look(kv, is_old);
  const kept = keptChat();
  if (kept) chat.restore(kept);
  new CurlDialog(() => chat.nextRequest());
  // Where there is no keyboard yet, the focus would bring up one that covers the page.
  if (matchMedia("(min-width: 960px)").matches) find("say").focus();
  // Of a session that is another tab's this one has the words alone.
  if (kept && (await chat.claimed) && kept.messages.length > 0 && !chat.busy && chat.session === kept.session) memory.look(kept.session);
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => showError(error.message));
