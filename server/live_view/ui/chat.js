// The conversation: what was said, what is being answered, and how the request for it looks.

import { eventsOf, forget, post } from "./api.js";
import { copyButton, find, make, plural } from "./dom.js";
import { Message } from "./message.js";
import { patiently, pause } from "./patience.js";
import { claim, keepChat } from "./store.js";

const SUGGESTIONS = [
  "Tell me a long story about a lighthouse keeper and the storm of the century.",
  "Explain how rain forms, step by step, as if I were ten.",
  "My name is Ada, I live in Lisbon and I keep bees. Write me a letter of introduction to my new neighbours.",
];

// A turn that a reload cut off holds its session for a moment. Who still holds it after that is another tab with the same chat, where
// the browser cannot tell (store.js).
const BUSY_TRIES = 4;
const BUSY_MS = 400;

// What is shown of an answer: its text, then each call as code.
const withCalls = (content, calls = []) =>
  [content, ...calls.map(({ function: { name, arguments: given } }) => `\`\`\`json\n${name} ${given}\n\`\`\``)].filter(Boolean).join("\n\n");

// A part of a streamed call, into those that have begun.
function addPart(calls, { index, id, function: { name = "", arguments: given = "" } = {} }) {
  calls[index] ??= { id, type: "function", function: { name: "", arguments: "" } };
  calls[index].function.name += name;
  calls[index].function.arguments += given;
}

// Whether the server would take it back.
function isWhole({ function: { arguments: given } }) {
  try {
    return given === "" || typeof JSON.parse(given) === "object";
  } catch {
    return false;
  }
}

// Why there is nothing to read in an answer that ended by itself.
function whyNothing({ usage, cut }, thinks, calls) {
  if (calls.length > 0) return "Its call was cut: allow a longer answer.";
  if (!thinks) return "The model said nothing.";
  if (!cut) return "The model thought, and said nothing.";
  return `All of its ${usage ? plural(usage.completion_tokens, "token") : "tokens"} went into thinking: allow a longer answer.`;
}

// A message as requests have it: what is said after calls is what they give back.
function asSent({ role, content, calls = [] }, before) {
  if (role === "user" && before?.calls?.length > 0) {
    return before.calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content }));
  }
  return [{ role, content, ...(calls.length > 0 ? { tool_calls: calls } : {}) }];
}

// A question that goes back into the field stands before what has been typed there.
const withDraft = (question) => [question, find("say").value].filter((text) => text.trim() !== "").join("\n\n");

const newSession = () =>
  `ui-${Array.from(crypto.getRandomValues(new Uint8Array(9)), (byte) => byte.toString(16).padStart(2, "0")).join("")}`;

