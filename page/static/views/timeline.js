// The timeline: what each rank did when. Pixels are written by hand: a hundred thousand bars would
// take a canvas's own calls longer than a frame.

import { coloursOf, onTheme, pixel } from "./colours.js";
import { ask, routeOf } from "./ask.js";
import { spansOf } from "./moments.js";
import { made, moment, put, seconds, Table } from "./parts.js";
import { KINDS, timelineOf } from "./spans.js";
import { Stage } from "./stage.js";

const PERIOD_MS = 1000;
const WINDOW_S = 20;
const PAST_S = 3600;
const NAMES_PX = 86;
const AXIS_PX = 22;
const LEGIBLE_PX = 10;
const TABLE_ROWS = 100;

export function timeline(figure) {
  return new Timeline(figure);
}

class Timeline {
  constructor(figure) {
    this.figure = figure;
    this.job = figure.dataset.job;
    this.found = null;
    this.aborted = new AbortController();
    this.head = made("p", "Asking …", "view-head");
    figure.append(this.head);
    this.stage = new Stage(figure, this, { label: `Timeline of the ranks of ${this.job}`, xOnly: true });
    this.legend(figure);
    this.moment = moment(figure, PAST_S, () => this.look());
    this.table = new Table(figure, ["rank", "node", "what", "from", "took", "waited"], `Spans of ${this.job}: the last`);
    this.colours = coloursOf(figure);
    onTheme(() => this.repaint(), this.aborted.signal);
    document.addEventListener("visibilitychange", () => this.look(), { signal: this.aborted.signal });
    this.look();
  }

  async look() {
    clearTimeout(this.timer);
    if (document.hidden || this.asking) return;
    this.asking = true;
    try {
      const ago = this.moment.is();
      const spans = await spansOf(this.job, ago ?? 0, WINDOW_S);
      this.set(spans, ago ? null : await ask(routeOf(this.job, "ranks")).catch(() => null));
    } catch (error) {
      put(this.head, error.status === 404 ? "No traces are kept of this job." : `What is shown may be old: ${error.message}`);
    }
    this.asking = false;
    if (!this.moment.is()) this.timer = setTimeout(() => this.look(), PERIOD_MS);
  }

  set(answer, ranks) {
    this.answer = answer;
    this.found = timelineOf(answer, ranks);
    const { lines, fromS, toS, leftOut, says } = this.found;
    const parts = [`${lines.length} ranks, ${fromS.toFixed(1)} s to ${toS.toFixed(1)} s`];
    if (leftOut) parts.push(`${leftOut.toLocaleString("en")} are left out`);
    if (answer.dropped) parts.push(`${answer.dropped.toLocaleString("en")} spans were dropped`);
    const errors = Object.values(answer.clock_error_s ?? {});
    if (errors.length) parts.push(`clocks agree within ${(1000 * Math.max(...errors)).toPrecision(2)} ms`);
    if (says) parts.push(says);
    put(this.head, lines.length ? parts.join("; ") : "No spans are kept of that time.");
    this.table.set(() => this.rows());
    const [first] = this.found.awaited;
    if (first !== undefined && first !== this.shownRank) this.stage.y = Math.max(0, lines.indexOf(first) * this.tall - this.stage.height / 2);
    this.shownRank = first;
    this.stage.changed();
  }

  rows() {
    const { spans } = this.answer;
    return spans.slice(-TABLE_ROWS).reverse().map((span) => [
      String(span.rank), span.node, [span.kind, span.name].filter(Boolean).join(" "),
      `${(span.start_s ?? 0).toFixed(3)} s`, seconds(span.took_s ?? 0), seconds(span.waited_s ?? 0),
    ]);
  }

  legend(figure) {
    const list = made("ul", "", "view-legend");
    for (const kind of [...KINDS.slice(1), "waits"]) {
      const item = made("li", kind);
      item.dataset.kind = kind;
      list.append(item);
    }
    figure.append(list);
  }

  repaint() {
    this.colours = coloursOf(this.figure);
    this.stage.changed();
  }

  // ---------------------------------------------------------------- the picture: its width is time

  get tall() {
    return this.found ? Math.max(2, Math.min(18, (this.stage.height - AXIS_PX) / Math.max(1, this.found.lines.length))) : 2;
  }

  size() {
    return [1000, this.found ? this.found.lines.length * this.tall + AXIS_PX : 1];
  }

  /** Seconds a CSS pixel, and the seconds at the left edge of the bars. */
  scaleOf(stage) {
    const wide = Math.max(1, stage.width - NAMES_PX);
    const allS = Math.max(1e-6, this.found.toS - this.found.fromS);
    return { perPx: allS / stage.zoom / wide, leftS: (stage.x / 1000) * allS, wide };
  }

  draw(context, stage) {
    const { css } = this.colours;
    if (!this.found) {
      context.fillStyle = css.ground;
      context.fillRect(0, 0, stage.width, stage.height);
      return;
    }
    this.paint(context, stage);
    this.words(context, stage);
  }

