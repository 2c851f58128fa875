// The layout of the heat map: the same numbers as page/draw/heat.py makes of the same answer.

const SPREADS = 6;
const LEAST = Math.log2(1.1);
const OF_STEP = 0.25;
const STILL_S = 5;
const MOST_PHASES = 6;
const MOST = 28;
const GRAVE = new Set(["stopped", "gone", "unseen", "still"]);
const OWN = ["own", "computes"];
const RARE = [
  ["no processor", "delayed_s", "no processor was free"],
  ["held back", "throttled_s", "held back by its cgroup"],
  ["stopped", "stopped_s", "stopped by a signal"],
  ["pauses", "pauses_s", "pauses: saves, evaluations"],
];
export const NAMED = 8;

export function heat(answer, width = 420) {
  const rows = answer.ranks;
  const columns = columnsOf(rows);
  const windows = rows.filter((row) => row.spent).map((row) => row.spent.window_s);
  return {
    ...placed(rows, answer.racks ?? {}, width),
    columns,
    outliers: outliersOf(rows, columns),
    window_s: windows.length ? median(windows) : null,
  };
}

/**
 * All that the heat map shows of an answer, in arrays that a worker hands over without a copy: rows
 * as objects would take the page's thread longer than ten frames.
 */
export function digest(answer) {
  const { columns, ...found } = heat(answer, 96);
  const { ranks } = answer;
  const [nodes, states] = [indexed(ranks, "node"), indexed(ranks, "state", "unseen")];
  const told = {
    ...found,
    job: answer.job,
    step: answer.step,
    nothing: answer.nothing ?? "",
    count: ranks.length,
    order: Int32Array.from(found.order),
    rank: Int32Array.from(ranks, (row) => row.rank),
    steps: Float64Array.from(ranks, (row) => row.step ?? 0),
    node: nodes.index,
    nodes: nodes.words,
    state: states.index,
    states: states.words,
    verdicts: new Map(ranks.flatMap((row, at) => (row.verdict ? [[at, row.verdict]] : []))),
    columns: columns.map(({ name, says, title, values, shares }) => ({
      name,
      says,
      title,
      values: Float32Array.from(values, (value) => value ?? Number.NaN),
      levels: Uint8Array.from(shares, (share) => (share === null || share === undefined ? UNKNOWN : Math.round((share + 1) * MIDDLE))),
    })),
  };
  const arrays = [told.order, told.rank, told.steps, told.node, told.state, told.x, told.y];
  for (const column of told.columns) arrays.push(column.values, column.levels);
  return [told, arrays.map((array) => array.buffer)];
}

export const UNKNOWN = 255;
export const MIDDLE = 32;

function indexed(rows, field, usual = "") {
  const places = new Map();
  const index = Uint16Array.from(rows, (row) => {
    const word = row[field] ?? usual;
    if (!places.has(word)) places.set(word, places.size);
    return places.get(word);
  });
  return { index, words: [...places.keys()] };
}

export function median(values) {
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// ---------------------------------------------------------------- what is compared

export function columnsOf(rows) {
  const spent = rows.map((row) => row.spent ?? {});
  const roles = rows.map((row) => row.role ?? "");
  const steps = spent.filter((each) => each.step_s).map((each) => each.step_s);
  const stepS = steps.length ? median(steps) : null;
  const told = spent.map((each) => Object.keys(each).length > 0);
  const of = (field) => spent.map((each, at) => (told[at] ? (each[field] ?? 0) : null));
  const found = [
    relative("own", "own part of a step", of("own_s"), roles),
    relative("computes", "CPU time in a step", of("cpu_s"), roles),
    relative("waits", "waits for peers", of("waits_s"), roles),
  ];
  for (const [name, field, says] of RARE) {
    const values = of(field);
    if (stepS && values.some(Boolean)) found.push(absolute(name, says, values, OF_STEP * stepS));
  }
  for (const phase of phasesOf(spent)) {
    found.push(relative(phase, `phase ${phase}`, spent.map((each) => each.wall_s?.[phase] ?? null), roles));
  }
  const stills = rows.map((row) => (row.step ? (row.still_s ?? 0) : null));
  const known = found.filter((column) => column.shares.some((share) => share !== null));
  return [...known, absolute("still", "seconds since it moved", stills, STILL_S)];
}

function phasesOf(spent) {
  const times = new Map();
  for (const each of spent) {
    for (const [phase, timeS] of Object.entries(each.wall_s ?? {})) {
      if (!times.has(phase)) times.set(phase, []);
      times.get(phase).push(timeS);
    }
  }
  const by = [...times].map(([phase, values]) => [phase, median(values)]);
  by.sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1));
  return by.slice(0, MOST_PHASES).map(([phase]) => phase);
}