export class Chat {
  // `onTurn(session)` when a turn begins, `onEnd(by_itself)` when it has ended, `onRenew()` when another chat begins.
  constructor({ model, settings, onTurn, onEnd, onRenew }) {
    Object.assign(this, { model, settings, onTurn, onEnd, onRenew });
    this.templated = true; // until the server says that the model has no chat template
    this.abort = null;
    this.answer = null; // the message that is being written
    this.said = ""; // what it says so far, without its calls
    this.before = null; // the message that stood in its place
    this.claimed = null; // resolves when it is known whose the session is
    this.thinks = false;
    this.renew();
    for (const text of SUGGESTIONS) {
      find("suggestions").append(make("button", { type: "button", class: "suggestion", onclick: () => this.say(text) }, text));
    }
    find("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    find("say").addEventListener("input", () => this.fit());
    find("say").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      find("composer").requestSubmit();
    });
    find("stop").addEventListener("click", () => this.abort?.abort());
    find("renew").addEventListener("click", () => this.restart());
    find("download").addEventListener("click", () => this.download());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.isComposing && document.querySelector("dialog[open]") === null) this.abort?.abort();
    });
    addEventListener("pagehide", () => this.keep());
  }

  get busy() {
    return this.abort !== null;
  }

  // --- the chat -----------------------------------------------------------------------------------------------------------

  // Resolves to whether the session is this page's alone.
  take(session) {
    this.session = session;
    return claim(session);
  }

  // The chat goes on in a session of its own.
  another() {
    this.take(newSession());
    if (this.busy) this.onTurn(this.session);
  }

  renew() {
    this.take(newSession());
    this.messages = []; // {role, content, calls, stopped, cut, nothing, view}; calls: of tools, as the API has them; nothing: why it is empty
  }

  async restart() {
    this.abort?.abort();
    const old = this.messages.length > 0 ? this.session : null;
    this.renew();
    find("log").replaceChildren(find("welcome") ?? this.welcome);
    this.showError("");
    this.offer();
    this.settings.remember(false);
    this.onRenew();
    this.keep();
    find("say").focus();
    // What it keeps is of no use to anybody. A turn that was just cut off may still hold it; then it expires by itself.
    if (old) await forget(old).catch(() => {});
  }

  // As store.js has it: with what there is of an answer, or with a question without one back in the field.
  keep() {
    const kept = ({ role, content, calls = [], stopped, cut, nothing, view }) => ({ role, content,
      ...(calls.length > 0 && { calls }), ...(stopped && { stopped }), ...(cut && { cut }), ...(nothing && { nothing }),
      ...(view.note && { note: view.note }) });
    const messages = this.messages.map(kept);
    const so_far = { role: "assistant", content: this.said, stopped: true };
    let draft = find("say").value;
    if (this.busy && messages.at(-1)?.role === "user") {
      if (this.said !== "") messages.push(so_far);
      else if (this.before) messages.push(kept(this.before));
      else draft = withDraft(messages.pop().content);
    } else if (this.busy && messages.length > 0 && this.said !== messages.at(-1).content) {
      messages.splice(-1, 1, so_far); // it goes on
    }
    keepChat({ session: this.session, messages, draft, beginning: this.settings.asked });
  }

  restore({ session, messages, draft, beginning }) {
    this.claimed = this.take(session).then((is_ours) => {
      if (!is_ours && this.session === session) this.another();
      return is_ours;
    });
    for (const { role, content, calls, ...end } of messages) this.add(role, content, calls, end);
    find("say").value = draft;
    this.fit();
    if (messages.length === 0) return;
    this.settings.asked = typeof beginning === "string" ? beginning : null;
    this.settings.show();
    this.offer();
    find("log").scrollTop = find("log").scrollHeight;
  }

  add(role, content, calls = [], { stopped = false, cut = false, nothing = "", note = null } = {}) {
    const view = this.bubble(role, withCalls(content, calls));
    if (role === "assistant") {
      view.begin();
      view.end({ stopped, cut, nothing, note });
    }
    this.messages.push({ role, content, calls, stopped, cut, nothing, view });
    return view;
  }

  bubble(role, text) {
    if (find("welcome")) {
      this.welcome = find("welcome");
      this.welcome.remove();
    }
    const message = new Message(role, text);
    find("log").append(message.element);
    return message;
  }

  // What can be done with the messages that stand there.
  offer() {
    const last = this.messages.at(-1);
    find("say").placeholder = last?.calls?.length > 0 ? "What the tool gives back …" : "Say something …";
    for (const { role, content, calls, nothing, view } of this.messages) {
      if (role !== "assistant") continue;
      const actions = this.busy || nothing ? [] : [copyButton(() => withCalls(content, calls))];
      if (view === last.view && !this.busy) {
        actions.push(["Try again", () => this.again()], ["Edit the question", () => this.edit()]);
        if (last.cut && this.templated && calls.length === 0 && !nothing) actions.unshift(["Go on", () => this.goOn()]);
      }
      view.offer(actions);
    }
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

  // The newest line stays in sight, unless the reader has scrolled away from it.
  follow(change) {
    const log = find("log");
    const at_end = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    change();
    if (at_end) log.scrollTop = log.scrollHeight;
  }

  download() {
    const { system } = this.settings;
    const said = this.messages.map(({ role, content, calls }) =>
      `## ${role === "user" ? "You" : "Model"}\n\n${withCalls(content, calls)}\n`);
    const text = [`# A chat with ${this.model}\n`, ...(system ? [`System prompt: ${system}\n`] : []), ...said].join("\n");
    const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    make("a", { href: url, download: "chat.txt" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  // --- a turn -------------------------------------------------------------------------------------------------------------

  // [path, session, body] of a turn that answers `messages`, or with `goes_on` writes the last of them on.
  request(messages, goes_on = false) {
    const { system, tools } = this.settings;
    const body = { model: this.model, ...this.settings.members() };
    if (this.templated) {
      const said = messages.flatMap((message, at) => asSent(message, messages[at - 1]));
      if (system) said.unshift({ role: "system", content: system });
      if (tools) body.tools = tools;
      const more = goes_on ? { continue_final_message: true, add_generation_prompt: false } : {};
      return ["/v1/chat/completions", this.session, { ...body, messages: said, ...more }];
    }
    const lines = messages.map(({ role, content }) => `${role === "user" ? "User" : "Assistant"}: ${content}\n`);
    const prompt = `${system ? `${system}\n\n` : ""}${lines.join("")}Assistant:`;
    return ["/v1/completions", this.session, { ...body, prompt, stop: ["\nUser:"] }];
  }

  // What would be asked if what is in the field were sent now: for the command line.
  nextRequest() {
    const text = find("say").value.trim();
    const until = this.messages.findLastIndex(({ role }) => role === "user") + 1;
    const messages = text !== "" ? [...this.messages, { role: "user", content: text }] : this.messages.slice(0, until);
    return this.request(messages.length > 0 ? messages : [{ role: "user", content: "Hello!" }]);
  }

  // What is in the field.
  async send() {
    const text = find("say").value.trim();
    if (this.busy || text === "") return;
    find("say").value = "";
    this.fit();
    await this.say(text);
  }

  async say(text) {
    if (this.busy) return;
    this.add("user", text);
    await this.turn(this.bubble("assistant"));
  }

  // Another answer in the place of the last one.
  async again() {
    if (this.busy) return;
    const before = this.messages.pop();
    before.view.element.remove();
    await this.turn(this.bubble("assistant"), { before });
  }

  // The last question goes back to the field.
  edit() {
    if (this.busy) return;
    this.messages.pop().view.element.remove();
    this.takeBack(this.messages);
    find("say").focus();
    this.offer();
    this.keep();
  }

  async goOn() {
    if (!this.busy) await this.turn(this.messages.at(-1).view, { goes_on: true });
  }

  // `goes_on`: the answer is the last message, which is written on; `before`: as this.before.
  async turn(answer, { goes_on = false, before = null } = {}) {
    this.abort = new AbortController();
    this.answer = answer;
    this.before = before;
    this.showError("");
    answer.begin();
    find("log").scrollTop = find("log").scrollHeight;
    find("stop").hidden = false;
    if (document.activeElement !== find("say")) find("stop").focus(); // the button that was pressed goes
    find("send").hidden = true;
    this.settings.remember(true);
    this.offer();
    this.onTurn(this.session);
    const by_itself = await this.receive(answer, goes_on, before);
    this.abort = null;
    this.answer = null;
    this.before = null;
    find("send").hidden = false;
    // Where there is no keyboard yet, the field would bring up one that covers the page.
    if (document.activeElement === find("stop")) find(matchMedia("(min-width: 960px)").matches ? "say" : "send").focus();
    find("stop").hidden = true;
    this.offer();
    this.keep();
    this.onEnd(by_itself);
  }

  // Whether the answer ended by itself.
  async receive(answer, goes_on, before) {
    const { messages } = this;
    const { signal } = this.abort;
    const begun = goes_on ? messages.at(-1).content : "";
    let said = this.said = begun;
    this.thinks = false;
    const calls = []; // what has some does not go on
    const end = { usage: null, stopped: false, cut: false };
    try {
      for await (const event of eventsOf(await this.open(answer, goes_on))) {
        end.usage = event.usage ?? end.usage;
        const [choice] = event.choices;
        end.cut ||= choice?.finish_reason === "length";
        const piece = choice?.delta?.content ?? choice?.text ?? "";
        const parts = choice?.delta?.tool_calls ?? [];
        for (const part of parts) addPart(calls, part);
        if (choice?.delta?.reasoning_content) {
          this.thinks = true;
          this.follow(() => answer.wait("Thinking."));
        }
        if (piece === "" && parts.length === 0) continue;
        this.said = said += piece;
        answer.write(withCalls(said, calls), (change) => this.follow(change));
      }
    } catch (error) {
      end.stopped = true;
      if (!signal.aborted) this.showError(error.message);
    }
    const whole = calls.filter(isWhole); // half a call is none
    if (whole.length < calls.length) answer.write(withCalls(said, whole), (change) => this.follow(change));
    const refused = goes_on && end.stopped && said === begun && whole.length === 0;
    const is_empty = said === "" && whole.length === 0;
    const nothing = is_empty && !end.stopped ? whyNothing(end, this.thinks, calls) : "";
    this.follow(() => refused ? answer.rest() : answer.end({ ...end, nothing }));
    if (refused) return false;
    const said_all = { content: said, calls: whole, stopped: end.stopped, cut: end.cut, nothing };
    if (is_empty && before && (end.stopped || !before.nothing)) {
      answer.element.remove();
      this.putBack(messages, before);
      if (nothing && messages === this.messages) this.showError(nothing);
    } else if (is_empty && end.stopped) {
      answer.element.remove();
      this.takeBack(messages);
    } else if (goes_on) {
      Object.assign(messages.at(-1), said_all);
    } else {
      messages.push({ role: "assistant", ...said_all, view: answer });
    }
    return !end.stopped;
  }

  // A question without an answer is no part of the chat: the next one is not to be answered in its place, and what was said can be
  // sent again.
  takeBack(messages) {
    const { content, view } = messages.pop();
    view.element.remove();
    if (messages !== this.messages) return; // another chat has begun
    if (messages.length === 0) {
      find("log").replaceChildren(this.welcome);
      this.settings.remember(false);
    }
    find("say").value = withDraft(content);
    this.fit();
  }

  putBack(messages, answer) {
    messages.push(answer);
    if (messages === this.messages) find("log").append(answer.view.element);
  }

  // The head of the answer, however often it has to be asked for.
  async open(answer, goes_on) {
    const { signal } = this.abort;
    const { messages } = this;
    const onWait = (error, left, hurry) => {
      const askNow = () => {
        find("stop").focus();
        hurry();
      };
      if (error === null) answer.wait("");
      else this.follow(() => answer.wait(`${error.message} Asking again in`, { left, action: ["Ask now", askNow] }));
    };
    await this.claimed;
    for (let busy = 0; ; ) {
      try {
        return await patiently(() => post(...this.request(messages, goes_on), signal), { signal, onWait });
      } catch (error) {
        if (error.code === "chat_template_missing" && this.templated) {
          this.templated = false;
        } else if (error.code === "session_busy" && busy < BUSY_TRIES) {
          ++busy;
          await pause(BUSY_MS, signal);
        } else if (error.code === "session_busy" && busy === BUSY_TRIES) {
          ++busy;
          this.another();
        } else {
          throw error;
        }
      }
    }
  }

  // What the server says of the session while there is nothing to read (`kv` as GET /v1/sessions/{id}/kv has it); `is_old`: it
  // is as it was before this turn.
  look(kv, is_old) {
    const { answer } = this;
    if (this.busy && (kv.aside || this.aside)) {
      this.aside = Boolean(kv.aside);
      this.follow(() => answer.wait(kv.aside ? "Set aside for others, back in a moment." : ""));
      return;
    }
    if (!this.busy || this.thinks || answer.text !== "" || !answer.progress.hidden && answer.progress.querySelector("button")) return;
    const tell = (text, more) => this.follow(() => answer.wait(text, more));
    if (kv.ahead > 0) tell(`Waiting: ${plural(kv.ahead, "request")} before yours.`);
    else if (kv.ahead === 0) tell("Waiting: yours is next.");
    else if (is_old || kv.unknown === "queued") tell("Waiting for its first step.");
    else if (kv.logical + 1 < kv.known) tell(`Reading ${plural(kv.known, "token")}`, { share: kv.logical / kv.known });
    else tell("");
  }
}
