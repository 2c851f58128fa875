// What ranks did at a moment of the past, made of traces in the shape of the live answer: the same as
// page/draw/moments.py makes.

import { ask, routeOf } from "./ask.js";
import { namedOf } from "./awaited.js";

export const WINDOW_S = 10;
const MOST_SPANS = 100_000;

/**
 * Spans of the last seconds before a moment, in seconds since the job was submitted; null: now.
 * Throws where none are kept.
 */
export async function spansOf(job, atS, windowS = WINDOW_S) {
  const toS = atS ?? (await ask(`/v1alpha1/jobs/${encodeURIComponent(job)}`)).age_s;
  const fromS = Math.max(0, toS - windowS);
  return ask(`${routeOf(job, "spans")}?from_s=${fromS.toFixed(3)}&to_s=${toS.toFixed(3)}&limit=${MOST_SPANS}`);
}

const LOOK_MS = 5000;
const LEAST_S = 5;
const pasts = new Map();

/** Once a job has traces of some seconds ago: a function that says how old the job is by now. */
export function pastOf(job) {
  if (!pasts.has(job)) pasts.set(job, begun(job));
  return pasts.get(job);
}

async function begun(job) {
  for (;;) {
    const told = await kept(job).catch(() => null); // asked again: it may have none yet
    if (told) return told;
    await new Promise((done) => setTimeout(done, LOOK_MS));
  }
}

async function kept(job) {
  const { age_s: ageS } = await ask(`/v1alpha1/jobs/${encodeURIComponent(job)}`);
  const seenMs = performance.now();
  const toS = ageS - LEAST_S;
  if (toS <= 0) return null;
  const { spans } = await ask(`${routeOf(job, "spans")}?from_s=${Math.max(0, toS - WINDOW_S).toFixed(3)}&to_s=${toS.toFixed(3)}&limit=1`);
  return spans.length ? () => ageS + (performance.now() - seenMs) / 1000 : null;
}

export const past = async (job, atS) => ranksOf(await spansOf(job, atS));

/** Rows of ranks, by what their spans say. */
export function ranksOf(answer) {
  const byRank = new Map();
  for (const span of answer.spans) {
    if (!byRank.has(span.rank)) byRank.set(span.rank, []);
    byRank.get(span.rank).push(span);
  }
  const ranks = [...byRank].sort((one, other) => one[0] - other[0]).map(([rank, spans]) => rowOf(rank, spans, answer));
  locate(ranks);
  const steps = ranks.map((row) => row.step);
  return { job: answer.job, step: steps.length ? Math.min(...steps) : 0, ranks, racks: {}, nothing: "No spans are kept of that time.", ...waitsOf(answer.spans) };
}

const MOST_ENDS = 8;
const endOf = (span) => (span.start_s ?? 0) + (span.took_s ?? 0);
const waitsIn = (span) => span.ended === false && (span.waited_s ?? 0) > 1;
const ascending = (ranks) => [...ranks].sort((one, other) => one - other);

/** Who waits for whom: for those of a collective's group that have not come to it. */
export function waitsOf(spans) {
  const last = new Map();
  const came = new Map();
  for (const span of spans) {
    if (!last.has(span.rank) || endOf(span) > endOf(last.get(span.rank))) last.set(span.rank, span);
    if (!span.group || !span.number) continue;
    const key = `${span.attempt ?? 1} ${span.group}`;
    if (!came.has(key)) came.set(key, new Map());
    const group = came.get(key);
    group.set(span.rank, Math.max(span.number, group.get(span.rank) ?? 0));
  }
  const places = new Map();
  for (const rank of ascending(last.keys())) {
    const span = last.get(rank);
    if (!waitsIn(span) || !span.group || !span.number) continue;
    const group = `${span.attempt ?? 1} ${span.group}`;
    const place = `${group} ${span.number} ${span.name}`;
    if (!places.has(place)) places.set(place, { group, number: span.number, where: namedOf(span), waiting: [] });
    places.get(place).waiting.push(rank);
  }
  const waits = [...places.values()].map(({ group, number, where, waiting }) => ({
    where,
    waiting,
    lacking: ascending([...came.get(group)].filter(([, most]) => most < number).map(([rank]) => rank)),
  }));
  const waiting = new Set(waits.flatMap((wait) => wait.waiting));
  const lacking = new Set(waits.flatMap((wait) => wait.lacking).filter((rank) => !waiting.has(rank)));
  const ends = ascending(lacking).slice(0, MOST_ENDS);
  const many = `${waiting.size} rank${waiting.size > 1 ? "s" : ""}`;
  const why = ends.length ? [`by traces the waits of ${many} end at rank${ends.length > 1 ? "s" : ""} ${ends.join(", ")}`] : [];
  return { waits, ends, why };
}

function rowOf(rank, spans, answer) {
  const steps = spans.filter((span) => span.kind === "step" && span.ended !== false);
  const count = Math.max(1, steps.length);
  const wall = {};
  let waits = 0;
  for (const span of spans) {
    if (span.kind === "step") continue;
    wall[span.kind] = (wall[span.kind] ?? 0) + (span.took_s ?? 0) / count;
    waits += (span.waited_s ?? 0) / count;
  }
  const took = steps.reduce((sum, span) => sum + (span.took_s ?? 0), 0) / count;
  const end = Math.max(...spans.map((span) => (span.start_s ?? 0) + (span.took_s ?? 0)));
  const last = spans.find((span) => (span.start_s ?? 0) + (span.took_s ?? 0) === end);
  const waiting = waitsIn(last);
  const stopped = last.ended === false && last.name === "stopped";
  const row = {
    rank,
    node: spans[0].node,
    step: Math.max(...spans.map((span) => span.step ?? 0)),
    state: waiting ? "waits" : stopped ? "stopped" : end < answer.to_s - 1 ? "still" : "runs",
    still_s: Math.max(0, waiting ? last.waited_s : answer.to_s - end),
  };
  if (steps.length) {
    const own = Math.max(0, took - waits);
    row.spent = { window_s: answer.to_s - answer.from_s, steps: count, step_s: took, own_s: own, waits_s: waits, wall_s: wall };
  }
  return row;
}

function locate(ranks) {
  const seen = new Map();
  for (const row of ranks) {
    row.local_rank = seen.get(row.node) ?? 0;
    seen.set(row.node, row.local_rank + 1);
  }
}
