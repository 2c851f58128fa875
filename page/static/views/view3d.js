// The 3D view: planes of ranks, aslant, and who waits for whom. All cells are one image, made anew
// when what it shows or its scale changes; arrows and rings are drawn over it.

import { routeOf } from "./ask.js";
import { coloursOf, onTheme, readable } from "./colours.js";
import { follow } from "./feed.js";
import { chosenOf, FILLED, gridOf, SLANT } from "./grid.js";
import { past } from "./moments.js";
import { legend, made, moment, names, put, Table } from "./parts.js";
import { Stage } from "./stage.js";

const MOST_PIXELS = 4e6;
const RING_PX = 8;
const PAST_S = 3600;
const TABLE_ROWS = 100;
const TOLD_PLACES = 4;
const NUMBERED_PX = 18;
const [EDGE, ABOVE] = [8, 22];
const STATES = { waits: "wait", runs: "even", pauses: "less" };

export function view3d(figure) {
  return new View3d(figure);
}

class View3d {
  constructor(figure) {
    this.figure = figure;
    this.job = figure.dataset.job;
    this.found = null;
    this.rank = null;
    this.aborted = new AbortController();
    this.head = made("p", "Asking …", "view-head");
    figure.append(this.head);
    this.stage = new Stage(figure, this, { label: `Ranks of ${this.job} in dp x pp x tp` });
    legend(figure, [["runs", "runs"], ["waiting", "waits"], ["pauses", "pauses"], ["grave", "stopped, still, gone or unseen"]]);
    this.list = made("ul", "", "view-names");
    figure.append(this.list);
    this.moment = moment(figure, this.job, PAST_S, (at) => this.look(at), this.aborted.signal);
    this.table = new Table(figure, ["waiting ranks", "where", "for"], `Who waits for whom in ${this.job}`);
    this.colours = coloursOf(figure);
    onTheme(() => this.repaint(), this.aborted.signal);
    follow(routeOf(this.job, "view3d"), (answer, error) => this.told(answer, error), this.aborted.signal);
  }

  /** At a moment: what ranks did is in traces; where they stand is as now. */
  async look(at) {
    if (!this.now) return;
    if (at === null) return this.set(this.now);
    try {
      const then = await past(this.job, at);
      if (at !== this.moment.is()) return;
      const states = new Map(then.ranks.map((row) => [row.rank, row.state]));
      const ranks = this.now.ranks.map((each) => ({ ...each, state: states.get(each.rank) ?? "unseen", verdict: "" }));
      const { waits, ends, why } = then;
      this.set({ ...this.now, ranks, waits, ends, why });
    } catch (error) {
      if (at === this.moment.is()) put(this.head, error.status === 404 ? "No traces are kept of that time." : error.message);
    }
  }

  told(answer, error) {
    if (error) put(this.head, `What is shown may be old: ${error.message}`);
    if (!answer) return;
    const first = !this.now;
    this.now = answer;
    if (first || this.moment.is() === null) this.look(this.moment.is());
  }

  set(answer) {
    const drawn = JSON.stringify([answer.dims, answer.ranks.map((each) => each.state)]);
    this.answer = answer;
    this.found = gridOf(answer);
    if (drawn !== this.drawn) this.image = null;
    this.drawn = drawn;
    const { dims } = answer;
    const shape = `dp ${dims.dp} x pp ${dims.pp} x tp ${dims.tp}: to the right dp, down tp${dims.pp > 1 ? ", a plane a stage" : ""}`;
    const declared = answer.declared ? shape : "The job does not say how it is parallel: all ranks are in a row";
    put(this.head, answer.ranks.length ? declared : answer.nothing || "There are no ranks.");
    this.describe();
    this.stage.fitted();
    this.table.set(() => answer.waits.map((wait) => [brief(wait.waiting), wait.where, brief(wait.lacking) || "nobody known"]).slice(0, TABLE_ROWS));
    this.stage.changed();
  }

