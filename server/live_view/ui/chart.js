// Two small charts, drawn as SVG: tokens kept against tokens seen, and blocks over time.

import { makeSvg, whole } from "./dom.js";

const HEIGHT = 104;
const LEFT = 40;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 18;

// A round number at or above `value`.
function ceiling(value) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  for (const step of [1, 1.5, 2, 3, 4, 5, 6, 8, 10]) {
    if (step * unit >= value) return step * unit;
  }
  return 10 * unit;
}

class Chart {
  constructor(host, label) {
    this.host = host;
    this.label = label;
    this.draw = () => {};
    new ResizeObserver(() => this.draw()).observe(host);
  }

  // Axes for x in [0, x_max] and y in [0, y_max]; returns the functions that place a point.
  begin(x_max, y_max, x_text) {
    const width = Math.max(160, this.host.clientWidth);
    this.right = width - RIGHT;
    this.x = (value) => LEFT + (value / x_max) * (width - LEFT - RIGHT);
    this.y = (value) => HEIGHT - BOTTOM - (value / y_max) * (HEIGHT - TOP - BOTTOM);
    this.svg = makeSvg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": this.label });
    for (const part of [0, 0.5, 1]) {
      const y = this.y(part * y_max);
      this.add("line", { class: part === 0 ? "axis" : "rule", x1: LEFT, x2: width - RIGHT, y1: y, y2: y });
      if (part !== 0.5 || y_max >= 4) this.text(LEFT - 6, y + 3.5, whole(Math.round(part * y_max)), "end");
    }
    this.text(LEFT, HEIGHT - 4, "0", "start");
    this.text(width - RIGHT, HEIGHT - 4, x_text(x_max), "end");
  }

  add(name, attributes) {
    this.svg.append(makeSvg(name, attributes));
  }

  text(x, y, text, anchor, kind = "tick") {
    this.svg.append(makeSvg("text", { class: kind, x, y, "text-anchor": anchor }, text));
  }

  line(kind, points) {
    this.add("path", { class: kind, d: points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("") });
  }

  area(points) {
    const floor = this.y(0);
    this.line("area", [[points[0][0], floor], ...points, [points.at(-1)[0], floor]]);
    this.line("line", points);
    const [x, y] = points.at(-1);
    this.add("circle", { class: "dot", cx: x, cy: y, r: 3 });
  }

  end() {
    this.host.replaceChildren(this.svg);
  }
}

export class LiveChart extends Chart {
  // `samples`: {seen, live}, in order; `budget` null: none.
  update(samples, budget) {
    this.draw = () => {
      const seen = Math.max(0, ...samples.map((sample) => sample.seen));
      const most = Math.max(0, budget ?? 200, ...samples.map((sample) => sample.live));
      const x_max = ceiling(Math.max(seen, 2 * (budget ?? 200)));
      const y_max = ceiling(1.5 * most);
      this.begin(x_max, y_max, (value) => `${whole(value)} seen`);
      const all = Math.min(x_max, y_max);
      this.line("all", [[this.x(0), this.y(0)], [this.x(all), this.y(all)]]);
      if (budget !== null) {
        this.line("budget", [[this.x(0), this.y(budget)], [this.right, this.y(budget)]]);
        this.text(this.right, this.y(budget) - 4, `budget ${whole(budget)}`, "end", "note");
      }
      if (samples.length > 0) this.area([[this.x(0), this.y(0)], ...samples.map(({ seen: s, live }) => [this.x(s), this.y(live)])]);
      this.end();
    };
    this.draw();
  }
}

export class BlocksChart extends Chart {
  // `samples`: {time, blocks, full}, in order: seconds, blocks held, and what all tokens would take.
  update(samples) {
    this.draw = () => {
      const time = Math.max(10, ...samples.map((sample) => sample.time));
      const y_max = ceiling(Math.max(8, ...samples.map((sample) => Math.max(sample.blocks, sample.full))));
      this.begin(time, y_max, (value) => `${Math.round(value)} s`);
      if (samples.length > 0) {
        this.line("all", samples.map((sample) => [this.x(sample.time), this.y(sample.full)]));
        const steps = [];
        for (const { time: t, blocks } of samples) {
          if (steps.length > 0) steps.push([this.x(t), steps.at(-1)[1]]);
          steps.push([this.x(t), this.y(blocks)]);
        }
        this.area(steps);
        const last = samples.at(-1);
        if (last.full > last.blocks + y_max / 6) {
          const x = this.x(last.time);
          const side = x > (LEFT + this.right) / 2 ? "end" : "start";
          this.text(x, Math.max(9, this.y(last.full) - 5), "without a budget", side, "note");
        }
      }
      this.end();
    };
    this.draw();
  }
}
