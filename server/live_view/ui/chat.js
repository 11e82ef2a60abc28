// The conversation: what was said, what is being answered, and how the request for it looks.

import { forget, stream } from "./api.js";
import { find, make } from "./dom.js";

export const POLICIES = {
  h2o: "what all of the text looked at most",
  "h2o-plus": "what the last 64 tokens looked at most",
  "h2o-decay": "as h2o, forgetting slowly",
  snapkv: "what the end of your message looked at",
  sinks: "the first four tokens and the newest",
  window: "the newest tokens only",
  full: "everything: nothing is dropped",
};

const SUGGESTIONS = [
  "Tell me a long story about a lighthouse keeper and the storm of the century.",
  "Explain how rain forms, step by step, as if I were ten.",
  "My name is Ada, I live in Lisbon and I keep bees. Write me a letter of introduction to my new neighbours.",
];

const LABELS = { user: "You", assistant: "Model" };

export class Chat {
  // `onTurn(session)` when a turn begins, `onEnd()` when it has ended.
  constructor({ model, onTurn, onEnd, onRenew }) {
    this.model = model;
    this.onTurn = onTurn;
    this.onEnd = onEnd;
    this.onRenew = onRenew;
    this.templated = true; // until the server says that the model has no chat template
    this.abort = null;
    this.renew();
    for (const text of SUGGESTIONS) {
      find("suggestions").append(make("button", { type: "button", class: "suggestion", onclick: () => this.say(text) }, text));
    }
    find("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.say(find("say").value);
    });
    find("say").addEventListener("input", () => this.fit());
    find("say").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      find("composer").requestSubmit();
    });
    find("stop").addEventListener("click", () => this.abort?.abort());
    find("renew").addEventListener("click", () => this.restart());
  }

  get busy() {
    return this.abort !== null;
  }

  renew() {
    const random = crypto.getRandomValues(new Uint8Array(9));
    this.session = `ui-${Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
    this.messages = [];
  }

  async restart() {
    this.abort?.abort();
    const old = this.messages.length > 0 ? this.session : null;
    this.renew();
    find("log").replaceChildren(find("welcome") ?? this.welcome);
    this.showError("");
    this.onRenew();
    find("say").focus();
    // What it keeps is of no use to anybody. A turn that was just cut off may still hold it; then it expires by itself.
    if (old) await forget(old).catch(() => {});
  }

  fit() {
    const field = find("say");
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight, 180)}px`;
  }

  showError(text) {
    find("chat-error").textContent = text;
    find("chat-error").hidden = text === "";
  }

  bubble(role, text) {
    if (find("welcome")) {
      this.welcome = find("welcome");
      this.welcome.remove();
    }
    const body = make("p", { class: "said" }, text);
    find("log").append(make("article", { class: `message ${role}` }, make("h3", {}, LABELS[role]), body));
    return body;
  }

  // The newest line stays in sight, unless the reader has scrolled away from it.
  follow(change) {
    const log = find("log");
    const at_end = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    change();
    if (at_end) log.scrollTop = log.scrollHeight;
  }

  request() {
    const policy = find("policy").value;
    const body = {
      model: this.model,
      max_tokens: Number(find("length").value),
      temperature: 0.7,
      kv: policy === "full" ? { policy } : { policy, budget: Number(find("budget").value) },
    };
    if (this.templated) return ["/v1/chat/completions", this.session, { ...body, messages: this.messages }];
    const lines = this.messages.map(({ role, content }) => `${role === "user" ? "User" : "Assistant"}: ${content}\n`);
    return ["/v1/completions", this.session, { ...body, prompt: `${lines.join("")}Assistant:`, stop: ["\nUser:"] }];
  }

  async say(text) {
    if (this.busy || text.trim() === "") return;
    this.abort = new AbortController();
    this.messages.push({ role: "user", content: text.trim() });
    find("say").value = "";
    this.fit();
    this.showError("");
    const question = this.bubble("user", text.trim());
    const answer = this.bubble("assistant", "");
    answer.classList.add("writing");
    find("log").scrollTop = find("log").scrollHeight;
    find("send").hidden = true;
    find("stop").hidden = false;
    this.onTurn(this.session);
    await this.receive(question, answer);
    this.end();
  }

  async receive(question, answer) {
    const messages = this.messages;
    let said = "";
    try {
      for await (const event of this.events()) {
        const piece = event.choices[0]?.delta?.content ?? event.choices[0]?.text ?? "";
        if (piece === "") continue;
        said += piece;
        this.follow(() => answer.append(piece));
      }
    } catch (error) {
      if (error.name === "AbortError") answer.classList.add("stopped");
      else this.showError(error.message);
    }
    answer.classList.remove("writing");
    if (said === "") this.takeBack(messages, question, answer);
    else messages.push({ role: "assistant", content: said });
  }

  // A turn without an answer is no part of the chat: the next one is not to be answered in its place, and what was said can be
  // sent again.
  takeBack(messages, question, answer) {
    const { content } = messages.pop();
    for (const body of [question, answer]) body.parentElement.remove();
    if (messages !== this.messages) return; // another chat has begun
    if (messages.length === 0) find("log").replaceChildren(this.welcome);
    if (find("say").value !== "") return;
    find("say").value = content;
    this.fit();
  }

  async *events() {
    try {
      yield* stream(...this.request(), this.abort.signal);
    } catch (error) {
      if (error.code !== "chat_template_missing") throw error;
      this.templated = false;
      yield* stream(...this.request(), this.abort.signal);
    }
  }

  end() {
    this.abort = null;
    find("send").hidden = false;
    find("stop").hidden = true;
    this.onEnd();
  }
}
