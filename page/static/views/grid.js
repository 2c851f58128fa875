// The layout of the 3D view: the same places as page/draw/grid.py makes of the same answer.

export const SLANT = 0.6;
export const FILLED = 0.86;
const LONGEST = 256;
const ARROWS = 12;
const MOST = 40;
const OF_WIDTH = 0.6;
const CHAIN = 64;

export function gridOf(answer, width = 900) {
  const { dims, ranks } = answer;
  const across = Math.min(dims.dp, LONGEST);
  const down = Math.ceil(dims.dp / across) * dims.tp;
  const [cell, line] = spread(across, down, dims.pp, width);
  const tall = cell * down;
  const gap = Math.max(10, cell);
  const wide = cell * across + SLANT * tall;
  const planes = Array.from({ length: dims.pp }, (_, stage) => [(stage % line) * (wide + gap), Math.floor(stage / line) * (tall + gap)]);
  const x = new Float64Array(ranks.length);
  const y = new Float64Array(ranks.length);
  const placeOf = new Map();
  ranks.forEach((each, at) => {
    const [dp, pp, tp] = each.at;
    const below = (Math.floor(dp / across) * dims.tp + tp) * cell;
    x[at] = planes[pp][0] + (dp % across) * cell + SLANT * below;
    y[at] = planes[pp][1] + below;
    placeOf.set(each.rank, at);
  });
  const lines = Math.ceil(dims.pp / line);
  const found = {
    across, down, cell, tall, wide, planes, x, y, placeOf,
    width: Math.min(line, dims.pp) * (wide + gap) - gap,
    height: lines * (tall + gap) - gap,
  };
  return { ...found, arrows: arrowsOf(answer.waits ?? [], found) };
}

/** The largest cells: their size, and how many planes lie side by side. */
function spread(across, down, planes, width) {
  const most = OF_WIDTH * width;
  let best = [0, 1];
  for (let line = 1; line <= planes; line += 1) {
    const wide = width / (line * (across + SLANT * down) + line);
    const high = most / (Math.ceil(planes / line) * (down + 1));
    const cell = Math.max(2, Math.min(MOST, wide, high));
    if (cell > best[0]) best = [cell, line];
  }
  return best;
}

function arrowsOf(waits, { x, y, placeOf, cell }) {
  const found = [];
  const half = (FILLED * cell) / 2;
  const right = (1 + SLANT) * half;
  const most = [...waits].sort((one, other) => other.waiting.length - one.waiting.length).slice(0, ARROWS);
  for (const wait of most) {
    const waiting = wait.waiting.filter((rank) => placeOf.has(rank)).map((rank) => placeOf.get(rank));
    if (!waiting.length) continue;
    const middle = (of) => waiting.reduce((sum, at) => sum + of[at], 0) / waiting.length;
    for (const target of wait.lacking.filter((rank) => placeOf.has(rank)).slice(0, 2)) {
      const to = placeOf.get(target);
      found.push({ count: waiting.length, target, where: wait.where, x1: middle(x) + right, y1: middle(y) + half, x2: x[to] + right, y2: y[to] + half });
    }
  }
  return found;
}

/** The groups of a rank, by axis, and the ranks that its waits lead to, itself first. */
export function chosenOf(answer, rank) {
  const mine = answer.ranks.find((each) => each.rank === rank).at;
  const groups = {};
  ["dp", "pp", "tp"].forEach((name, axis) => {
    groups[name] = answer.ranks.filter(({ at }) => at.every((place, other) => other === axis || place === mine[other])).map((each) => each.rank);
  });
  return { rank, groups, chain: chainOf(answer, rank) };
}

export function chainOf(answer, rank) {
  const awaits = new Map();
  for (const wait of [...(answer.waits ?? [])].reverse()) {
    if (wait.lacking.length) for (const each of wait.waiting) awaits.set(each, wait.lacking[0]);
  }
  const found = [rank];
  while (awaits.has(found.at(-1)) && found.length < CHAIN) {
    const following = awaits.get(found.at(-1));
    if (found.includes(following)) break;
    found.push(following);
  }
  return found;
}
