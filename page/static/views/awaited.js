// Where everybody waits, and for whom: the same as page/draw/awaited.py finds.

import { endOf, kindOf, startOf, STOPPED } from "./busy.js";

const ENDED_EARLY = 0.5;
const FEW = 8;

const ordered = (ranks) => [...ranks].sort((one, other) => one - other);

/** Those of the newest attempt: who stood in an earlier one was ended there. */
export function newestOf(spans) {
  const attempt = spans.reduce((most, span) => Math.max(most, span.attempt ?? 1), 1);
  return spans.filter((span) => (span.attempt ?? 1) === attempt);
}

/** Whether it is a wait that was under way when it was asked. */
export const isHeld = (span) => span.ended === false && (span.waited_s ?? 0) > ENDED_EARLY;

/** When each rank last did something; from when it was stopped, if it still is, it does nothing. */
export function lastOf(spans) {
  const found = new Map();
  const stopped = new Map();
  for (const span of spans) {
    if (kindOf(span) !== STOPPED) found.set(span.rank, Math.max(endOf(span), found.get(span.rank) ?? 0));
    else if (span.ended === false) stopped.set(span.rank, startOf(span));
  }
  return new Map([...found, ...stopped]);
}

export function awaitedOf(ended, rows, waiting) {
  const told = new Set();
  for (const row of rows.values()) if (row.waits_on_count === 1) told.add(row.waits_on[0]);
  const named = [...told].filter((rank) => !waiting.has(rank));
  if (named.length || !ended.size) return ordered(named);
  const ends = Float64Array.from(ended.values()).sort();
  const usual = ends[ends.length >> 1];
  const runs = (rank) => !waiting.size && rows.get(rank)?.state === "runs";
  const early = [...ended].filter(([rank, at]) => at < usual - ENDED_EARLY && !waiting.has(rank) && !runs(rank));
  return ordered(early.map(([rank]) => rank));
}

/** The collective or message in which most wait. */
export function whereOf(spans, rows, waiting) {
  const found = new Map();
  for (const span of spans) {
    if (isHeld(span) && waiting.has(span.rank)) found.set(span.rank, namedOf(span));
  }
  for (const rank of waiting) {
    const told = (rows.get(rank)?.waits_in ?? "").split(" of ")[0];
    if (told && !found.get(rank)?.startsWith(`${told} (`)) found.set(rank, told);
  }
  const counts = new Map();
  for (const place of found.values()) if (place) counts.set(place, (counts.get(place) ?? 0) + 1);
  let [best, most] = ["", 0];
  for (const place of [...counts.keys()].sort()) if (counts.get(place) > most) [best, most] = [place, counts.get(place)];
  return best;
}

/** With its number, and in brackets the axis that it is of: where each is known. */
export const namedOf = ({ name, number, axis }) => `${name ?? ""}${number ? ` #${number}` : ""}${axis ? ` (${axis})` : ""}`;

export function saysOf(found, nodes, ended, waiting, place) {
  if (!found.length) return "";
  const [first] = found;
  const more = found.length > 1 ? ` and ${found.length - 1} more` : "";
  const since = ended.has(first) ? `nothing since ${ended.get(first).toFixed(1)} s` : "nothing in this time";
  const does = found.length === 1 ? "has done" : "have done";
  return `rank ${first} on ${nodes.get(first) ?? "a node that is not known"}${more} ${does} ${since}; ${waits(waiting, place)}`;
}

function waits(waiting, place) {
  if (!waiting.size) return "others went on without";
  const listed = ordered(waiting).join(", ");
  const some = waiting.size > FEW ? `${waiting.size.toLocaleString("en")} ranks` : `ranks ${listed}`;
  const who = waiting.size === 1 ? `rank ${listed} waits` : `${some} wait`;
  return place ? `${who} in ${place}` : who;
}
