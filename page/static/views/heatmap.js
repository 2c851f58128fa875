// The heat map: a field of cells for each thing that takes time, a pixel of an image a rank, made
// once for each answer; moving and zooming only copies it.

import { routeOf } from "./ask.js";
import { coloursOf, mixed, onTheme, pixel } from "./colours.js";
import { follow } from "./feed.js";
import { digest, MIDDLE, NAMED, UNKNOWN } from "./heat.js";
import { past } from "./moments.js";
import { made, moment, names, put, seconds, Table } from "./parts.js";
import { Stage } from "./stage.js";

const GAP = 2;
const HEAD = 7;
const RING_PX = 7;
const PAST_S = 600;
const TABLE_ROWS = 100;

export function heatmap(figure) {
  return new Heatmap(figure);
}

class Heatmap {
  constructor(figure) {
    this.figure = figure;
    this.job = figure.dataset.job;
    this.found = null;
    this.aborted = new AbortController();
    this.head = made("p", "Asking …", "view-head");
    figure.append(this.head);
    this.stage = new Stage(figure, this, { label: `Heat map of the ranks of ${this.job}` });
    this.list = made("ul", "", "view-names");
    figure.append(this.list);
    this.moment = moment(figure, PAST_S, (ago) => this.look(ago));
    this.table = new Table(figure, ["rank", "node", "state", "step", "own", "CPU", "waits"], `Ranks of ${this.job}: first who differs`);
    this.colours = coloursOf(figure);
    onTheme(() => this.repaint(), this.aborted.signal);
    follow(routeOf(this.job, "ranks"), (found, error) => this.told(found, error), this.aborted.signal, "heat");
  }

  /** So many seconds ago, from traces; null: now. */
  async look(ago) {
    if (!ago) return;
    try {
      this.set(digest(await past(this.job, ago))[0]);
    } catch (error) {
      put(this.head, error.status === 404 ? "No traces are kept of that time." : error.message);
    }
  }

  told(found, error) {
    if (this.moment.is()) return;
    if (error) put(this.head, `What is shown may be old: ${error.message}`);
    else this.set(found);
  }

  set(found) {
    this.found = found;
    this.images = null;
    this.spread(this.stage);
    const { outliers, window_s: windowS } = found;
    const count = `${found.count.toLocaleString("en")} ranks`;
    const window = windowS ? ` over the last ${windowS.toPrecision(3)} s` : "";
    const nothing = found.nothing || "There are no ranks.";
    put(this.head, found.count ? `${count}; step ${found.step.toLocaleString("en")}${window}. Blue: less than its role, orange: more, ringed: named below.` : nothing);
    const told = outliers.slice(0, NAMED).map((each) => [`rank ${each.rank} on ${each.node}:`, each.says]);
    if (outliers.length > NAMED) told.push([`and ${(outliers.length - NAMED).toLocaleString("en")} more`, "that are ringed"]);
    if (!told.length && found.count) told.push(["", "no rank differs from the others of its role"]);
    names(this.list, told);
    this.table.set(() => this.rows());
    this.stage.changed();
  }

  rows() {
    const { outliers, count, rank, steps, columns, order } = this.found;
    const first = outliers.map((each) => each.row);
    const known = new Set(first);
    const rest = Array.from(order.subarray(0, Math.min(count, 2 * TABLE_ROWS))).filter((at) => !known.has(at));
    const shown = ["own", "computes", "waits"].map((name) => columns.find((column) => column.name === name));
    return [...first, ...rest].slice(0, TABLE_ROWS).map((at) => {
      const times = shown.map((column) => (column && !Number.isNaN(column.values[at]) ? seconds(column.values[at]) : ""));
      return [String(rank[at]), this.nodeOf(at), this.stateOf(at), String(steps[at]), ...times];
    });
  }

  nodeOf(row) {
    return this.found.nodes[this.found.node[row]];
  }

  stateOf(row) {
    return this.found.states[this.found.state[row]];
  }

  repaint() {
    this.colours = coloursOf(this.figure);
    this.images = null;
    this.stage.changed();
  }

  // ---------------------------------------------------------------- the picture: a unit a rank

  resized(stage) {
    if (this.found) this.spread(stage);
  }

  /** As many fields in a line as make them largest. */
  spread(stage) {
    let best = 0;
    const count = this.found.columns.length;
    for (let across = 1; across <= count; across += 1) {
      const wide = stage.width / (across * (this.wide + this.gap));
      const tall = stage.height / (Math.ceil(count / across) * (this.found.lines + this.headUnits + this.gap));
      const scale = Math.min(wide, tall);
      if (scale > best) [best, this.across] = [scale, across];
    }
  }

  get wide() {
    return Math.min(this.found.line, Math.max(1, this.found.count));
  }

  get headUnits() {
    return Math.max(1, (this.found.lines * HEAD) / 48);
  }

  get gap() {
    return Math.max(1, (this.wide * GAP) / 48);
  }

  size() {
    if (!this.found) return [1, 1];
    const down = Math.ceil(this.found.columns.length / this.across);
    return [this.across * (this.wide + this.gap) - this.gap, down * (this.found.lines + this.headUnits + this.gap) - this.gap];
  }

