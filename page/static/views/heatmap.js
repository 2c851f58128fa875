// The heat map: a field of cells for each thing that takes time, a pixel of an image a rank, made
// once for each answer; moving and zooming only copies it.

import { coloursOf, mixed, onTheme, pixel } from "./colours.js";
import { follow, routeOf } from "./feed.js";
import { NAMED, heat } from "./heat.js";
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
    follow(routeOf(this.job, "ranks"), (answer, error) => this.told(answer, error), this.aborted.signal);
  }

  /** So many seconds ago, from traces; null: now. */
  async look(ago) {
    if (!ago) return;
    try {
      this.set(await past(this.job, ago));
    } catch (error) {
      put(this.head, error.status === 404 ? "No traces are kept of that time." : error.message);
    }
  }

  told(answer, error) {
    if (this.moment.is()) return;
    if (error) put(this.head, `What is shown may be old: ${error.message}`);
    else this.set(answer);
  }

  set(answer) {
    this.answer = answer;
    this.found = heat(answer, 96);
    this.found.images = null;
    this.across = Math.max(1, Math.ceil(Math.sqrt(this.found.columns.length * 0.75)));
    const { outliers, window_s: windowS } = this.found;
    const count = `${answer.ranks.length.toLocaleString("en")} ranks`;
    const window = windowS ? ` over the last ${windowS.toPrecision(3)} s` : "";
    const nothing = answer.nothing || "There are no ranks.";
    put(this.head, answer.ranks.length ? `${count}; step ${answer.step.toLocaleString("en")}${window}. Blue: less than its role, orange: more, ringed: named below.` : nothing);
    const told = outliers.slice(0, NAMED).map((each) => [`rank ${each.rank} on ${each.node}:`, each.says]);
    if (outliers.length > NAMED) told.push([`and ${(outliers.length - NAMED).toLocaleString("en")} more`, "that are ringed"]);
    if (!told.length && answer.ranks.length) told.push(["", "no rank differs from the others of its role"]);
    names(this.list, told);
    this.table.set(() => this.rows());
    this.stage.changed();
  }

  rows() {
    const first = this.found.outliers.map((each) => each.row);
    const known = new Set(first);
    const rest = this.answer.ranks.map((_, at) => at).filter((at) => !known.has(at));
    return [...first, ...rest].slice(0, TABLE_ROWS).map((at) => {
      const row = this.answer.ranks[at];
      const spent = row.spent ?? {};
      const time = (value) => (value === undefined ? "" : seconds(value));
      return [String(row.rank), row.node, row.state ?? "unseen", String(row.step ?? 0), time(spent.own_s), time(spent.cpu_s), time(spent.waits_s)];
    });
  }

  repaint() {
    this.colours = coloursOf(this.figure);
    if (this.found) this.found.images = null;
    this.stage.changed();
  }

  // ---------------------------------------------------------------- the picture: a unit a rank

  get wide() {
    return Math.min(this.found.line, Math.max(1, this.answer.ranks.length));
  }

  get head_units() {
    return Math.max(1, (this.found.lines * HEAD) / 48);
  }

  get gap() {
    return Math.max(1, (this.wide * GAP) / 48);
  }

  size() {
    if (!this.found) return [1, 1];
    const down = Math.ceil(this.found.columns.length / this.across);
    return [this.across * (this.wide + this.gap) - this.gap, down * (this.found.lines + this.head_units + this.gap) - this.gap];
  }

  cornerOf(column) {
    const x = (column % this.across) * (this.wide + this.gap);
    return [x, Math.floor(column / this.across) * (this.found.lines + this.head_units + this.gap) + this.head_units];
  }

  images() {
    if (!this.found.images) this.found.images = this.found.columns.map((column) => this.image(column));
    return this.found.images;
  }

  image(column) {
    const { line, lines, size, x, y } = this.found;
    const canvas = document.createElement("canvas");
    canvas.width = line;
    canvas.height = lines;
    const data = new ImageData(line, lines);
    const pixels = new Uint32Array(data.data.buffer);
    const scale = Array.from({ length: 65 }, (_, at) => pixel(mixed(this.colours, at / 32 - 1)));
    const unknown = pixel(this.colours.unknown);
    column.shares.forEach((share, row) => {
      const at = (y[row] / size) * line + x[row] / size;
      pixels[at] = share === null ? unknown : scale[Math.round((share + 1) * 32)];
    });
    canvas.getContext("2d").putImageData(data, 0, 0);
    return canvas;
  }

  draw(context, stage) {
    const { css } = this.colours;
    context.fillStyle = css.ground;
    context.fillRect(0, 0, stage.width, stage.height);
    if (!this.found || !this.answer.ranks.length) return;
    context.imageSmoothingEnabled = false;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "bottom";
    const { scale } = stage;
    this.images().forEach((image, at) => {
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
    if (!this.found?.order.length) return null;
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
    const rank = this.answer.ranks[row];
    const field = this.found.columns[column];
    const value = field.values[row];
    const told = value === null || value === undefined ? "not known" : seconds(value);
    const verdict = rank.verdict ? `. ${rank.verdict}` : "";
    return `Rank ${rank.rank} on ${rank.node}, ${rank.state ?? "unseen"}: ${field.says} ${told}${verdict}`;
  }
}
