// The layout of the timeline: the same lines and bars as page/draw/timeline.py makes, but for those
// that are merged there for a file's sake. Bars are in typed arrays, sorted by line and start.

const MOST_LINES = 256;
const ENDED_EARLY = 0.5;
export const KINDS = ["step", "forward", "backward", "collective", "p2p", "optimizer", "data", "save", "load", "pause"];

const start = (span) => span.start_s ?? 0;
const end = (span) => start(span) + (span.took_s ?? 0);

export function timelineOf(answer, ranks = null) {
  const { spans } = answer;
  const rows = new Map((ranks?.ranks ?? []).map((row) => [row.rank, row]));
  const [fromS, toS] = bounds(answer, spans);
  const last = new Map();
  const nodes = new Map();
  for (const span of spans) {
    last.set(span.rank, Math.max(end(span), last.get(span.rank) ?? -Infinity));
    nodes.set(span.rank, span.node);
  }
  for (const [rank, row] of rows) nodes.set(rank, row.node);
  const waiting = [...rows.values()].filter((row) => row.state === "waits").map((row) => row.rank);
  const held = new Set(waiting);
  for (const span of spans) if (span.ended === false && (span.waited_s ?? 0) > ENDED_EARLY) held.add(span.rank);
  const awaited = awaitedOf(last, rows, held);
  const known = [...new Set([...last.keys(), ...waiting, ...awaited])].sort((one, other) => one - other);
  const lines = chosen(known, awaited);
  const found = { fromS, toS, lines, nodes, last, awaited, leftOut: known.length - lines.length };
  return { ...found, bars: barsOf(spans, rows, waiting, found), says: says(found, held.size) };
}

function bounds(answer, spans) {
  let [first, latest] = [Infinity, -Infinity];
  for (const span of spans) {
    first = Math.min(first, start(span));
    latest = Math.max(latest, end(span));
  }
  const fromS = answer.from_s ?? (spans.length ? first : 0);
  const toS = answer.to_s ?? (spans.length ? latest : fromS);
  return [fromS, Math.max(fromS, toS)];
}

function awaitedOf(last, rows, waiting) {
  const ended = new Set();
  for (const row of rows.values()) if (row.waits_on_count === 1) ended.add(row.waits_on[0]);
  const named = [...ended].filter((rank) => !waiting.has(rank));
  if (named.length || !last.size) return named.sort((one, other) => one - other);
  const ends = Float64Array.from(last.values()).sort();
  const usual = ends[ends.length >> 1];
  return [...last].filter(([, at]) => at < usual - ENDED_EARLY).map(([rank]) => rank).sort((one, other) => one - other);
}

function chosen(known, awaited) {
  if (known.length <= MOST_LINES) return known;
  const kept = new Set(awaited.slice(0, MOST_LINES / 2));
  const each = Math.ceil(known.length / (MOST_LINES - kept.size));
  const some = known.filter((_, at) => at % each === 0);
  return [...new Set([...kept, ...some])].sort((one, other) => one - other).slice(0, MOST_LINES);
}

function barsOf(spans, rows, waiting, { lines, fromS, toS }) {
  const lineOf = new Map(lines.map((rank, at) => [rank, at]));
  const shown = spans.filter((span) => lineOf.has(span.rank));
  for (const rank of waiting) {
    const row = rows.get(rank);
    if (!lineOf.has(rank)) continue;
    const began = Math.max(fromS, toS - (row.still_s ?? 0));
    shown.push({ rank, kind: "collective", name: row.waits_in ?? "", start_s: began, took_s: toS - began, waited_s: toS - began, ended: false });
  }
  shown.sort((one, other) => lineOf.get(one.rank) - lineOf.get(other.rank) || (other.kind === "step") - (one.kind === "step") || start(one) - start(other));
  const bars = {
    spans: shown,
    line: new Uint16Array(shown.length),
    kind: new Uint8Array(shown.length),
    from: new Float64Array(shown.length),
    to: new Float64Array(shown.length),
    waits: new Float64Array(shown.length),
    firstOf: new Uint32Array(lines.length + 1),
  };
  shown.forEach((span, at) => {
    bars.line[at] = lineOf.get(span.rank);
    bars.kind[at] = Math.max(0, KINDS.indexOf(span.kind));
    bars.from[at] = start(span) - fromS;
    bars.to[at] = end(span) - fromS;
    bars.waits[at] = Math.min(bars.to[at], bars.from[at] + (span.waited_s ?? 0));
    bars.firstOf[bars.line[at] + 1] += 1;
  });
  for (let at = 1; at < bars.firstOf.length; at += 1) bars.firstOf[at] += bars.firstOf[at - 1];
  return bars;
}

function says({ awaited, nodes, last, toS }, waiting) {
  if (!awaited.length) return "";
  const [first] = awaited;
  const since = last.has(first) ? `, which has done nothing for ${(toS - last.get(first)).toFixed(1)} s` : "";
  const who = waiting ? `${waiting} ranks wait for` : "others went on without";
  const more = awaited.length > 1 ? ` and ${awaited.length - 1} more` : "";
  return `${who} rank ${first} on ${nodes.get(first) ?? "a node that is not known"}${more}${since}`;
}