function relative(name, says, values, roles) {
  const byRole = new Map();
  values.forEach((value, at) => {
    if (!value) return;
    if (!byRole.has(roles[at])) byRole.set(roles[at], []);
    byRole.get(roles[at]).push(value);
  });
  const medians = new Map([...byRole].map(([role, own]) => [role, median(own)]));
  const off = values.map((value, at) => {
    const usual = medians.get(roles[at]);
    return value && usual ? Math.log2(value / usual) : null;
  });
  const known = off.filter((each) => each !== null).map(Math.abs);
  const end = Math.max(LEAST, known.length ? SPREADS * 1.4826 * median(known) : 0);
  return { name, says, title: says, values, shares: off.map((each) => (each === null ? null : clipped(each / end))) };
}

function absolute(name, says, values, end) {
  return { name, says, title: `${says}, orange: ${seconds(end)}`, values, shares: values.map((value) => (value === null ? null : clipped(value / end))) };
}

const clipped = (share) => Math.max(-1, Math.min(1, share));

// ---------------------------------------------------------------- who differs

export function outliersOf(rows, columns) {
  const states = rows.map((row) => row.state ?? "unseen");
  const counts = new Map();
  for (const state of states) counts.set(state, (counts.get(state) ?? 0) + 1);
  const usual = [...counts].sort((one, other) => other[1] - one[1])[0]?.[0] ?? "";
  const own = columns.filter((column) => OWN.includes(column.name));
  const found = [];
  rows.forEach((row, place) => {
    const verdict = row.verdict ?? "";
    const grave = GRAVE.has(states[place]) && states[place] !== usual;
    let longest = own[0];
    for (const column of own) if ((column.shares[place] ?? 0) > (longest.shares[place] ?? 0)) longest = column;
    const share = longest?.shares[place] ?? 0;
    if (!verdict && !grave && share < 1) return;
    const weight = 4 * Boolean(verdict) + 2 * grave + Math.max(0, share);
    found.push({ row: place, rank: row.rank, node: row.node, says: verdict || says(row, longest, place, grave), weight });
  });
  return found.sort((one, other) => other.weight - one.weight || one.rank - other.rank);
}

function says(row, column, place, grave) {
  if (grave || !column) return `it is ${row.state ?? "unseen"}`;
  const value = column.values[place] ?? 0;
  const usual = median(column.values.filter(Boolean));
  return `${column.says} takes ${seconds(value)}, ${(value / usual).toFixed(2)} times the median; no detector has said anything of it yet`;
}

const seconds = (value) => (value < 0.9995 ? `${Number((1000 * value).toPrecision(3))} ms` : `${Number(value.toPrecision(3))} s`);

// ---------------------------------------------------------------- where each is

/** Cells by row of the answer: x and y in typed arrays, in pixels of the field. */
export function placed(rows, racks, width) {
  const order = rows.map((_, at) => at);
  const keys = new Map();
  for (const row of rows) if (!keys.has(row.node)) keys.set(row.node, natural(racks[row.node] ?? ""));
  order.sort((one, other) => compared(keys.get(rows[one].node), keys.get(rows[other].node)) || rows[one].rank - rows[other].rank);
  const each = rows.reduce((most, row) => Math.max(most, row.local_rank ?? 0), 0) + 1;
  const line = each * Math.max(1, evenly(Math.sqrt((rows.length * 4) / 3) / each));
  const size = Math.min(MOST, Math.max(1, Math.floor(width / Math.max(line, 1))));
  const x = new Float64Array(rows.length);
  const y = new Float64Array(rows.length);
  order.forEach((row, at) => {
    x[row] = (at % line) * size;
    y[row] = Math.floor(at / line) * size;
  });
  const lines = rows.length ? Math.ceil(rows.length / line) : 1;
  return { order, line, lines, size, x, y, width: Math.min(line, Math.max(rows.length, 1)) * size, height: lines * size };
}

/** Halves to the even number, as Python rounds. */
function evenly(value) {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2) ? floor + 1 : floor;
}

const natural = (name) => [(name.match(/\d+/g) ?? []).map(Number), name];

function compared([ones, one], [others, other]) {
  for (let at = 0; at < Math.min(ones.length, others.length); at += 1) {
    if (ones[at] !== others[at]) return ones[at] - others[at];
  }
  return ones.length - others.length || (one < other ? -1 : one > other ? 1 : 0);
}
