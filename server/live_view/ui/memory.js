// The right side: asks the server what the session's KV cache holds, and shows it.

import { cacheOf } from "./api.js";
import { BlocksChart, LiveChart } from "./chart.js";
import { brief, find, make, plural, size, whole } from "./dom.js";
import { HeadGrid } from "./grid.js";
import { heldLevel, LEVELS, scoreLevel, TokenMap } from "./map.js";

const WINDOW = 4096; // tokens of one answer at most
const BUSY_MS = 300;
const IDLE_MS = [0, 400, 2000, 5000, 15000, 30000]; // after a turn; then it is left alone
const BLOCK_TOKENS = 16;
const AWAY_MS = 1500; // between questions to a server that does not answer
const SAMPLES_MAX = 1200;
const LOOK_MS = 90; // a pointer that only passes over asks nothing

const STATES = {
  busy: "answering",
  parked: "parked: between turns it takes nothing from the pool",
  on_disk: "on disk: its KV is in a file",
  cold: "cold: only its text is kept",
};
const RECALLS = ". The map shows what the last answer kept; your next message recalls all of the chat";
const ASIDE = "set aside for others, back in a moment";
const UNKNOWN = {
  set_aside: "The turn has stepped aside: what it holds comes back with it.",
  queued: "The turn waits for its first step.",
  cold: "The session's KV is not kept; the next turn computes it again.",
  on_disk: "The session's KV is in a file, which the next turn reads.",
  rolling_positions: "Under rolling positions a slot knows its token's rank, not its place in the text: no map.",
  too_many_slots: "More slots are held than are copied to be looked at.",
};

export class Memory {
  constructor() {
    this.onLook = () => {}; // (what the server says, whether it is as it was before the turn in progress)
    this.block_bytes = 0; // not known
    this.map = new TokenMap(find("map"), find("map-empty"), (position, spoken) => this.inspect(position, spoken));
    this.grid = new HeadGrid(find("grid"), (layer, head) => this.pick(layer, head), (layer, head) => this.describe(layer, head));
    this.live = new LiveChart(find("chart-live"), "Tokens kept against tokens seen");
    this.blocks = new BlocksChart(find("chart-blocks"), "Blocks held over time");
    for (const input of document.querySelectorAll('input[name="mode"]')) {
      input.addEventListener("change", () => this.render());
    }
    find("all-heads").addEventListener("click", () => this.pick(null, null));
    find("earlier").addEventListener("click", () => this.turn(Math.max(0, (this.after ?? this.kv.after) - WINDOW)));
    find("newest").addEventListener("click", () => this.turn(null));
    document.addEventListener("visibilitychange", () => document.hidden || this.schedule(0));
    this.reset();
  }

  get mode() {
    return document.querySelector('input[name="mode"]:checked').value;
  }

  reset() {
    clearTimeout(this.timer);
    this.session = null;
    this.kv = null;
    this.raw = null; // as the server said it
    this.left = false; // a turn has left the session at the server
    this.gone = false; // it is not there
    this.samples = [];
    this.time = 0;
    this.away = false; // the server did not answer
    this.after = null; // null: the newest tokens
    this.picked = null;
    this.looked = null; // position
    this.token = null; // where the server says that one is held
    this.recalls = false; // the last turn did
    this.dropped = new Map(); // of one that recalls: what nobody held when it began, position -> token
    this.written = null; // what the server said last while its answer was written; written_before: … the one's before it
    this.written_before = null;
    this.polls = (this.polls ?? 0) + 1; // what was asked before is not waited for
    this.map.clear();
    find("map").tabIndex = -1;
    this.renderFigures();
    this.preview(this.planned ?? null);
    this.legend();
    this.card();
    find("grid").replaceChildren();
    this.grid.cells = [];
    find("grid-note").textContent = "";
    find("notice").hidden = true;
    find("earlier").hidden = true;
    find("newest").hidden = true;
    find("all-heads").hidden = true;
    find("state").textContent = "";
  }

  // The charts before there is anything to draw, with the budget that is chosen (null: none).
  preview(budget) {
    this.planned = budget;
    if (this.kv !== null) return;
    this.live.update([], budget);
    this.blocks.update([]);
  }

  // The model's card of /v1/models: from here on blocks have a size.
  know(model) {
    this.block_bytes = model.kv_block_bytes ?? 0;
    if (this.block_bytes > 0) find("blocks-of").textContent = `over time, of ${size(this.block_bytes)} each`;
  }

  // --- asking -----------------------------------------------------------------------------------------------------------