  describe() {
    const { answer } = this;
    const told = answer.ends.length ? [[`rank ${answer.ends[0]}`, `is where waits end: ${answer.why.join("; ")}`]] : [];
    for (const wait of answer.waits.slice(0, TOLD_PLACES)) told.push([wait.waiting.length === 1 ? `rank ${wait.waiting[0]}` : `${wait.waiting.length.toLocaleString("en")} ranks`, `${wait.waiting.length === 1 ? "waits" : "wait"} in ${wait.where} for ${brief(wait.lacking) || "nobody known"}`]);
    if (!told.length && answer.ranks.length) told.push(["", "nobody waits for longer than a second"]);
    if (this.rank !== null && this.found.placeOf.has(this.rank)) {
      this.mine = chosenOf(answer, this.rank);
      const { groups, chain } = this.mine;
      const sizes = Object.entries(groups).map(([axis, ranks]) => `${axis} ${brief(ranks)}`).join("; ");
      told.unshift([`rank ${this.rank}`, chain.length > 1 ? `waits for ${chain.slice(1).map((rank) => `rank ${rank}`).join(", which waits for ")}. Its groups: ${sizes}` : `waits for nobody. Its groups: ${sizes}`]);
    } else this.mine = null;
    names(this.list, told);
  }

  repaint() {
    this.colours = coloursOf(this.figure);
    this.image = null;
    this.stage.changed();
  }

  resized() {
    this.image = null;
  }

  // ---------------------------------------------------------------- the picture

  /** Cells of a small job are larger than in a file. */
  get most() {
    return 1.5;
  }

  size() {
    return this.found ? [this.found.width + 2 * EDGE, this.found.height + ABOVE + EDGE] : [1, 1];
  }

  high(width, most) {
    const [wide, high] = this.size();
    return this.answer?.ranks.length ? Math.min(most, high * Math.min(this.most, width / wide)) : 0;
  }

  draw(context, stage) {
    const { css } = this.colours;
    context.fillStyle = css.ground;
    context.fillRect(0, 0, stage.width, stage.height);
    if (!this.found || !this.answer.ranks.length) return;
    const { scale } = stage;
    const pixels = this.found.width * this.found.height * (scale * stage.ratio) ** 2;
    if (pixels <= MOST_PIXELS) this.copy(context, stage);
    else this.cells(context, scale, (EDGE - stage.x) * scale, (ABOVE - stage.y) * scale, stage.width, stage.height);
    this.over(context, stage);
  }

  copy(context, stage) {
    const { scale, ratio } = stage;
    if (this.image?.scale !== scale) {
      const canvas = document.createElement("canvas");
      canvas.width = Math.max(1, Math.ceil(this.found.width * scale * ratio));
      canvas.height = Math.max(1, Math.ceil(this.found.height * scale * ratio));
      const inner = canvas.getContext("2d");
      inner.scale(ratio, ratio);
      this.cells(inner, scale, 0, 0, canvas.width, canvas.height);
      this.image = { canvas, scale };
    }
    const { canvas } = this.image;
    context.drawImage(canvas, (EDGE - stage.x) * scale, (ABOVE - stage.y) * scale, canvas.width / ratio, canvas.height / ratio);
  }

  /** The cells in sight, as rectangles of planes that are aslant: paths take fifty times as long. */
  cells(context, scale, left, top, wide, tall) {
    const { y, planes, cell, across } = this.found;
    const { dims, ranks } = this.answer;
    const inner = cell * FILLED * scale;
    const ratio = context.getTransform().a;
    const byState = new Map();
    ranks.forEach((each, at) => {
      if (!byState.has(each.state)) byState.set(each.state, []);
      byState.get(each.state).push(at);
    });
    context.save();
    for (const [state, places] of byState) {
      context.fillStyle = this.colours.css[STATES[state] ?? "more"];
      for (let pp = 0; pp < dims.pp; pp += 1) {
        const [beside, above] = [left + planes[pp][0] * scale, top + planes[pp][1] * scale];
        if (above > tall || above + this.found.tall * scale < 0) continue;
        context.setTransform(ratio, 0, SLANT * ratio, ratio, beside * ratio, above * ratio);
        for (const at of places) {
          const [dp, stage] = ranks[at].at;
          if (stage !== pp) continue;
          const [px, py] = [(dp % across) * cell * scale, (y[at] - planes[pp][1]) * scale];
          if (beside + px + SLANT * py > wide || beside + px + SLANT * py + 2 * inner < 0) continue;
          context.fillRect(px, py, inner, inner);
        }
      }
    }
    context.restore();
  }

