// One message of the conversation: what was said, how an answer comes along, and what can be done with it.

import { make, plural, whole } from "./dom.js";
import { Formatted } from "./format.js";

const LABELS = { user: "You", assistant: "Model" };

// Seconds as people say them.
const seconds = (value) => `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;

// What an answer took: `usage` as the server counts, null where it did not say.
function costOf(usage, time_s) {
  if (!usage) return "";
  const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  const read = cached > 0
    ? `${whole(usage.prompt_tokens - cached)} of ${plural(usage.prompt_tokens, "token")} read, the rest was in memory`
    : `${plural(usage.prompt_tokens, "token")} read`;
  return `${read}; ${whole(usage.completion_tokens)} written in ${seconds(time_s)}`;
}

export class Message {
  constructor(role, text = "") {
    this.text = text;
    this.stopped = false;
    this.said = make("div", { class: "said" });
    this.progress = make("p", { class: "progress", hidden: true });
    this.progress.setAttribute("role", "status");
    this.foot = make("div", { class: "foot" });
    this.element = make("article", { class: `message ${role}` }, make("h3", {}, LABELS[role]), this.said, this.progress, this.foot);
    if (role === "user") Object.assign(this.said, { textContent: text, dir: "auto" });
    else this.formatted = new Formatted(this.said);
    if (role === "assistant" && text !== "") this.formatted.update(text);
  }

  // --- an answer ----------------------------------------------------------------------------------------------------------

  begin() {
    this.said.classList.remove("stopped");
    this.said.classList.add("writing");
    this.said.setAttribute("aria-busy", "true"); // read out when it is whole
    this.foot.replaceChildren();
    this.begun = performance.now();
  }

  // All of it so far. What comes within one frame is shown at once, by `around(change)`.
  write(text, around) {
    this.text = text;
    this.frame ??= requestAnimationFrame(() => around(() => this.flush()));
  }

  flush() {
    if (this.frame) cancelAnimationFrame(this.frame);
    this.frame = null;
    this.progress.hidden = true;
    this.formatted.update(this.text);
  }

  // Nothing is written any more. Where nothing was, what its end was before is its end.
  rest() {
    this.flush();
    this.said.classList.remove("writing");
    this.said.removeAttribute("aria-busy");
    this.said.classList.toggle("stopped", this.stopped);
  }

  // `nothing`: why there is nothing to read; `note`: what stands below it, where that is known.
  end({ usage = null, stopped = false, cut = false, nothing = "", note = null }) {
    this.stopped = stopped;
    this.rest();
    if (nothing !== "") this.wait(nothing);
    const why = stopped ? "Stopped" : cut && nothing === "" ? "As long as an answer may be" : "";
    const cost = costOf(usage, (performance.now() - this.begun) / 1000);
    this.note = note ?? [why, cost].filter((words) => words !== "").join(". ");
  }

  // Why there is nothing to read, as yet or at all. `share` in [0, 1] draws a bar, `left` counts down, `action` is [label, what it does].
  wait(text, { share = null, left = null, action = null } = {}) {
    if (this.progress.dataset.text !== text) {
      this.progress.dataset.text = text;
      const parts = [make("span", {}, text)];
      // What moves is for the eye; a screen reader hears the sentence once.
      if (left !== null) parts.push(make("span", { class: "left", "aria-hidden": "true" }));
      if (share !== null) parts.push(make("progress", { max: 1, "aria-label": "read so far" }));
      if (action !== null) parts.push(make("button", { type: "button", class: "link", onclick: action[1] }, action[0]));
      this.progress.replaceChildren(...parts);
    }
    if (share !== null) this.progress.querySelector("progress").value = share;
    if (left !== null) this.progress.querySelector(".left").textContent = `${left} s`;
    this.progress.hidden = text === "";
  }

  // `actions`: [label, what it does] or buttons.
  offer(actions) {
    const buttons = actions.map((action) =>
      action instanceof Element ? action : make("button", { type: "button", class: "link", onclick: action[1] }, action[0]));
    const note = this.note ? [make("span", { class: "note" }, this.note)] : [];
    this.foot.replaceChildren(...buttons, ...note);
  }
}
