// The timeline: what each rank did when. Pixels are written by hand: a hundred thousand bars would
// take a canvas's own calls longer than a frame. Where steps are narrower than SEEN_PX a piece of time
// shows how it is divided, as page/draw/timeline.py has it.

import { ask, routeOf } from "./ask.js";
import { PIECE_STEPS, STOPPED, WAITS } from "./busy.js";
import { coloursOf, onTheme, pixel } from "./colours.js";
import { spansOf } from "./moments.js";
import { legend, made, moment, put, seconds, Table } from "./parts.js";
import { KINDS, sharesOf, timelineOf } from "./spans.js";
import { Stage } from "./stage.js";

const PERIOD_MS = 1000;
const WINDOW_S = 20;
const PAST_S = 3600;
const NAMES_PX = 86;
const AXIS_PX = 22;
const LEGIBLE_PX = 14;
const HIGHEST_PX = 28;
const FILLED = 0.85;
const SEEN_PX = 6;
const STEP_PX = 6;
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
    this.legend = legend(figure, [["step", "its own work"], ...KINDS.slice(1).map((kind) => [kind, kind])]);
    this.moment = moment(figure, this.job, PAST_S, () => this.look(), this.aborted.signal);
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
    const at = this.moment.is();
    try {
      const spans = await spansOf(this.job, at, WINDOW_S);
      this.set(spans, at !== null ? null : await ask(routeOf(this.job, "ranks")).catch(() => null));
    } catch (error) {
      put(this.head, error.status === 404 ? "No traces are kept of this job." : `What is shown may be old: ${error.message}`);
    }
    this.asking = false;
    if (this.moment.is() !== at) this.look();
    else if (at === null) this.timer = setTimeout(() => this.look(), PERIOD_MS);
  }

  set(answer, ranks) {
    this.answer = answer;
    this.found = timelineOf(answer, ranks);
    this.shares = null;
    const { lines, fromS, toS, leftOut, says } = this.found;
    const parts = [`${lines.length} rank${lines.length === 1 ? "" : "s"}, ${fromS.toFixed(1)} s to ${toS.toFixed(1)} s`];
    if (leftOut) parts.push(`${leftOut.toLocaleString("en")} are left out`);
    if (answer.dropped) parts.push(`${answer.dropped.toLocaleString("en")} spans were dropped`);
    const errors = Object.values(answer.clock_error_s ?? {});
    if (errors.length) parts.push(`clocks agree within ${(1000 * Math.max(...errors)).toPrecision(2)} ms`);
    if (says) parts.push(says);
    if (answer.more) parts.push("later spans are left out: there are too many");
    const there = new Set(this.found.segments.flatMap((line) => line.map((each) => each.kind)));
    for (const item of this.legend.children) item.hidden = !there.has(item.dataset.kind);
    put(this.head, lines.length ? parts.join("; ") : "No spans are kept of that time.");
    this.table.set(() => this.rows());
    const [first] = this.found.awaited;
    if (first !== undefined && first !== this.shownRank) this.stage.y = Math.max(0, lines.indexOf(first) * this.tall - this.stage.height / 2);
    this.shownRank = first;
    this.stage.fitted();
    this.stage.changed();
  }

  rows() {
    const { spans } = this.answer;
    return spans.slice(-TABLE_ROWS).reverse().map((span) => [
      String(span.rank), span.node, [span.kind, span.name].filter(Boolean).join(" "),
      `${(span.start_s ?? 0).toFixed(3)} s`, seconds(span.took_s ?? 0), seconds(span.waited_s ?? 0),
    ]);
  }

  repaint() {
    this.colours = coloursOf(this.figure);
    this.stage.changed();
  }

  // ---------------------------------------------------------------- the picture: its width is time

  get tall() {
    return this.found ? Math.max(2, Math.min(HIGHEST_PX, (this.stage.height - AXIS_PX) / Math.max(1, this.found.lines.length))) : 2;
  }

  high() {
    return this.found ? this.found.lines.length * HIGHEST_PX + AXIS_PX : 0;
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
    const left = Math.round(NAMES_PX * ratio);
    const of = (atS) => left + Math.round(((atS - this.found.fromS - leftS) / perPx) * ratio);
    this.area = { wide, left, of, last: tall - Math.ceil(AXIS_PX * ratio) };
    this.palette = new Map(KINDS.map((kind) => [kind, pixel(this.colourOf(kind))]));
    const { stepS, lines } = this.found;
    const narrow = stepS > 0 && stepS / perPx < SEEN_PX;
    for (let line = 0; line < lines.length; line += 1) {
      const top = Math.round((line * this.tall - stage.y) * ratio);
      const below = top + Math.max(1, Math.floor(this.tall * ratio * FILLED));
      if (below <= 0 || top >= tall) continue;
      if (narrow) this.paintShares(line, top, below, Math.max(PIECE_STEPS * stepS, perPx));
      else this.paintSteps(line, top, below, stepS / perPx >= STEP_PX);
    }
    context.putImageData(this.image, 0, 0);
  }

  colourOf(kind) {
    return { [STOPPED]: this.colours.mark, [WAITS]: this.colours.wait, phase: this.colours.quiet }[kind] ?? this.colours[kind] ?? this.colours.quiet;
  }

  /** Each span by itself; a thin line where a step begins. */
  paintSteps(line, top, below, lined) {
    const { of } = this.area;
    for (const { beginS, endS, kind } of this.found.segments[line]) this.fill(of(beginS), Math.max(of(endS), of(beginS) + 1), top, below, kind);
    if (!lined) return;
    const { bars, fromS } = this.found;
    for (let at = bars.firstOf[line]; at < bars.firstOf[line + 1] && bars.spans[at].kind === "step"; at += 1) {
      const x = of(bars.from[at] + fromS);
      this.fill(x, x + 1, top, below, null);
    }
  }

  /** From below what the rank does, and above it what it waits. */
  paintShares(line, top, below, pieceS) {
    if (this.shares?.pieceS !== pieceS) this.shares = { pieceS, lines: sharesOf(this.found, pieceS) };
    const { of } = this.area;
    const { fromS, toS } = this.found;
    for (const { beginS, shares } of this.shares.lines[line]) {
      const [from, to] = [Math.max(fromS, beginS), Math.min(toS, beginS + pieceS)];
      const kinds = Object.keys(shares).sort((one, other) => (one === WAITS) - (other === WAITS) || (one < other ? -1 : 1));
      const whole = Math.max((to - from) / pieceS, kinds.reduce((sum, kind) => sum + shares[kind], 0));
      let done = 0;
      for (const kind of kinds) {
        const edge = below - Math.round((done / whole) * (below - top));
        done += shares[kind];
        this.fill(of(from), of(to), below - Math.round((done / whole) * (below - top)), edge, kind);
      }
    }
  }

  /** A rectangle of pixels; waits are hatched, and null is a line. */
  fill(x0, x1, y0, y1, kind) {
    const { wide, left, last } = this.area;
    const [from, to] = [Math.max(left, x0), Math.min(wide, x1)];
    if (to <= from) return;
    const colour = kind === null ? pixel(this.colours.text) : (this.palette.get(kind) ?? this.palette.get("phase"));
    const hatched = kind === WAITS;
    for (let y = Math.max(0, y0); y < Math.min(last, y1); y += 1) {
      const row = y * wide;
      if (!hatched) this.pixels.fill(colour, row + from, row + to);
      else for (let x = from; x < to; x += 1) if ((x + y) % 5 < 2) this.pixels[row + x] = colour;
    }
  }

  middleOf(line, stage) {
    return Math.max(7, (line + FILLED / 2) * this.tall - stage.y);
  }

  words(context, stage) {
    const { css } = this.colours;
    const { lines, nodes, awaited, fromS } = this.found;
    const marked = new Set(awaited);
    const named = new Set([...awaited, stage.marked]);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    const marks = lines.flatMap((rank, line) => (named.has(rank) ? [this.middleOf(line, stage)] : []));
    let above = -LEGIBLE_PX;
    lines.forEach((rank, line) => {
      const y = this.middleOf(line, stage);
      if ((line + 1) * this.tall < stage.y || y > stage.height - AXIS_PX) return;
      if (!named.has(rank) && (y - above < LEGIBLE_PX || marks.some((other) => Math.abs(other - y) < LEGIBLE_PX))) return;
      above = y;
      context.fillStyle = marked.has(rank) ? css.mark : rank === stage.marked ? css.text : css.quiet;
      if (rank === stage.marked) this.lined(context, stage, line);
      context.fillText(`${rank} ${nodes.get(rank) ?? ""}`, 2, y, NAMES_PX - 6);
    });
    const { perPx, leftS, wide } = this.scaleOf(stage);
    context.fillStyle = css.ground;
    context.fillRect(0, stage.height - AXIS_PX, stage.width, AXIS_PX);
    context.fillStyle = css.quiet;
    const ticks = wide < 400 ? 2 : 4;
    for (let tick = 0; tick <= ticks; tick += 1) {
      context.textAlign = tick === ticks ? "right" : tick ? "center" : "left";
      const at = fromS + leftS + (tick / ticks) * wide * perPx;
      const x = NAMES_PX + (tick / ticks) * wide - (tick === ticks ? 2 : 0);
      context.fillText(`${at.toFixed(perPx < 0.001 ? 4 : 1)} s`, x, stage.height - AXIS_PX / 2);
    }
    context.textAlign = "left";
    if (!stage.item) return;
    const y = this.found.bars.line[stage.item.at] * this.tall - stage.y;
    const x = NAMES_PX + (this.found.bars.from[stage.item.at] - leftS) / perPx;
    const long = (this.found.bars.to[stage.item.at] - this.found.bars.from[stage.item.at]) / perPx;
    context.strokeStyle = css.text;
    context.strokeRect(Math.max(NAMES_PX, x), y, Math.max(2, long), this.tall * FILLED);
  }

  /** Round the line of the rank that was chosen. */
  lined(context, stage, line) {
    context.strokeStyle = this.colours.css.text;
    context.strokeRect(0.5, line * this.tall - stage.y - 0.5, stage.width - 1, this.tall * FILLED + 1);
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

  rankOf({ at }) {
    return this.found.bars.spans[at]?.rank;
  }

  /** The last that is known of a rank. */
  itemOf(rank) {
    if (!this.found) return null;
    const { lines, bars } = this.found;
    const line = lines.indexOf(rank);
    return line < 0 || bars.firstOf[line] === bars.firstOf[line + 1] ? null : { at: bars.firstOf[line + 1] - 1 };
  }

  says({ at }) {
    const span = this.found.bars.spans[at];
    if (!span) return "";
    const what = [span.kind, span.name, span.axis && `(${span.axis})`].filter(Boolean).join(" ");
    const waited = span.waited_s ? `, ${seconds(span.waited_s)} of it waiting` : "";
    const under = span.ended === false ? ", under way" : "";
    return `Rank ${span.rank} on ${this.found.nodes.get(span.rank) ?? "?"}: ${what}, step ${span.step ?? 0}, from ${(span.start_s ?? 0).toFixed(3)} s for ${seconds(span.took_s ?? 0)}${waited}${under}`;
  }
}
