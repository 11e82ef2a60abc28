// How the next turn is computed: what the cache keeps, the system prompt, sampling. Kept over a reload (store.js).

import { find, make, plural, size, whole } from "./dom.js";
import { keepSettings, keptSettings } from "./store.js";

// What each policy is called, and what it keeps. Those for chats first.
export const POLICIES = {
  auto: ["Sentences asked for", "the sentences that your message points at, what the text uses most, and the newest"],
  "h2o-plus": ["Useful lately", "what the last 64 tokens looked at most, and the newest"],
  h2o: ["Useful so far", "what all of the text looked at most, and the newest"],
  "h2o-decay": ["Useful so far, fading", "what the text looked at most, forgetting slowly, and the newest"],
  snapkv: ["Useful to your message", "what the end of your message looked at, and the newest"],
  sinks: ["First four and newest", "the first four and the newest"],
  window: ["Newest only", "the newest only"],
  full: ["Everything", ""],
};
const BUDGETS = [32, 64, 128, 256, 512, 1024, 2048, 4096];
const RECALLS = { off: "Off", turn: "With each message" };
// Those whose turns leave what the next one recalls; with the others it is computed again.
const LEAVING = ["auto", "h2o"];
const LENGTHS = [60, 120, 240, 480, 960, 1920];
const BLOCK_TOKENS = 16;

const DEFAULTS = { policy: "auto", budget: "128", recall: "off", length: "240", system: "", temperature: "0.7", "top-p": "1", seed: "", schema: "", tools: "" };

const EXAMPLES = {
  schema: {
    type: "object",
    properties: { mood: { enum: ["calm", "merry", "sad"] }, stars: { type: "integer", minimum: 1, maximum: 5 } },
    required: ["mood", "stars"],
    additionalProperties: false,
  },
  tools: {
    name: "weather",
    description: "The weather of a place now.",
    parameters: { type: "object", properties: { place: { type: "string" } }, required: ["place"] },
  },
};