  // `recalls`: the turn sees all of the chat again.
  begin(session, recalls) {
    if (this.session !== null && session !== this.session) this.reset();
    this.session = session;
    this.left &&= !this.gone;
    this.before = this.raw;
    this.recalls = recalls;
    this.written_before = this.written;
    this.written = null;
    const { after, held, tokens, logical } = this.kv ?? {};
    const gone = (held ?? []).flatMap((heads, i) => (heads === 0 && after + i < logical ? [[after + i, tokens[i]]] : []));
    this.dropped = new Map(recalls ? gone : []);
    this.busy = true;
    this.idle = 0;
    this.last_ms = performance.now();
    this.schedule(60);
  }

  // A turn that does not end by itself leaves its session as it was.
  end(by_itself = true) {
    this.busy = false;
    if (by_itself) this.left = true;
    else this.written = this.written_before;
    this.idle = 0;
    this.schedule(0);
  }

  // At what an earlier turn of a session has left.
  look(session) {
    this.session = session;
    this.end();
  }

  schedule(delay) {
    clearTimeout(this.timer);
    if (this.session !== null) this.timer = setTimeout(() => this.poll(), delay);
  }

  // Only the newest poll's answer is shown: an older one may come later, and is of another window or pair.
  async poll() {
    clearTimeout(this.timer);
    const number = ++this.polls;
    const more = {};
    if (this.after !== null) more.after = this.after;
    if (this.picked) Object.assign(more, this.picked);
    try {
      const kv = await cacheOf(this.session, more);
      if (number !== this.polls) return;
      if (this.away) this.idle = 0;
      this.away = false;
      this.take(kv);
    } catch (error) {
      if (number !== this.polls) return;
      this.failed(error);
    }
    if (document.hidden) return;
    if (this.away) this.schedule(AWAY_MS);
    else if (this.busy) this.schedule(BUSY_MS);
    else if (this.idle < IDLE_MS.length) this.schedule(IDLE_MS[this.idle++]);
  }

  failed(error) {
    // Restarted, or still loading: what it has on its disk is there again when it answers.
    this.away = error.status === 0 || error.status >= 502;
    if (this.away) {
      find("state").textContent = "The server does not answer. It is asked again.";
    } else if (error.status === 404) {
      if (this.busy) return; // not there yet
      this.gone = true;
      find("state").textContent = this.left ? "gone: your next message has the chat read anew"
        : this.kv ? "gone: a first turn that is stopped leaves no session" : "";
    } else {
      find("state").textContent = error.message;
    }
  }

  take(answer) {
    this.gone = false;
    const kv = (this.kv = this.asWritten(answer));
    this.onLook(answer, this.before?.known === answer.known && this.before?.logical === answer.logical);
    this.raw = answer;
    const now = performance.now();
    if (this.busy) this.time += (now - this.last_ms) / 1000;
    this.last_ms = now;
    const last = this.samples.at(-1);
    const blocks = kv.state === "busy" ? kv.blocks : 0;
    if (kv.logical > 0 && !(last && last.seen === kv.logical && last.live === kv.live && last.blocks === blocks)) {
      this.samples.push({ seen: kv.logical, live: kv.live, blocks, time: this.time, full: Math.ceil(kv.logical / BLOCK_TOKENS) });
      // Every other one goes, so that a long chat keeps its whole line.
      if (this.samples.length > SAMPLES_MAX) this.samples = this.samples.filter((_, i) => i % 2 === 0);
    }
    this.render();
    if (this.looked !== null) this.ask(this.looked);
  }

  // Of a chat that recalls all is parked between its turns, or nothing: in its place stands what the last answer kept when the server
  // was asked last. Of what came after that nobody knows (null).
  asWritten(kv) {
    const is_written = kv.logical + 1 >= kv.known; // else it is read
    if (this.recalls && kv.state === "busy" && kv.held !== null && is_written) this.written = kv;
    const { written } = this;
    if (!this.recalls || kv.state === "busy" || written === null) return kv;
    const of = (values) => values && kv.tokens.map((_, i) => {
      const position = kv.after + i;
      return position < written.logical ? (values[position - written.after] ?? null) : null;
    });
    const { logical, live, reach } = written;
    return { ...kv, held: of(written.held), scores: of(written.scores), logical, live, reach, pair: undefined, recalls: true };
  }

  // --- showing ----------------------------------------------------------------------------------------------------------

