// The layout of the timeline: the same lines and segments as page/draw/timeline.py makes. Spans are
// in typed arrays, sorted by line and start, to be pointed at; segments are what is painted.

import { awaitedOf, isHeld, lastOf, newestOf, saysOf, whereOf } from "./awaited.js";
import { endOf as end, MEETINGS, piecesOf, segmentsOf, startOf as start, STOPPED, WAITS } from "./busy.js";
import { median } from "./heat.js";

const MOST_LINES = 256;
export const KINDS = ["step", "forward", "backward", "collective", "p2p", "optimizer", "data", "save", "load", "pause", "phase", STOPPED, WAITS];

export function timelineOf(answer, ranks = null) {
  const { spans } = answer;
  const rows = new Map((ranks?.ranks ?? []).map((row) => [row.rank, row]));
  const [fromS, toS] = bounds(answer, spans);
  const newest = newestOf(spans);
  const last = lastOf(newest);
  const nodes = new Map(spans.map((span) => [span.rank, span.node]));
  const traced = [...nodes.keys()];
  for (const [rank, row] of rows) nodes.set(rank, row.node);
  const waiting = [...rows.values()].filter((row) => row.state === "waits").map((row) => row.rank);
  const held = new Set(waiting);
  for (const span of newest) if (isHeld(span)) held.add(span.rank);
  const awaited = awaitedOf(last, rows, held);
  const known = [...new Set([...traced, ...waiting, ...awaited])].sort((one, other) => one - other);
  const lines = chosen(known, awaited);
  const byLine = new Map(lines.map((rank) => [rank, []]));
  for (const span of spans) byLine.get(span.rank)?.push(span);
  const shown = lines.map((rank) => untilNow(byLine.get(rank), rows.get(rank), fromS, toS));
  const steps = spans.filter((span) => span.kind === "step").map((span) => span.took_s ?? 0);
  return {
    fromS, toS, lines, nodes, last, awaited, shown,
    segments: shown.map(segmentsOf),
    stepS: steps.length ? median(steps) : 0,
    bars: barsOf(shown, fromS),
    leftOut: known.length - lines.length,
    says: saysOf(awaited, nodes, last, held, whereOf(newest, rows, held)),
  };
}

/** Each line's shares of pieces of so many seconds. */
export const sharesOf = ({ segments, fromS, toS }, pieceS) => segments.map((each) => piecesOf(each, fromS, toS, pieceS));

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

function chosen(known, awaited) {
  if (known.length <= MOST_LINES) return known;
  const kept = new Set(awaited.slice(0, MOST_LINES / 2));
  const each = Math.ceil(known.length / (MOST_LINES - kept.size));
  const some = known.filter((_, at) => at % each === 0);
  return [...new Set([...kept, ...some])].sort((one, other) => one - other).slice(0, MOST_LINES);
}

/** With what is under way at the end, of which the last was not sent yet: a wait, a stop. */
function untilNow(spans, row, fromS, toS) {
  const kinds = { waits: MEETINGS, stopped: ["pause"] }[row?.state] ?? [];
  const open = spans.filter((span) => kinds.includes(span.kind) && span.ended === false);
  if (open.length) {
    const told = open.reduce((one, other) => (start(other) > start(one) ? other : one));
    const moreS = Math.max(0, toS - end(told));
    const waitedS = (told.waited_s ?? 0) + (row.state === "waits" ? moreS : 0);
    return spans.map((span) => (span === told ? { ...told, took_s: (told.took_s ?? 0) + moreS, waited_s: waitedS } : span));
  }
  if (row?.state !== "waits") return spans;
  const stillS = Math.min(toS - fromS, row.still_s ?? 0);
  const times = { start_s: toS - stillS, took_s: stillS, waited_s: stillS };
  return [...spans, { rank: row.rank, kind: "collective", name: row.waits_in ?? "", ...times, ended: false }];
}

function barsOf(shown, fromS) {
  const spans = [];
  const firstOf = new Uint32Array(shown.length + 1);
  shown.forEach((each, line) => {
    const order = [...each].sort((one, other) => (other.kind === "step") - (one.kind === "step") || start(one) - start(other));
    for (const span of order) spans.push(span);
    firstOf[line + 1] = spans.length;
  });
  const line = new Uint16Array(spans.length);
  for (let at = 0; at < shown.length; at += 1) line.fill(at, firstOf[at], firstOf[at + 1]);
  const from = Float64Array.from(spans, (span) => start(span) - fromS);
  return { spans, firstOf, line, from, to: Float64Array.from(spans, (span) => end(span) - fromS) };
}
