// Small things the other scripts share: finding and making elements, numbers as text.

export const find = (id) => document.getElementById(id);

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.setAttribute("class", value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !(element instanceof SVGElement)) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// make("p", {class: "dim"}, "text", child): text never becomes markup.
export const make = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const makeSvg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, name), attributes, children);

export const whole = (value) => value.toLocaleString("en-US");

// 12.3, 0.042: three digits that count.
export function brief(value) {
  if (value === 0) return "0";
  return value >= 100 ? whole(Math.round(value)) : String(Number(value.toPrecision(value >= 1 ? 3 : 2)));
}

export const plural = (count, word) => `${whole(count)} ${word}${count === 1 ? "" : "s"}`;

// 640 bytes, 23 kB, 3.2 MB.
export function size(bytes) {
  for (const [unit, name] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (bytes >= 0.995 * unit) return `${brief(bytes / unit)} ${name}`;
  }
  return bytes === 0 ? "0 MB" : plural(bytes, "byte");
}

// Where the page was not loaded over a connection that the browser trusts it offers no clipboard, only its old command.
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = make("textarea", { class: "hidden", value: text });
  const focused = document.activeElement;
  (focused?.closest("dialog") ?? document.body).append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  focused?.focus();
}

// A button that copies what `text()` returns, and says so for a moment.
export function copyButton(text, name = "Copy") {
  const button = make("button", { type: "button", class: "link" }, name);
  button.addEventListener("click", async () => {
    await copy(text()).then(() => (button.textContent = "Copied"), () => (button.textContent = "The browser refused"));
    setTimeout(() => (button.textContent = name), 1500);
  });
  return button;
}
