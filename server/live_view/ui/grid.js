// Layers and heads as a small grid, layers from left to right: how far back each pair looks, or where one token is held.

import { make } from "./dom.js";

export class HeadGrid {
  // `onPick(layer, head)`, `onLook(layer, head | null)`.
  constructor(host, onPick, onLook) {
    this.host = host;
    this.onPick = onPick;
    this.cells = []; // [head][layer]
    this.focused = [0, 0];
    host.addEventListener("click", (event) => this.at(event, onPick));
    host.addEventListener("pointerover", (event) => this.at(event, onLook));
    host.addEventListener("pointerleave", () => onLook(null, null));
    host.addEventListener("focusin", (event) => this.at(event, (layer, head) => {
      this.rove(layer, head);
      onLook(layer, head);
    }));
    host.addEventListener("focusout", () => onLook(null, null));
    host.addEventListener("keydown", (event) => this.step(event));
  }

  at(event, call) {
    const cell = event.target.closest(".cell");
    if (cell) call(Number(cell.dataset.layer), Number(cell.dataset.head));
  }

  build(layers, heads) {
    if (this.cells.length === heads && this.cells[0]?.length === layers) return;
    this.cells = [];
    this.host.replaceChildren();
    this.host.style.setProperty("--layers", layers);
    for (let head = 0; head < heads; ++head) {
      const row = [];
      for (let layer = 0; layer < layers; ++layer) {
        const cell = make("button", { type: "button", class: "cell", role: "gridcell", tabIndex: -1 });
        cell.dataset.layer = layer;
        cell.dataset.head = head;
        row.push(cell);
      }
      this.cells.push(row);
      this.host.append(make("div", { class: "row", role: "row" }, ...row));
    }
    this.rove(0, 0);
  }

  // `level(layer, head)` of a cell and its words.
  update(level, words, picked) {
    for (const row of this.cells) {
      for (const cell of row) {
        const layer = Number(cell.dataset.layer);
        const head = Number(cell.dataset.head);
        const value = String(level(layer, head));
        if (cell.dataset.level !== value) cell.dataset.level = value;
        cell.setAttribute("aria-label", `Layer ${layer}, head ${head}: ${words(layer, head)}`);
        const is_picked = picked !== null && picked.layer === layer && picked.head === head;
        cell.setAttribute("aria-selected", String(is_picked));
      }
    }
  }

  rove(layer, head) {
    const [old_layer, old_head] = this.focused;
    const old = this.cells[old_head]?.[old_layer];
    if (old) old.tabIndex = -1;
    this.focused = [layer, head];
    this.cells[head][layer].tabIndex = 0;
  }

  step(event) {
    const [layer, head] = this.focused;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    this.cells[head + step[1]]?.[layer + step[0]]?.focus();
  }
}
