// The next request as a command line that says the same.

import { keyNow } from "./api.js";
import { copyButton, find } from "./dom.js";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// JSON without characters that a terminal acts on or that change how the line reads. All of them stand in strings.
const plain = (json) => json.replace(/[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
  (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

// `key`: null for a server without keys, "" for a variable in its place.
export function curlOf(path, body, key) {
  const lines = [`curl -N ${location.origin}${path}`, `-H ${quoted("Content-Type: application/json")}`];
  if (key !== null) lines.push(key === "" ? '-H "Authorization: Bearer $HYDRANT_API_KEY"' : `-H ${quoted(`Authorization: Bearer ${key}`)}`);
  lines.push(`-H ${quoted("X-Session-ID: my-chat")}`, `-d ${quoted(plain(JSON.stringify({ ...body, stream: true }, null, 2)))}`);
  return lines.join(" \\\n  ");
}

export class CurlDialog {
  // `request()`: [path, session, body] of the message that would be sent now.
  constructor(request) {
    this.request = request;
    find("show-curl").addEventListener("click", () => this.open());
    find("curl-key").addEventListener("change", () => this.show());
    // The event comes later than the closing; it may be open again.
    find("curl-dialog").addEventListener("close", () => find("curl-dialog").open || find("curl-text").replaceChildren());
    find("curl-copy").append(copyButton(() => find("curl-text").textContent));
  }

  open() {
    find("curl-key").checked = false; // every time: a key is shown only to who has just asked for it
    find("curl-key-row").hidden = keyNow() === null;
    this.show();
    find("curl-dialog").showModal();
  }

  show() {
    const [path, , body] = this.request();
    const key = keyNow();
    find("curl-text").textContent = curlOf(path, body, key === null ? null : find("curl-key").checked ? key : "");
  }
}
