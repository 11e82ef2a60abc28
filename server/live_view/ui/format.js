// What a model writes, as elements: paragraphs, lists, code, tables, quotations, headings, emphasis. All of its text becomes text
// nodes. No markup of its own comes through, nothing in it is a link, and nothing in it loads or runs. Each block begins at the side
// that its first letter asks for; code begins at the left.

import { copyButton, make } from "./dom.js";

const DEPTH_MAX = 4; // of lists and quotations inside each other; what is deeper stays text
const PLAIN_FROM = 20_000; // characters of one paragraph: more are shown as they are
const COLUMNS_MAX = 20;

const FENCE = /^\s*(`{3,}|~{3,})(.*)$/;
const HEADING = /^\s{0,3}#{1,6}\s+(.*)$/;
const QUOTE = /^\s*>\s?/;
const ITEM = /^(\s*)(?:[-*+•]|(\d{1,9})[.)])\s+(.*)$/;
// Code, strong, emphasis. Each ends at the first character it may not contain, so that no text makes this slow.
const SPAN = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|(?<![\w*])\*([^*\s][^*\n]*)\*(?![\w*])/g;

const isBlank = (line) => line.trim() === "";
const isRule = (line) => /^(-{3,}|\*{3,}|_{3,})$/.test(line.replaceAll(/\s/g, ""));
const isUnderTableHead = (line) => line !== undefined && /^[\s|:-]+$/.test(line) && line.includes("-") && line.includes("|");
const isTable = (lines, at) => lines[at].includes("|") && isUnderTableHead(lines[at + 1]);

function beginsBlock(lines, at) {
  const line = lines[at];
  return FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || ITEM.test(line) || isRule(line) || isTable(lines, at);
}

function inline(text) {
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(SPAN)) {
    const [whole, code, strong, soft] = match;
    nodes.push(text.slice(from, match.index));
    if (code !== undefined) nodes.push(make("code", {}, code));
    else if (strong !== undefined) nodes.push(make("strong", {}, ...inline(strong)));
    else nodes.push(make("em", {}, ...inline(soft)));
    from = match.index + whole.length;
  }
  return [...nodes, text.slice(from)].filter((node) => node !== "");
}

// --- blocks: each returns [element, the line after it], or null if none of its kind begins at line `at` ------------------------

function fence(lines, at) {
  const begin = FENCE.exec(lines[at]);
  if (!begin) return null;
  let end = at + 1;
  while (end < lines.length && !lines[end].trim().startsWith(begin[1])) ++end;
  const code = lines.slice(at + 1, end).join("\n");
  const language = begin[2].trim().split(/\s/)[0].slice(0, 24);
  const head = make("figcaption", {}, make("span", {}, language || "text"), copyButton(() => code));
  return [make("figure", { class: "code", dir: "ltr" }, head, make("pre", { tabIndex: 0 }, make("code", {}, code))), end + 1];
}

function heading(lines, at) {
  const found = HEADING.exec(lines[at]);
  return found && [make("h4", {}, ...inline(found[1].replace(/\s#+\s*$/, ""))), at + 1];
}

const rule = (lines, at) => (isRule(lines[at]) ? [make("hr"), at + 1] : null);

function quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) ++end;
  if (end === at || depth > DEPTH_MAX) return null;
  const inside = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return [make("blockquote", {}, ...blocks(inside, depth + 1)), end];
}

// The mark of the code that the line after this one is in; null: in none.
function markAfter(line, mark) {
  if (mark !== null) return line.trim().startsWith(mark) ? null : mark;
  return FENCE.exec(line)?.[1] ?? null;
}

// What an item holds besides its own line: code, and what stands further to the right.
function endOfInside(lines, at, beside) {
  let mark = null;
  for (; at < lines.length; ++at) {
    if (mark === null && (!/^\s{2}/.test(lines[at]) || ITEM.exec(lines[at])?.[1].length <= beside)) return at;
    mark = markAfter(lines[at], mark);
  }
  return at;
}

function unindented(lines) {
  const width = /^\s*/.exec(lines[0] ?? "")[0].length;
  return lines.map((line) => (isBlank(line.slice(0, width)) ? line.slice(width) : line));
}

function list(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  if (!first || depth > DEPTH_MAX) return null;
  const is_numbered = first[2] !== undefined;
  const element = is_numbered ? make("ol", { start: Number(first[2]) }) : make("ul");
  const beside = first[1].length + 1; // an item that stands further to the right is inside the one before it
  const isNext = (item) => item && item[1].length <= beside && (item[2] !== undefined) === is_numbered;
  while (at < lines.length) {
    const item = ITEM.exec(lines[at]);
    if (!isNext(item) || isRule(lines[at])) break;
    let text = item[3];
    for (++at; at < lines.length && !isBlank(lines[at]) && !beginsBlock(lines, at); ++at) text += `\n${lines[at].trim()}`;
    const begin = at;
    at = endOfInside(lines, at, beside);
    element.append(make("li", {}, ...inline(text), ...blocks(unindented(lines.slice(begin, at)), depth + 1)));
  }
  return element.childElementCount > 0 ? [element, at] : null;
}

const cellsOf = (line) => line.trim().replace(/^\|/, "").replace(/\|$/, "").split("|", COLUMNS_MAX);

function table(lines, at) {
  if (!isTable(lines, at)) return null;
  const row = (line, kind) => make("tr", {}, ...cellsOf(line).map((cell) => make(kind, {}, ...inline(cell.trim()))));
  const head = make("thead", {}, row(lines[at], "th"));
  const body = make("tbody");
  for (at += 2; at < lines.length && lines[at].includes("|"); ++at) body.append(row(lines[at], "td"));
  return [make("div", { class: "table" }, make("table", {}, head, body)), at];
}

function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end]) && !beginsBlock(lines, end)) ++end;
  return [make("p", {}, ...inline(lines.slice(at, end).join("\n").trim())), end];
}

function blocks(lines, depth) {
  const found = [];
  for (let at = 0; at < lines.length; ) {
    if (isBlank(lines[at])) {
      ++at;
      continue;
    }
    let next = null;
    for (const read of [fence, heading, rule, quote, list, table, paragraph]) {
      next = read(lines, at, depth);
      if (next) break;
    }
    found.push(next[0]);
    at = next[1];
  }
  return found;
}

// Where the part of the text that begins at `from` ends: behind an empty line that is not inside code; -1: it may go on.
function endOfPart(text, from) {
  let mark = null; // of the code that this line is in
  let is_empty = true;
  for (let at = from; ; ) {
    const end = text.indexOf("\n", at);
    if (end < 0) return -1;
    const line = text.slice(at, end);
    at = end + 1;
    if (mark === null && isBlank(line) && !is_empty) return at;
    mark = markAfter(line, mark);
    is_empty &&= isBlank(line);
  }
}

// A text that grows inside `host`. Parts that are complete are made once; only the last one is made again as it grows.
export class Formatted {
  constructor(host) {
    this.host = host;
    this.settled = 0;
    this.open = [];
  }

  // `text`: all of it so far.
  update(text) {
    for (let end = endOfPart(text, this.settled); end >= 0; end = endOfPart(text, this.settled)) {
      this.show(text.slice(this.settled, end));
      this.open = [];
      this.settled = end;
    }
    this.show(text.slice(this.settled));
  }

  show(part) {
    for (const node of this.open) node.remove();
    const is_plain = part.length > PLAIN_FROM && !FENCE.test(part.slice(0, 100));
    this.open = is_plain ? [make("p", {}, part)] : blocks(part.split("\n"), 0);
    for (const block of this.open) block.dir ||= "auto"; // those inside of it follow
    this.host.append(...this.open);
  }
}