  paint(context, stage) {
    const [wide, tall] = [stage.canvas.width, stage.canvas.height];
    if (this.image?.width !== wide || this.image?.height !== tall) {
      this.image = new ImageData(wide, tall);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    this.pixels.fill(pixel(this.colours.ground));
    const { ratio } = stage;
    const { perPx, leftS } = this.scaleOf(stage);
    const step = perPx / ratio;
    const left = Math.round(NAMES_PX * ratio);
    const palette = KINDS.map((kind) => pixel(this.colours[kind]));
    const [wait, ground] = [pixel(this.colours.wait), pixel(this.colours.ground)];
    const { bars, lines } = this.found;
    const lineTall = this.tall * ratio;
    for (let line = 0; line < lines.length; line += 1) {
      const top = Math.round((line * this.tall - stage.y) * ratio);
      const below = Math.min(tall - AXIS_PX * ratio, top + Math.max(1, Math.floor(lineTall * 0.85)));
      if (below <= 0 || top >= tall) continue;
      for (let at = bars.firstOf[line]; at < bars.firstOf[line + 1]; at += 1) {
        const x0 = Math.max(left, left + Math.floor((bars.from[at] - leftS) / step));
        const x1 = Math.min(wide, left + Math.max(Math.ceil((bars.to[at] - leftS) / step), 1));
        if (x1 <= left || x0 >= wide || bars.to[at] < leftS) continue;
        const waits = left + (bars.waits[at] - leftS) / step;
        const bottom = bars.kind[at] === 0 ? Math.min(below, top + Math.max(1, Math.floor(lineTall * 0.35))) : below;
        for (let y = Math.max(0, top); y < bottom; y += 1) {
          const row = y * wide;
          const until = Math.min(x1, Math.max(x0, Math.floor(waits)));
          for (let x = x0; x < until; x += 1) this.pixels[row + x] = (x + y) % 5 < 2 ? wait : ground;
          this.pixels.fill(palette[bars.kind[at]], row + until, row + Math.max(until, x1));
        }
      }
    }
    context.putImageData(this.image, 0, 0);
  }

  words(context, stage) {
    const { css } = this.colours;
    const { lines, nodes, awaited, fromS } = this.found;
    const marked = new Set(awaited);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    lines.forEach((rank, line) => {
      const y = Math.max(7, (line + 0.5) * this.tall - stage.y);
      if ((line + 1) * this.tall < stage.y || y > stage.height - AXIS_PX || (this.tall < LEGIBLE_PX && !marked.has(rank))) return;
      context.fillStyle = marked.has(rank) ? css.mark : css.quiet;
      context.fillText(`${rank} ${nodes.get(rank) ?? ""}`, 2, y, NAMES_PX - 6);
    });
    const { perPx, leftS, wide } = this.scaleOf(stage);
    context.fillStyle = css.ground;
    context.fillRect(0, stage.height - AXIS_PX, stage.width, AXIS_PX);
    context.fillStyle = css.quiet;
    for (let tick = 0; tick <= 4; tick += 1) {
      context.textAlign = tick === 4 ? "right" : tick ? "center" : "left";
      const at = fromS + leftS + (tick / 4) * wide * perPx;
      context.fillText(`${at.toFixed(perPx < 0.001 ? 4 : 2)} s`, NAMES_PX + (tick / 4) * wide, stage.height - AXIS_PX / 2);
    }
    context.textAlign = "left";
    if (!stage.item) return;
    const y = this.found.bars.line[stage.item.at] * this.tall - stage.y;
    const x = NAMES_PX + (this.found.bars.from[stage.item.at] - leftS) / perPx;
    const long = (this.found.bars.to[stage.item.at] - this.found.bars.from[stage.item.at]) / perPx;
    context.strokeStyle = css.text;
    context.strokeRect(x, y, Math.max(2, long), this.tall);
  }

  // ---------------------------------------------------------------- what is pointed at

  pick(x, y) {
    if (!this.found) return null;
    const { stage } = this;
    const { perPx, leftS } = this.scaleOf(stage);
    const px = (x - stage.x) * stage.scale - NAMES_PX;
    const line = Math.floor(y / this.tall);
    if (px < 0 || line < 0 || line >= this.found.lines.length) return null;
    return this.same(this.barAt(line, leftS + px * perPx, perPx));
  }

  barAt(line, atS, slackS) {
    const { bars } = this.found;
    for (let at = bars.firstOf[line + 1] - 1; at >= bars.firstOf[line]; at -= 1) {
      if (bars.from[at] - slackS <= atS && atS <= bars.to[at] + slackS) return { at };
    }
    return null;
  }

  same(item) {
    return item && this.stage.item?.at === item.at ? this.stage.item : item;
  }

  first() {
    return this.found?.bars.spans.length ? { at: 0 } : null;
  }

  step(item, dx, dy) {
    if (!this.found) return null;
    if (!item) return this.first();
    const { bars } = this.found;
    if (dx) return bars.spans[item.at + dx] ? { at: item.at + dx } : item;
    const line = bars.line[item.at] + dy;
    if (line < 0 || line >= this.found.lines.length || bars.firstOf[line] === bars.firstOf[line + 1]) return item;
    return this.barAt(line, bars.from[item.at], 0) ?? { at: bars.firstOf[line] };
  }

  placeOf({ at }) {
    return [0, this.found.bars.line[at] * this.tall];
  }

  says({ at }) {
    const span = this.found.bars.spans[at];
    if (!span) return "";
    const what = [span.kind, span.name].filter(Boolean).join(" ");
    const waited = span.waited_s ? `, ${seconds(span.waited_s)} of it waiting` : "";
    const under = span.ended === false ? ", under way" : "";
    return `Rank ${span.rank} on ${this.found.nodes.get(span.rank) ?? "?"}: ${what}, step ${span.step ?? 0}, from ${(span.start_s ?? 0).toFixed(3)} s for ${seconds(span.took_s ?? 0)}${waited}${under}`;
  }
}
