// The 3D view: planes of ranks, aslant, and who waits for whom. All cells are one image, made anew
// when what it shows or its scale changes; arrows and rings are drawn over it.

import { routeOf } from "./ask.js";
import { coloursOf, onTheme } from "./colours.js";
import { follow } from "./feed.js";
import { chosenOf, gridOf, SLANT } from "./grid.js";
import { past } from "./moments.js";
import { made, moment, names, put, Table } from "./parts.js";
import { Stage } from "./stage.js";

const MOST_PIXELS = 4e6;
const FILLED = 0.86;
const RING_PX = 8;
const PAST_S = 3600;
const TABLE_ROWS = 100;
const TOLD_PLACES = 4;
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
    this.list = made("ul", "", "view-names");
    figure.append(this.list);
    this.moment = moment(figure, PAST_S, (ago) => this.look(ago));
    this.table = new Table(figure, ["waiting ranks", "where", "for"], `Who waits for whom in ${this.job}`);
    this.colours = coloursOf(figure);
    onTheme(() => this.repaint(), this.aborted.signal);
    follow(routeOf(this.job, "view3d"), (answer, error) => this.told(answer, error), this.aborted.signal);
  }

  /** So many seconds ago: what ranks did is in traces; where they stand is as now. */
  async look(ago) {
    if (!ago || !this.now) return;
    try {
      const then = await past(this.job, ago);
      const states = new Map(then.ranks.map((row) => [row.rank, row.state]));
      const ranks = this.now.ranks.map((each) => ({ ...each, state: states.get(each.rank) ?? "unseen", verdict: "" }));
      this.set({ ...this.now, ranks, waits: [], ends: [], why: [] });
    } catch (error) {
      put(this.head, error.status === 404 ? "No traces are kept of that time." : error.message);
    }
  }

  told(answer, error) {
    if (error) put(this.head, `What is shown may be old: ${error.message}`);
    if (!answer) return;
    this.now = answer;
    if (!this.moment.is()) this.set(answer);
  }

  set(answer) {
    const drawn = JSON.stringify([answer.dims, answer.ranks.map((each) => each.state)]);
    this.answer = answer;
    this.found = gridOf(answer);
    if (drawn !== this.drawn) this.image = null;
    this.drawn = drawn;
    const { dims } = answer;
    const shape = `dp ${dims.dp} x pp ${dims.pp} x tp ${dims.tp}: to the right dp, down tp, a plane a stage`;
    const declared = answer.declared ? shape : "The job does not say how it is parallel: all ranks are in a row";
    put(this.head, answer.ranks.length ? declared : answer.nothing || "There are no ranks.");
    this.describe();
    this.table.set(() => answer.waits.map((wait) => [brief(wait.waiting), wait.where, brief(wait.lacking) || "nobody known"]).slice(0, TABLE_ROWS));
    this.stage.changed();
  }

  describe() {
    const { answer } = this;
    const told = answer.ends.length ? [[`rank ${answer.ends[0]}`, `is where waits end: ${answer.why.join("; ")}`]] : [];
    for (const wait of answer.waits.slice(0, TOLD_PLACES)) told.push([`${wait.waiting.length} ranks`, `wait in ${wait.where} for ${brief(wait.lacking) || "nobody known"}`]);
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

  size() {
    return this.found ? [this.found.width, this.found.height] : [1, 1];
  }

  draw(context, stage) {
    const { css } = this.colours;
    context.fillStyle = css.ground;
    context.fillRect(0, 0, stage.width, stage.height);
    if (!this.found || !this.answer.ranks.length) return;
    const { scale } = stage;
    const pixels = this.found.width * this.found.height * (scale * stage.ratio) ** 2;
    if (pixels <= MOST_PIXELS) this.copy(context, stage);
    else this.cells(context, scale, -stage.x * scale, -stage.y * scale, stage.width, stage.height);
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
    context.drawImage(canvas, -stage.x * scale, -stage.y * scale, canvas.width / ratio, canvas.height / ratio);
  }

  /** The cells in sight, as rectangles of planes that are aslant: paths take fifty times as long. */
  cells(context, scale, left, top, wide, tall) {
    const { y, plane, cell, across } = this.found;
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
        const above = top + pp * plane * scale;
        if (above > tall || above + this.found.tall * scale < 0) continue;
        context.setTransform(ratio, 0, SLANT * ratio, ratio, left * ratio, above * ratio);
        for (const at of places) {
          const [dp, stage] = ranks[at].at;
          if (stage !== pp) continue;
          const [px, py] = [(dp % across) * cell * scale, (y[at] - pp * plane) * scale];
          if (left + px + SLANT * py > wide || left + px + SLANT * py + 2 * inner < 0) continue;
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
      return [(this.found.x[place] - stage.x) * scale, (this.found.y[place] - stage.y) * scale];
    };
    if (this.mine) {
      const path = new Path2D();
      for (const rank of new Set(Object.values(this.mine.groups).flat())) outline(path, ...at(rank), inner);
      context.strokeStyle = css.less;
      context.lineWidth = 2;
      context.stroke(path);
      this.chain(context, at, inner);
    }
    for (const arrow of this.found.arrows) this.arrow(context, stage, arrow);
    if (stage.item) {
      const path = new Path2D();
      outline(path, ...at(stage.item.rank), inner);
      context.strokeStyle = css.text;
      context.lineWidth = 3;
      context.stroke(path);
    }
    context.lineWidth = 1;
  }

  /** From the chosen rank to whom it waits for, and on. */
  chain(context, at, inner) {
    const places = this.mine.chain.map((rank) => at(rank).map((place) => place + inner / 2));
    context.strokeStyle = this.colours.css.text;
    context.setLineDash([6, 4]);
    context.beginPath();
    places.forEach((place, step) => (step ? context.lineTo(...place) : context.moveTo(...place)));
    context.stroke();
    context.setLineDash([]);
  }

  arrow(context, stage, { count, target, x1, y1, x2, y2 }) {
    const to = (x, y) => [(x - stage.x) * stage.scale, (y - stage.y) * stage.scale];
    const [from, end] = [to(x1, y1), to(x2, y2)];
    const bend = [(from[0] + end[0]) / 2, Math.min(from[1], end[1]) - 24];
    context.strokeStyle = context.fillStyle = this.colours.css.mark;
    context.lineWidth = 1.5 + Math.min(2.5, count / 8);
    context.beginPath();
    context.moveTo(...from);
    context.quadraticCurveTo(...bend, ...end);
    context.stroke();
    const angle = Math.atan2(end[1] - bend[1], end[0] - bend[0]);
    context.beginPath();
    context.moveTo(...end);
    for (const turn of [2.7, -2.7]) context.lineTo(end[0] + 10 * Math.cos(angle + turn), end[1] + 10 * Math.sin(angle + turn));
    context.fill();
    context.beginPath();
    context.arc(...end, RING_PX, 0, 2 * Math.PI);
    context.stroke();
    context.font = "bold 12px system-ui, sans-serif";
    context.fillText(`rank ${target}`, end[0] + RING_PX + 4, end[1] - 6);
  }

  // ---------------------------------------------------------------- what is pointed at

  pick(x, y) {
    if (!this.found) return null;
    const { cell, plane, across, down } = this.found;
    const { dims, ranks } = this.answer;
    const pp = Math.floor(y / plane);
    const line = Math.floor((y - pp * plane) / cell);
    const dpIn = Math.floor((x - SLANT * (y - pp * plane)) / cell);
    if (pp < 0 || pp >= dims.pp || line < 0 || line >= down || dpIn < 0 || dpIn >= across) return null;
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
    return [this.found.x[at], this.found.y[at]];
  }

  chosen(item) {
    this.rank = item ? item.rank : null;
    if (this.answer) this.describe();
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