  render() {
    const { kv } = this;
    if (kv === null) return this.legend();
    this.renderFigures();
    find("state").textContent = kv.aside ? ASIDE : `${STATES[kv.state]}${kv.recalls ? RECALLS : ""}`;
    this.live.update(this.samples, kv.budget);
    this.blocks.update(this.samples);
    const reason = kv.unknown === "cold" && kv.state === "on_disk" ? "on_disk" : kv.unknown;
    const unknown = (kv.recalls ? "" : UNKNOWN[reason]) ?? (this.mode === "score" && kv.scores === null ? "This policy keeps no scores." : "");
    find("notice").textContent = unknown;
    find("notice").hidden = unknown === "";
    find("earlier").hidden = kv.after === 0;
    find("newest").hidden = this.after === null;
    if (kv.tokens.length > 0) this.map.update(kv, this.levels(), (position) => this.isBack(position));
    this.legend();
    this.renderGrid();
    this.card();
  }

  // What every head had dropped when the turn began and some hold again. While the chat is read all of it is held.
  isBack(position) {
    const { kv } = this;
    const i = position - kv.after;
    const is_read = kv.state === "busy" && kv.logical + 1 < kv.known;
    return !is_read && kv.held?.[i] > 0 && this.dropped.get(position) === kv.tokens[i];
  }

  // How token i of the window is coloured.
  levels() {
    const { kv } = this;
    const pairs = kv.layers * kv.kv_heads;
    if (kv.held === null) return () => "";
    if (kv.pair) {
      const { positions, scores } = kv.pair;
      const mean = scores ? scores.reduce((sum, score) => sum + score, 0) / scores.length : 0;
      const of = new Map(positions.map((position, i) => [position, scores && mean > 0 ? scores[i] / mean : 0]));
      return (i) => {
        if (!of.has(kv.after + i)) return 0;
        return this.mode === "score" ? scoreLevel(of.get(kv.after + i)) : LEVELS;
      };
    }
    if (this.mode === "score" && kv.scores !== null) {
      return (i) => (kv.held[i] === null ? "" : kv.held[i] === 0 ? 0 : scoreLevel(kv.scores[i]));
    }
    return (i) => (kv.held[i] === null ? "" : heldLevel(kv.held[i], pairs));
  }

  renderFigures() {
    const { kv } = this;
    const logical = kv?.logical ?? 0;
    find("seen").textContent = whole(kv?.known ?? 0);
    find("kept").textContent = whole(kv?.live ?? 0);
    find("kept-of").textContent = kv?.budget ? `of ${whole(kv.budget)} per head` : "per head";
    const parked = kv !== null && kv.state !== "busy" && kv.blocks > 0;
    const held = parked ? 0 : (kv?.blocks ?? 0);
    find("blocks").textContent = this.block_bytes > 0 ? size(held * this.block_bytes) : whole(held);
    const parked_size = this.block_bytes > 0 ? size(kv?.blocks * this.block_bytes) : whole(kv?.blocks ?? 0);
    find("blocks-unit").textContent = parked ? `: ${parked_size} parked` : ` in ${plural(held, "block")}`;
    const is_held = logical > 0 && kv.live > 0;
    find("saved").textContent = `${is_held ? Math.max(0, Math.round(100 - (100 * kv.live) / logical)) : 0}\u202f%`;
    const all = Math.ceil(logical / BLOCK_TOKENS) * this.block_bytes;
    find("saved-of").textContent = is_held && all > 0 ? `of ${size(all)}` : "of the cache";
  }

  legend() {
    const score = this.mode === "score";
    find("map").dataset.ramp = this.mode;
    find("legend").dataset.ramp = this.mode;
    const steps = Array.from({ length: LEVELS }, (_, i) => {
      const step = make("span", { class: "step" });
      step.dataset.level = i + 1;
      return step;
    });
    const words = score ? ["looked at little", "much"] : this.picked ? ["", "held"] : ["by few heads", "by all"];
    const dropped = make("span", { class: "token sample" }, "dropped");
    dropped.dataset.level = 0;
    const back = make("span", { class: "token sample" }, "brought back");
    back.dataset.kind = "back";
    const brought = this.kv?.tokens.some((_, i) => this.isBack(this.kv.after + i)) ? [back] : [];
    find("legend").replaceChildren(dropped, ...brought, make("span", { class: "ends" }, words[0]), make("span", { class: "steps" }, ...steps), make("span", { class: "ends" }, words[1]));
  }

