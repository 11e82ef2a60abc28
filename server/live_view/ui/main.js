// Puts the page together: which model, which settings, and who tells whom.

import { getJson } from "./api.js";
import { Chat, POLICIES } from "./chat.js";
import { find, make, whole } from "./dom.js";
import { Memory } from "./memory.js";

const BUDGETS = [32, 64, 128, 256, 512, 1024, 2048];
const LENGTHS = [60, 120, 240, 480, 960];

function choices(id, values, chosen, text = whole) {
  for (const value of values) {
    find(id).append(make("option", { value, selected: value === chosen }, text(value)));
  }
}

function hint(memory) {
  const policy = find("policy").value;
  memory.preview(policy === "full" ? null : Number(find("budget").value));
  find("budget").disabled = policy === "full";
  find("hint").textContent =
    policy === "full"
      ? "Keeps everything: nothing is dropped, and memory grows with the chat."
      : `Every head keeps ${find("budget").value} tokens: ${POLICIES[policy]}${policy === "sinks" || policy === "window" ? "" : ", and the newest"}.`;
}

async function start() {
  choices("policy", Object.keys(POLICIES), "h2o", (name) => name);
  choices("budget", BUDGETS, 128);
  choices("length", LENGTHS, 240, (value) => `${value} tokens`);
  const memory = new Memory();
  find("settings").addEventListener("change", () => hint(memory));
  find("settings").addEventListener("submit", (event) => event.preventDefault());
  hint(memory);
  const [model] = (await getJson("/v1/models")).data;
  find("model").textContent = model.id;
  new Chat({
    model: model.id,
    onTurn: (session) => memory.begin(session),
    onEnd: () => memory.end(),
    onRenew: () => memory.reset(),
  });
  // Where there is no keyboard yet, the focus would bring up one that covers the page.
  if (matchMedia("(min-width: 960px)").matches) find("say").focus();
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  find("chat-error").textContent = error.message;
  find("chat-error").hidden = false;
});