  cornerOf(column) {
    const x = (column % this.across) * (this.wide + this.gap);
    return [x, Math.floor(column / this.across) * (this.found.lines + this.headUnits + this.gap) + this.headUnits];
  }

  painted() {
    this.images ??= this.found.columns.map((column) => this.image(column));
    return this.images;
  }

  image(column) {
    const { line, lines, size, x, y } = this.found;
    const canvas = document.createElement("canvas");
    canvas.width = line;
    canvas.height = lines;
    const data = new ImageData(line, lines);
    const pixels = new Uint32Array(data.data.buffer);
    const scale = Uint32Array.from({ length: 256 }, (_, at) => pixel(at === UNKNOWN ? this.colours.unknown : mixed(this.colours, at / MIDDLE - 1)));
    for (let row = 0; row < column.levels.length; row += 1) {
      pixels[(y[row] * line + x[row]) / size] = scale[column.levels[row]];
    }
    canvas.getContext("2d").putImageData(data, 0, 0);
    return canvas;
  }

  draw(context, stage) {
    const { css } = this.colours;
    context.fillStyle = css.ground;
    context.fillRect(0, 0, stage.width, stage.height);
    if (!this.found?.count) return;
    context.imageSmoothingEnabled = false;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "bottom";
    const { scale } = stage;
    this.painted().forEach((image, at) => {
      const [x, y] = this.cornerOf(at);
      const [left, top] = [(x - stage.x) * scale, (y - stage.y) * scale];
      if (left > stage.width || top > stage.height || left + image.width * scale < 0 || top + image.height * scale < 0) return;
      context.drawImage(image, left, top, image.width * scale, image.height * scale);
      context.strokeStyle = css.line;
      context.strokeRect(left, top, this.wide * scale, image.height * scale);
      context.fillStyle = css.text;
      context.fillText(this.found.columns[at].name, left, top - 2, this.wide * scale);
      this.rings(context, stage, left, top);
    });
    this.pointed(context, stage);
  }

  rings(context, stage, left, top) {
    const { x, y, size, outliers } = this.found;
    const radius = Math.max(RING_PX, stage.scale * 0.9);
    context.strokeStyle = this.colours.css.mark;
    context.lineWidth = 2;
    context.beginPath();
    for (const { row } of outliers) {
      const cx = left + (x[row] / size + 0.5) * stage.scale;
      const cy = top + (y[row] / size + 0.5) * stage.scale;
      if (cx < -radius || cy < -radius || cx > stage.width + radius || cy > stage.height + radius) continue;
      context.moveTo(cx + radius, cy);
      context.arc(cx, cy, radius, 0, 2 * Math.PI);
    }
    context.stroke();
    context.lineWidth = 1;
  }

  pointed(context, stage) {
    if (!stage.item) return;
    const [x, y] = this.placeOf(stage.item);
    const side = Math.max(stage.scale, 5);
    context.strokeStyle = this.colours.css.text;
    context.lineWidth = 2;
    context.strokeRect((x - stage.x) * stage.scale - 1, (y - stage.y) * stage.scale - 1, side + 2, side + 2);
    context.lineWidth = 1;
  }

  // ---------------------------------------------------------------- what is pointed at

  placeOf({ row, column }) {
    const [x, y] = this.cornerOf(column);
    return [x + this.found.x[row] / this.found.size, y + this.found.y[row] / this.found.size];
  }

  itemAt(column, x, y) {
    if (x < 0 || y < 0 || x >= this.wide || y >= this.found.lines) return null;
    const at = y * this.found.line + x;
    const row = this.found.order[at];
    return row === undefined || column >= this.found.columns.length ? null : { row, column, at };
  }

  pick(x, y) {
    if (!this.found) return null;
    for (let column = 0; column < this.found.columns.length; column += 1) {
      const [left, top] = this.cornerOf(column);
      const item = this.itemAt(column, Math.floor(x - left), Math.floor(y - top));
      if (item) return this.same(item);
    }
    return null;
  }

  /** The item that is shown already, where it is the same. */
  same(item) {
    const now = this.stage.item;
    return now && item && now.row === item.row && now.column === item.column ? now : item;
  }

  first() {
    if (!this.found?.count) return null;
    const row = this.found.outliers[0]?.row ?? this.found.order[0];
    return { row, column: 0, at: this.found.order.indexOf(row) };
  }

  step(item, dx, dy) {
    if (!this.found) return null;
    if (!item) return this.first();
    const row = this.found.order[item.at + dx + dy * this.found.line];
    return row === undefined ? item : { row, column: item.column, at: item.at + dx + dy * this.found.line };
  }

  says({ row, column }) {
    const field = this.found.columns[column];
    const value = field.values[row];
    const told = Number.isNaN(value) ? "not known" : seconds(value);
    const verdict = this.found.verdicts.get(row);
    return `Rank ${this.found.rank[row]} on ${this.nodeOf(row)}, ${this.stateOf(row)}: ${field.says} ${told}${verdict ? `. ${verdict}` : ""}`;
  }
}