  renderGrid() {
    const { kv, token } = this;
    if (kv.reach === null) return;
    this.grid.build(kv.layers, kv.kv_heads);
    find("grid").dataset.ramp = token && this.mode === "score" ? "score" : "held";
    find("all-heads").hidden = this.picked === null;
    if (token) {
      const score = (layer, head) => token.scores[layer][head];
      this.grid.update(
        (layer, head) => (score(layer, head) === null ? 0 : this.mode === "score" ? scoreLevel(score(layer, head)) : LEVELS),
        (layer, head) => (score(layer, head) === null ? "dropped" : kv.scores === null ? "held" : `held, score ${brief(score(layer, head))} times the average`),
        this.picked,
      );
      find("grid-title").textContent = `Who still holds token ${whole(token.position)}`;
    } else {
      const most = Math.max(0.001, ...kv.reach.flat());
      this.grid.update(
        (layer, head) => Math.max(1, Math.round((kv.reach[layer][head] / most) * LEVELS)),
        (layer, head) => `what it holds is ${whole(Math.round(kv.reach[layer][head] * kv.logical))} tokens old on average`,
        this.picked,
      );
      find("grid-title").textContent = "How far back each head looks";
    }
    this.describe(null, null);
  }

  describe(layer, head) {
    if (this.kv === null) return;
    let text = `${this.kv.layers} layers from left to right, ${plural(this.kv.kv_heads, "head")} each. Choose one to see its tokens.`;
    if (layer !== null) text = this.grid.cells[head][layer].getAttribute("aria-label");
    else if (this.picked && this.kv.recalls) text = "What one head kept is shown while an answer is written.";
    else if (this.picked) text = `The map shows layer ${this.picked.layer}, head ${this.picked.head} alone.`;
    find("grid-note").textContent = text;
  }

  // To the window that begins there; null: to the newest tokens.
  turn(after) {
    this.after = after;
    this.poll();
  }

  pick(layer, head) {
    const same = this.picked !== null && this.picked.layer === layer && this.picked.head === head;
    this.picked = layer === null || same ? null : { layer, head };
    if (this.picked === null && this.kv) delete this.kv.pair;
    this.poll();
    this.render();
  }

  // --- one token --------------------------------------------------------------------------------------------------------

  inspect(position, spoken) {
    this.looked = position;
    clearTimeout(this.look_timer);
    if (position === null) {
      this.token = null;
      this.renderGridSoon();
    } else {
      this.look_timer = setTimeout(() => this.ask(position), LOOK_MS);
    }
    this.card();
    if (spoken) find("spoken").textContent = this.words(position).join(". ");
  }

  renderGridSoon() {
    if (this.kv) this.renderGrid();
  }

  async ask(position) {
    // Which head kept it is not known any more.
    if (this.asking || this.kv?.recalls) return;
    this.asking = true;
    const { session } = this;
    try {
      const kv = await cacheOf(session, { limit: 1, token: position });
      if (session === this.session && this.looked === position) {
        this.token = kv.token ?? null;
        this.renderGrid();
      }
    } catch {
      // The next one that is looked at is asked about again.
    }
    this.asking = false;
    if (session === this.session && this.looked !== null && this.looked !== position) this.ask(this.looked);
  }

  // What there is to say of a token, in short sentences.
  words(position) {
    const { kv } = this;
    const i = position - kv.after;
    const pairs = kv.layers * kv.kv_heads;
    const words = [`Token ${whole(position)} of ${whole(kv.known)}: ${JSON.stringify(this.map.textAt(position))}`];
    if (position >= kv.logical) return [...words, kv.recalls ? "Written since the server was asked" : "Not computed yet"];
    if (kv.held === null || kv.held[i] === null) return words;
    const held = kv.held[i];
    words.push(held === 0 ? "Dropped by every head" : `Held by ${held} of ${plural(pairs, "head")}`);
    if (this.isBack(position)) words.push("It had been dropped by all, and this message brought it back");
    if (kv.scores !== null && held > 0) words.push(`Score ${brief(kv.scores[i])} times the average`);
    if (kv.recent > 0 && position >= kv.logical - kv.recent) words.push(`One of the newest ${whole(kv.recent)}, which stay`);
    return words;
  }

  card() {
    const { kv, looked } = this;
    if (kv === null || looked === null || kv.tokens[looked - kv.after] === undefined) {
      find("card").replaceChildren(make("p", { class: "dim" }, "Point at a token, or step through them with the arrow keys."));
      return;
    }
    const i = looked - kv.after;
    const share = kv.held === null || kv.held[i] === null || looked >= kv.logical ? 0 : kv.held[i] / (kv.layers * kv.kv_heads);
    const bar = make("span", { class: "fill" });
    bar.style.inlineSize = `${100 * share}%`;
    const [, ...words] = this.words(looked);
    find("card").replaceChildren(
      make("p", { class: "piece" }, JSON.stringify(this.map.textAt(looked)).slice(1, -1)),
      make("p", { class: "dim" }, `token ${whole(looked)} of ${whole(kv.known)}, id ${kv.tokens[i]}`),
      make("span", { class: "bar" }, bar),
      ...words.map((text) => make("p", {}, text)),
    );
  }
}
