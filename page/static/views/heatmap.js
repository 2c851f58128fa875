// The heat map: a field of cells for each thing that takes time, a pixel of an image a rank, made
// once for each answer; moving and zooming only copies it.

import { routeOf } from "./ask.js";
import { coloursOf, mixed, onTheme, pixel, readable } from "./colours.js";
import { follow } from "./feed.js";
import { digest, MIDDLE, NAMED, UNKNOWN } from "./heat.js";
import { past } from "./moments.js";
import { made, moment, names, put, seconds, Table } from "./parts.js";
import { Stage } from "./stage.js";

const GAP_PX = 14;
const HEAD_PX = 20;
const RING_PX = 7;
const LARGEST_PX = 40;
const ENOUGH_PX = 28;
const NUMBERED_PX = 16;
const NAME_PX = 148;
const SHORT_PX = 84;
const EDGE_PX = 8;
const PAST_S = 3600;
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
    this.moment = moment(figure, this.job, PAST_S, (at) => this.look(at), this.aborted.signal);
    this.table = new Table(figure, ["rank", "node", "state", "step", "own", "CPU", "waits"], `Ranks of ${this.job}: first who differs`);
    this.colours = coloursOf(figure);
    onTheme(() => this.repaint(), this.aborted.signal);
    this.look(this.moment.is());
    follow(routeOf(this.job, "ranks"), (found, error) => this.told(found, error), this.aborted.signal, "heat");
  }

  /** At a moment, from traces; null: now. */
  async look(at) {
    if (at === null) return this.now && this.set(this.now);
    try {
      const then = digest(await past(this.job, at))[0];
      if (at === this.moment.is()) this.set(then);
    } catch (error) {
      if (at === this.moment.is()) put(this.head, error.status === 404 ? "No traces are kept of that time." : error.message);
    }
  }

  told(found, error) {
    this.now = found ?? this.now;
    if (this.moment.is() !== null) return;
    if (error) put(this.head, `What is shown may be old: ${error.message}`);
    else this.set(found);
  }

  set(found) {
    this.found = found;
    this.images = null;
    this.stage.fitted();
    this.spread(this.stage.width, this.stage.most);
    const { outliers, window_s: windowS } = found;
    const count = `${found.count.toLocaleString("en")} ranks`;
    const window = windowS ? ` over the last ${windowS.toPrecision(3)} s` : "";
    const nothing = found.nothing || "There are no ranks.";
    put(this.head, found.count ? `${count}; step ${found.step.toLocaleString("en")}${window}. Blue: less than its role, orange: more; where an amount is named, none is pale and so much orange. Ringed: named below.` : nothing);
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

  // ---------------------------------------------------------------- the picture, in CSS pixels

  resized(stage) {
    if (this.found) this.spread(stage.width, stage.most);
  }

  high(width, most) {
    if (!this.found?.count) return 0;
    this.spread(width, most);
    return this.size()[1];
  }

  /**
   * As many fields in a line as make cells largest, and as many as can be where that is enough; names
   * have the room that they need.
   */
  spread(width, most) {
    this.fields(width - 2 * EDGE_PX, most, NAME_PX);
    if (this.cell < 2) this.fields(width - 2 * EDGE_PX, most, SHORT_PX);
  }

  fields(width, most, least) {
    this.cell = 0;
    const count = this.found.columns.length;
    for (let across = 1; across <= count; across += 1) {
      const slot = Math.floor((width - (across - 1) * GAP_PX) / across);
      if (across > 1 && slot < least) break;
      const rows = Math.ceil(count / across);
      const tall = most / rows - HEAD_PX - GAP_PX;
      const room = Math.min(LARGEST_PX, slot / this.wide, Math.max(tall, 1) / this.found.lines);
      const cell = room >= 2 ? Math.floor(room) : room;
      if (Math.min(cell, ENOUGH_PX) >= Math.min(this.cell, ENOUGH_PX)) Object.assign(this, { cell, across, slot });
    }
    this.slot = Math.min(this.slot, Math.max(least, this.wide * this.cell));
  }

  get wide() {
    return Math.min(this.found.line, Math.max(1, this.found.count));
  }

  get row() {
    return this.found.lines * this.cell + HEAD_PX + GAP_PX;
  }

  size() {
    if (!this.found?.count) return [1, 1];
    return [this.across * (this.slot + GAP_PX) - GAP_PX + 2 * EDGE_PX, Math.ceil(this.found.columns.length / this.across) * this.row - GAP_PX + EDGE_PX];
  }

  cornerOf(column) {
    return [EDGE_PX + (column % this.across) * (this.slot + GAP_PX), Math.floor(column / this.across) * this.row + HEAD_PX];
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
    const cell = this.cell * scale;
    this.painted().forEach((image, at) => {
      const [x, y] = this.cornerOf(at);
      const [left, top] = [(x - stage.x) * scale, (y - stage.y) * scale];
      const [wide, tall] = [image.width * cell, image.height * cell];
      if (left > stage.width || top - HEAD_PX > stage.height || left + Math.max(wide, this.slot * scale) < 0 || top + tall < 0) return;
      context.drawImage(image, left, top, wide, tall);
      context.strokeStyle = css.line;
      if (cell >= NUMBERED_PX) this.numbers(context, stage, at, left, top, cell);
      context.strokeRect(left, top, this.wide * cell, tall);
      context.fillStyle = css.text;
      context.textAlign = "left";
      context.fillText(this.nameOf(at), left, top - 3, this.slot * scale);
      this.rings(context, stage, left, top, cell);
    });
    this.pointed(context, stage, cell);
  }

  nameOf(column) {
    const { name, title } = this.found.columns[column];
    return this.slot >= NAME_PX ? title : name;
  }

  /** Cells with a line round each, and the rank in it. */
  numbers(context, stage, column, left, top, cell) {
    const { x, y, size, rank, count } = this.found;
    const { levels } = this.found.columns[column];
    context.save();
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = `${cell >= 28 ? 12 : 9}px system-ui, sans-serif`;
    for (let row = 0; row < count; row += 1) {
      const [cx, cy] = [left + (x[row] / size) * cell, top + (y[row] / size) * cell];
      if (cx > stage.width || cy > stage.height || cx + cell < 0 || cy + cell < 0) continue;
      context.strokeRect(cx, cy, cell, cell);
      context.fillStyle = readable(this.colours, levels[row] === UNKNOWN ? this.colours.unknown : mixed(this.colours, levels[row] / MIDDLE - 1));
      context.fillText(String(rank[row]), cx + cell / 2, cy + cell / 2 + 1, cell - 2);
    }
    context.restore();
  }

  rings(context, stage, left, top, cell) {
    const { x, y, size, outliers } = this.found;
    const radius = cell >= NUMBERED_PX ? cell * 0.46 : Math.max(RING_PX, cell * 0.75);
    context.strokeStyle = this.colours.css.mark;
    context.lineWidth = 2;
    context.beginPath();
    for (const { row } of outliers) {
      const cx = left + (x[row] / size + 0.5) * cell;
      const cy = top + (y[row] / size + 0.5) * cell;
      if (cx < -radius || cy < -radius || cx > stage.width + radius || cy > stage.height + radius) continue;
      context.moveTo(cx + radius, cy);
      context.arc(cx, cy, radius, 0, 2 * Math.PI);
    }
    context.stroke();
    context.lineWidth = 1;
  }

  /** What is pointed at, and in every field the rank that was chosen. */
  pointed(context, stage, cell) {
    const { item, markedItem: marked } = stage;
    const everywhere = marked ? this.found.columns.map((_, column) => ({ ...marked, column })) : [];
    const side = Math.max(cell, 5);
    context.strokeStyle = this.colours.css.text;
    context.lineWidth = 2;
    for (const each of item ? [...everywhere, item] : everywhere) {
      const [x, y] = this.placeOf(each);
      context.strokeRect((x - stage.x) * stage.scale - 1, (y - stage.y) * stage.scale - 1, side + 2, side + 2);
    }
    context.lineWidth = 1;
  }

  // ---------------------------------------------------------------- what is pointed at

  placeOf({ row, column }) {
    const [x, y] = this.cornerOf(column);
    const { x: xs, y: ys, size } = this.found;
    return [x + (xs[row] / size) * this.cell, y + (ys[row] / size) * this.cell];
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
      const item = this.itemAt(column, Math.floor((x - left) / this.cell), Math.floor((y - top) / this.cell));
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

  rankOf({ row }) {
    return this.found.rank[row];
  }

  itemOf(rank) {
    const row = this.found ? this.found.rank.indexOf(rank) : -1;
    return row < 0 ? null : { row, column: 0, at: this.found.order.indexOf(row) };
  }

  says({ row, column }) {
    const field = this.found.columns[column];
    const value = field.values[row];
    const told = Number.isNaN(value) ? "not known" : seconds(value);
    const verdict = this.found.verdicts.get(row);
    return `Rank ${this.found.rank[row]} on ${this.nodeOf(row)}, ${this.stateOf(row)}: ${field.says} ${told}${verdict ? `. ${verdict}` : ""}`;
  }
}