// What stands in a field as JSON: null where it is empty, undefined where it is none.
function jsonIn(name) {
  const text = find(name).value.trim();
  if (text === "") return null;
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

const TEMPERATURES = [[0, "always the likeliest word"], [0.5, "careful"], [0.9, "balanced"], [1.3, "lively"], [2, "wild"]];
const temperatureText = (value) => `${value}: ${TEMPERATURES.find(([up_to]) => value <= up_to)[1]}`;
const topPText = (value) => (value === 1 ? "1: all words" : `${value}: the likeliest words, together ${Math.round(100 * value)} %`);

export class Settings {
  // `onChange()`: something else is chosen.
  constructor(onChange) {
    this.onChange = onChange;
    this.model = null;
    this.defaults = { ...DEFAULTS };
    this.asked = null; // what the last turn of this chat was computed with
    for (const [name, [title]] of Object.entries(POLICIES)) {
      find("policy").append(make("option", { value: name }, `${title} (${name})`));
    }
    for (const value of BUDGETS) find("budget").append(make("option", { value }, `${whole(value)} tokens`));
    for (const [value, title] of Object.entries(RECALLS)) find("recall").append(make("option", { value }, title));
    for (const value of LENGTHS) find("length").append(make("option", { value }, `at most ${whole(value)} tokens`));
    this.set({ ...this.defaults, ...keptSettings() });
    for (const name of Object.keys(DEFAULTS)) find(name).addEventListener("input", () => this.changed());
    for (const name of ["policy", "budget", "recall", "length"]) find(name).addEventListener("change", () => this.changed());
    find("settings").addEventListener("submit", (event) => event.preventDefault());
    for (const [name, example] of Object.entries(EXAMPLES)) {
      find(`${name}-example`).addEventListener("click", () => {
        find(name).value = JSON.stringify(example, null, 2);
        this.changed();
      });
    }
    find("defaults").addEventListener("click", () => {
      this.set(this.defaults);
      this.changed();
    });
  }

  // What is not among a control's values leaves its default.
  set(values) {
    for (const [name, value] of Object.entries(this.defaults)) {
      find(name).value = value;
      if (typeof values[name] === "string") find(name).value = values[name];
      if (find(name).value === "" && value !== "") find(name).value = value;
    }
  }

  // The model's card of /v1/models: from here on budgets have a size, and what the server cannot do is not offered.
  know(model) {
    this.model = model;
    if (model.kv_recall in RECALLS) this.defaults.recall = model.kv_recall;
    if (keptSettings()?.recall === undefined) find("recall").value = this.defaults.recall;
    for (const option of find("policy").options) {
      option.hidden = option.disabled = model.kv_policies?.includes(option.value) === false;
    }
    if (find("policy").selectedOptions[0].disabled) {
      this.defaults.policy = [...find("policy").options].find((option) => !option.disabled).value;
      find("policy").value = this.defaults.policy;
    }
    const most = BUDGETS.findLast((value) => value <= (model.max_model_len ?? Infinity)) ?? BUDGETS[0];
    this.defaults.budget = String(Math.min(most, this.defaults.budget));
    if (Number(find("budget").value) > most) find("budget").value = most;
    for (const option of find("budget").options) {
      option.hidden = option.disabled = Number(option.value) > most;
      const bytes = this.bytesOf(Number(option.value) + 1);
      if (bytes > 0) option.textContent = `${whole(Number(option.value))} tokens · ${size(bytes)}`;
    }
    this.show();
  }

  // What so many tokens take in all layers and heads; 0: not known.
  bytesOf(tokens) {
    return Math.ceil(tokens / BLOCK_TOKENS) * (this.model?.kv_block_bytes ?? 0);
  }

  changed() {
    keepSettings(Object.fromEntries(Object.keys(DEFAULTS).map((name) => [name, find(name).value])));
    this.show();
    this.onChange();
  }

  get budget() {
    return find("policy").value === "full" ? null : Number(find("budget").value);
  }

  get kv() {
    const policy = find("policy").value;
    return this.budget === null ? { policy } : { policy, budget: this.budget, recall: find("recall").value };
  }

  get recalls() {
    return this.kv.recall === "turn";
  }

  get system() {
    return find("system").value.trim();
  }

  get seed() {
    const text = find("seed").value.trim();
    return /^\d{1,15}$/.test(text) ? Number(text) : null;
  }

  // A function is as OpenAI has it, or without what is around it there. Null: the model has none.
  get tools() {
    const said = jsonIn("tools");
    const tools = (Array.isArray(said) ? said : [said ?? null]).filter((tool) => tool !== null);
    return tools.length === 0 ? null : tools.map((tool) => (tool.function ? tool : { type: "function", function: tool }));
  }

  // The members of a request that are chosen here, but for the system prompt and the tools.
  members() {
    const body = { max_tokens: Number(find("length").value), temperature: Number(find("temperature").value) };
    if (Number(find("top-p").value) < 1) body.top_p = Number(find("top-p").value);
    if (this.seed !== null) body.seed = this.seed;
    const schema = jsonIn("schema");
    if (schema) body.response_format = { type: "json_schema", json_schema: { name: "answer", schema } };
    return { ...body, kv: this.kv };
  }

  // Cached tokens are of use to a turn with the same kv and the same beginning.
  get beginning() {
    return JSON.stringify([this.kv, this.system, this.tools]);
  }

  // A turn is computed with what is chosen now; null: the chat is a new one.
  remember(is_turn) {
    this.asked = is_turn ? this.beginning : null;
    this.show();
  }

  show() {
    find("budget").disabled = find("recall").disabled = this.budget === null;
    find("hint").textContent = [this.words(), this.asked !== null && this.asked !== this.beginning
      ? "Changed: with your next message the whole chat is read anew." : ""].join(" ").trim();
    find("temperature-text").textContent = temperatureText(Number(find("temperature").value));
    find("top-p-text").textContent = topPText(Number(find("top-p").value));
    for (const [name, words] of [["schema", "Answers are JSON of this schema. Empty: text."],
      ["tools", "When the model calls one, its call stands in the chat, and your next message is what it gives back."]]) {
      const wrong = jsonIn(name) === undefined;
      find(name).setAttribute("aria-invalid", String(wrong));
      find(`${name}-text`).textContent = wrong ? "This is no JSON yet, and is left out." : words;
    }
    find("seed").setAttribute("aria-invalid", String(find("seed").value.trim() !== "" && this.seed === null));
    find("seed-text").textContent = this.seed !== null ? "The same question gets the same answer."
      : find("seed").value.trim() === "" ? "Empty: another answer each time." : "A whole number, please.";
  }

  // What is kept, in a sentence.
  words() {
    const { budget } = this;
    if (budget === null) {
      const bytes = this.bytesOf(BLOCK_TOKENS) / BLOCK_TOKENS;
      return `Keeps everything${bytes > 0 ? `, ${size(bytes)} for each token` : ""}: nothing is dropped, and memory grows with the chat.`;
    }
    const context = this.model?.max_model_len ?? Infinity;
    if (budget >= context) return `The model's context is ${plural(context, "token")}: with this budget nothing is dropped.`;
    const bytes = this.bytesOf(budget + 1);
    const [policy, recalls] = [find("policy").value, find("recall").value === "turn"];
    const first = !recalls ? ""
      : ` Each message sees the whole chat before that is chosen${LEAVING.includes(policy) ? "" : ", and the chat is read anew for it"}.`;
    return `Every head keeps ${plural(budget, "token")}${bytes > 0 ? `, ${size(bytes)} in all` : ""}: ${POLICIES[policy][1]}.${first}`;
  }
}
