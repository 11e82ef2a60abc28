// The map: every token of the session as a piece of the text, coloured by what is left of it.

import { make } from "./dom.js";

export const LEVELS = 10;

// Levels are even steps of the share of heads that hold a token; 0: nobody does.
export const heldLevel = (held, pairs) => (held === 0 ? 0 : Math.max(1, Math.ceil((held / pairs) * LEVELS)));

// Scores run over orders of magnitude: an average token's is level 3, and each level more is one and a half times as much.
export function scoreLevel(units) {
  if (!(units > 0)) return 1;
  return Math.min(LEVELS, Math.max(1, Math.round(3 + Math.log(units) / Math.log(1.5))));
}

// What a token's bytes look like. One that ends inside a character shows it with the token that completes it.
function textsOf(pieces) {
  let decoder = null;
  return pieces.map((piece) => {
    if (typeof piece === "string") {
      decoder = null;
      return piece;
    }
    decoder ??= new TextDecoder();
    return decoder.decode(new Uint8Array(piece), { stream: true }) || "·";
  });
}

// Line ends are shown, and still end the line.
const shown = (text) => text.replace(/\r?\n/g, "↵\n").replace(/\t/g, "⇥");
const bare = (text) => text.replace(/^<\|?/, "").replace(/\|?>$/, "");

export class TokenMap {
  // `onInspect(position | null, spoken)`: a token is looked at, with the keyboard if `spoken`; null: none is.
  constructor(host, empty, onInspect) {
    this.host = host;
    this.empty = empty;
    this.onInspect = onInspect;
    this.clear();
    host.addEventListener("pointerover", (event) => this.point(event.target.closest(".token")));
    host.addEventListener("pointerleave", () => this.point(null));
    host.addEventListener("focusin", (event) => this.focus(event.target.closest(".token")));
    host.addEventListener("focusout", () => {
      this.focused = null;
      this.onInspect(null, false);
    });
    host.addEventListener("keydown", (event) => this.step(event));
  }

  clear() {
    this.tokens = [];
    this.ids = [];
    this.after = 0;
    this.texts = [];
    this.roving = null;
    this.focused = null;
    this.host.replaceChildren(this.empty);
  }

  // How token i of the answer's window looks: `level(i)`; `isBack(position)`: it had been dropped, and is held again.
  update(kv, level, isBack) {
    const stay = this.host.scrollHeight - this.host.scrollTop - this.host.clientHeight > 60 || this.focused;
    const last = this.after + this.ids.length;
    this.texts = textsOf(kv.pieces);
    this.build(kv);
    const special = new Set(kv.specials);
    for (let i = 0; i < this.tokens.length; ++i) {
      const position = kv.after + i;
      let kind = "";
      if (position >= kv.logical) kind = kv.recalls ? "" : "coming";
      else if (kv.recent > 0 && position >= kv.logical - kv.recent) kind = "recent";
      else if (isBack(position) && level(i) > 0) kind = "back";
      this.set(this.tokens[i], "level", position >= kv.logical ? "" : String(level(i)));
      this.set(this.tokens[i], "kind", kind);
      this.set(this.tokens[i], "special", special.has(position) ? "yes" : "");
      if (special.has(position) && !this.tokens[i].dataset.bare) {
        this.tokens[i].dataset.bare = "yes";
        this.tokens[i].textContent = bare(this.texts[i]);
      }
    }
    // Its end is followed when there is more of it, and left alone otherwise.
    if (!stay && this.after + this.ids.length !== last) this.host.scrollTop = this.host.scrollHeight;
  }

  set(token, name, value) {
    if (token.dataset[name] !== value) token.dataset[name] = value;
  }

  // Tokens that are the same as before stay: a chat only grows, as a rule.
  build(kv) {
    let same = 0;
    if (kv.after === this.after) {
      while (same < this.ids.length && same < kv.tokens.length && this.ids[same] === kv.tokens[same]) ++same;
      if (same > 0) this.say(this.tokens[same - 1], this.texts[same - 1]);
    }
    for (const token of this.tokens.splice(same)) token.remove();
    const fresh = document.createDocumentFragment();
    for (let i = same; i < kv.tokens.length; ++i) {
      const token = make("span", { class: "token", role: "option", tabIndex: -1 }, shown(this.texts[i]));
      token.dataset.position = kv.after + i;
      this.tokens.push(token);
      fresh.append(token);
    }
    this.empty.remove();
    this.host.append(fresh);
    this.after = kv.after;
    this.ids = kv.tokens;
    if (!this.roving?.isConnected) this.rove(this.tokens.at(-1) ?? null);
  }

  // The last one's text may have been half a character. The token itself stays, as it may have the focus.
  say(token, text) {
    if (!token.dataset.bare && token.textContent !== shown(text)) token.textContent = shown(text);
  }

  textAt(position) {
    return this.texts[position - this.after] ?? "";
  }

  // --- pointing and stepping ------------------------------------------------------------------------------------------

  point(token) {
    if (token) this.onInspect(Number(token.dataset.position), false);
    else this.onInspect(this.focused ? Number(this.focused.dataset.position) : null, false);
  }

  // The one token that the Tab key reaches.
  rove(token) {
    if (this.roving) this.roving.tabIndex = -1;
    this.roving = token;
    if (token) token.tabIndex = 0;
  }

  focus(token) {
    if (!token) return;
    this.rove(token);
    this.focused = token;
    this.onInspect(Number(token.dataset.position), true);
  }

  step(event) {
    const at = this.tokens.indexOf(this.focused);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.tokens.length - 1;
    const to = {
      ArrowLeft: () => Math.max(0, at - 1),
      ArrowRight: () => Math.min(last, at + 1),
      ArrowUp: () => this.inLine(at, -1),
      ArrowDown: () => this.inLine(at, 1),
      Home: () => 0,
      End: () => last,
    }[event.key]?.();
    if (to === undefined) return;
    event.preventDefault();
    this.tokens[to].focus();
  }

  // The token above or below that stands nearest.
  inLine(at, direction) {
    const here = this.tokens[at].getClientRects()[0];
    let best = at;
    let best_distance = Infinity;
    let line = null;
    for (let i = at + direction; i >= 0 && i < this.tokens.length; i += direction) {
      const there = this.tokens[i].getClientRects()[0];
      if (!there || Math.abs(there.top - here.top) < 4) continue;
      line ??= there.top;
      if (Math.abs(there.top - line) > 4) break;
      const distance = Math.abs(there.left - here.left);
      if (distance < best_distance) [best, best_distance] = [i, distance];
    }
    return best;
  }
}