  over(context, stage) {
    const { css } = this.colours;
    const { scale } = stage;
    const inner = this.found.cell * FILLED * scale;
    const at = (rank) => {
      const place = this.found.placeOf.get(rank);
      return [(EDGE + this.found.x[place] - stage.x) * scale, (ABOVE + this.found.y[place] - stage.y) * scale];
    };
    if (inner >= NUMBERED_PX) this.numbers(context, stage, at, inner);
    if (this.mine) {
      const path = new Path2D();
      for (const rank of new Set(Object.values(this.mine.groups).flat())) outline(path, ...at(rank), inner);
      context.strokeStyle = css.less;
      context.lineWidth = 2;
      context.stroke(path);
      this.chain(context, at, inner);
    }
    for (const arrow of this.found.arrows) this.arrow(context, stage, inner, arrow);
    if (stage.item) {
      const path = new Path2D();
      outline(path, ...at(stage.item.rank), inner);
      context.strokeStyle = css.text;
      context.lineWidth = 3;
      context.stroke(path);
    }
    context.lineWidth = 1;
  }

  /** Where cells are large enough each has a line round it, and its rank. */
  numbers(context, stage, at, inner) {
    const path = new Path2D();
    context.font = `${inner >= 26 ? 12 : 10}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const { rank, state } of this.answer.ranks) {
      const [x, y] = at(rank);
      if (x > stage.width || y > stage.height || x + 2 * inner < 0 || y + inner < 0) continue;
      outline(path, x, y, inner);
      context.fillStyle = readable(this.colours, this.colours[STATES[state] ?? "more"]);
      context.fillText(String(rank), x + ((1 + SLANT) * inner) / 2, y + inner / 2 + 1, inner);
    }
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    context.strokeStyle = this.colours.css.line;
    context.stroke(path);
  }

  /** From the chosen rank to whom it waits for, and on. */
  chain(context, at, inner) {
    const places = this.mine.chain.map((rank) => [at(rank)[0] + ((1 + SLANT) * inner) / 2, at(rank)[1] + inner / 2]);
    context.strokeStyle = this.colours.css.text;
    context.setLineDash([6, 4]);
    context.beginPath();
    places.forEach((place, step) => (step ? context.lineTo(...place) : context.moveTo(...place)));
    context.stroke();
    context.setLineDash([]);
  }

  /** From above those that wait to above the one that is ringed, where cells have numbers. */
  arrow(context, stage, inner, { count, target, x1, y1, x2, y2 }) {
    const to = (x, y) => [(EDGE + x - stage.x) * stage.scale, (ABOVE + y - stage.y) * stage.scale];
    const numbered = inner >= NUMBERED_PX;
    const radius = Math.max(RING_PX, inner * 0.46);
    const up = numbered ? radius : 0;
    const [from, at] = [to(x1, y1), to(x2, y2)];
    const end = [at[0], at[1] - up];
    const bend = [(from[0] + end[0]) / 2, Math.min(from[1], at[1]) - up - 24];
    context.strokeStyle = context.fillStyle = this.colours.css.mark;
    context.lineWidth = 1.5 + Math.min(2.5, count / 8);
    context.beginPath();
    context.moveTo(from[0], from[1] - up);
    context.quadraticCurveTo(...bend, ...end);
    context.stroke();
    const angle = Math.atan2(end[1] - bend[1], end[0] - bend[0]);
    context.beginPath();
    context.moveTo(...end);
    for (const turn of [2.7, -2.7]) context.lineTo(end[0] + 10 * Math.cos(angle + turn), end[1] + 10 * Math.sin(angle + turn));
    context.fill();
    context.lineWidth = 2;
    context.beginPath();
    context.arc(...at, radius, 0, 2 * Math.PI);
    context.stroke();
    if (!numbered) this.named(context, stage, `rank ${target}`, at);
  }

  /** Beside a ring, on ground of its own. */
  named(context, stage, name, [x, y]) {
    context.font = "bold 12px system-ui, sans-serif";
    const [wide, off] = [context.measureText(name).width, RING_PX + 4];
    const left = x + off + wide > stage.width ? x - off - wide : x + off;
    context.strokeStyle = this.colours.css.ground;
    context.lineWidth = 4;
    context.strokeText(name, left, y - 6);
    context.fillText(name, left, y - 6);
  }

  // ---------------------------------------------------------------- what is pointed at

  pick(x, y) {
    if (!this.found) return null;
    const { cell, planes, across, down, wide, tall } = this.found;
    const { dims, ranks } = this.answer;
    const [inX, inY] = [x - EDGE, y - ABOVE];
    const pp = planes.findIndex(([left, top]) => inX >= left && inX < left + wide && inY >= top && inY < top + tall);
    if (pp < 0) return null;
    const below = inY - planes[pp][1];
    const line = Math.floor(below / cell);
    const dpIn = Math.floor((inX - planes[pp][0] - SLANT * below) / cell);
    if (line >= down || dpIn < 0 || dpIn >= across) return null;
    const dp = Math.floor(line / dims.tp) * across + dpIn;
    return this.item(dp, pp, line % dims.tp, ranks);
  }

  item(dp, pp, tp, ranks) {
    if (dp < 0 || dp >= this.answer.dims.dp) return null;
    this.byPlace ??= new Map();
    if (this.byPlace.of !== this.answer) {
      this.byPlace = new Map(ranks.map((each) => [each.at.join(), each]));
      this.byPlace.of = this.answer;
    }
    const each = this.byPlace.get([dp, pp, tp].join());
    if (!each) return null;
    return this.stage.item?.rank === each.rank ? this.stage.item : { rank: each.rank };
  }

  first() {
    const rank = this.answer?.ends[0] ?? this.answer?.ranks[0]?.rank;
    return rank === undefined ? null : { rank };
  }

  /** Left and right along dp, up and down along tp and then from stage to stage. */
  step(item, dx, dy) {
    if (!item) return this.first();
    const { dims, ranks } = this.answer;
    const [dp, pp, tp] = ranks[this.found.placeOf.get(item.rank)].at;
    const below = pp * dims.tp + tp + dy;
    if (below < 0 || below >= dims.pp * dims.tp) return item;
    return this.item(dp + dx, Math.floor(below / dims.tp), below % dims.tp, ranks) ?? item;
  }

  placeOf({ rank }) {
    const at = this.found.placeOf.get(rank);
    return [EDGE + this.found.x[at], ABOVE + this.found.y[at]];
  }

  chosen(rank) {
    this.rank = rank;
    if (this.answer) this.describe();
  }

  rankOf({ rank }) {
    return rank;
  }

  itemOf(rank) {
    return this.found?.placeOf.has(rank) ? { rank } : null;
  }

  says({ rank }) {
    const each = this.answer.ranks[this.found.placeOf.get(rank)];
    const [dp, pp, tp] = each.at;
    const wait = this.answer.waits.find(({ waiting }) => waiting.includes(rank));
    const waits = wait ? `; waits in ${wait.where} for ${brief(wait.lacking) || "nobody known"}` : "";
    return `Rank ${rank} on ${each.node}: dp ${dp}, pp ${pp}, tp ${tp}, ${each.state}${waits}${each.verdict ? `. ${each.verdict}` : ""}`;
  }
}

function outline(path, x, y, inner) {
  const off = SLANT * inner;
  path.moveTo(x, y);
  path.lineTo(x + inner, y);
  path.lineTo(x + inner + off, y + inner);
  path.lineTo(x + off, y + inner);
  path.closePath();
}

const brief = (ranks) => {
  const shown = ranks.slice(0, 8).join(", ");
  return ranks.length > 8 ? `${shown} and ${ranks.length - 8} more` : shown;
};
