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

// Dialogs open from their buttons; they close with their own, with Escape, or with a click beside them.
function serveDialogs() {
  find("show-settings").addEventListener("click", () => find("settings-dialog").showModal());
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
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
  const chat = new Chat({
    model: model.id,
    settings,
    onTurn: (session) => memory.begin(session, settings.recalls),
    onEnd: (by_itself) => memory.end(by_itself),
    onRenew: () => memory.reset(),
  });
  memory.onLook = (kv, is_old) => chat.look(kv, is_old);
  const kept = keptChat();
  if (kept && chat.restore(kept)) memory.look(kept.session);
  new CurlDialog(() => chat.nextRequest());
  // Where there is no keyboard yet, the focus would bring up one that covers the page.
  if (matchMedia("(min-width: 960px)").matches) find("say").focus();
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => showError(error.message));
