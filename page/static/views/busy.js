// What a rank was at, moment by moment: the same segments and pieces as page/draw/busy.py makes.

export const [WAITS, STOPPED, OWN] = ["waits", "stopped", "step"];
export const MEETINGS = ["collective", "p2p"];
export const PIECE_STEPS = 3;

export const startOf = (span) => span.start_s ?? 0;
export const endOf = (span) => startOf(span) + (span.took_s ?? 0);
export const kindOf = (span) => (span.kind === "pause" && span.name === STOPPED ? STOPPED : span.kind);

/** Of one rank, in order; none overlaps another: { beginS, endS, kind, span }. */
export function segmentsOf(spans) {
  const order = spans.map((_, at) => at);
  order.sort((one, other) => startOf(spans[one]) - startOf(spans[other]) || endOf(spans[other]) - endOf(spans[one]));
  const own = ownWaits(spans, order);
  const [found, within] = [[], []];
  let nowS = 0;
  const leave = (untilS) => {
    while (within.length && endOf(spans[within.at(-1)]) <= untilS) {
      const at = within.pop();
      add(found, spans[at], own[at], at, nowS, endOf(spans[at]));
      nowS = Math.max(nowS, endOf(spans[at]));
    }
  };
  for (const at of order) {
    const beginS = startOf(spans[at]);
    leave(beginS);
    const outer = within.at(-1);
    if (outer !== undefined) add(found, spans[outer], own[outer], outer, nowS, beginS);
    nowS = Math.max(nowS, beginS);
    within.push(at);
  }
  leave(Infinity);
  return found;
}

/** Of each span, the waits that no span within it has. */
function ownWaits(spans, order) {
  const own = spans.map((span) => span.waited_s ?? 0);
  const within = [];
  for (const at of order) {
    while (within.length && endOf(spans[within.at(-1)]) <= startOf(spans[at])) within.pop();
    if (within.length) own[within.at(-1)] -= spans[at].waited_s ?? 0;
    within.push(at);
  }
  return own.map((each) => Math.max(0, each));
}

function add(found, span, ownS, at, beginS, endS) {
  const kind = kindOf(span);
  const meets = MEETINGS.includes(kind);
  const turn = meets ? startOf(span) + ownS : endOf(span) - ownS;
  const turnS = Math.min(Math.max(turn, beginS), endS);
  const [first, second] = meets ? [WAITS, kind] : [kind, WAITS];
  if (turnS > beginS) found.push({ beginS, endS: turnS, kind: first, span: at });
  if (endS > turnS) found.push({ beginS: turnS, endS, kind: second, span: at });
}

/** The same in pieces of a length, which begin at multiples of it: { beginS, shares }. */
export function piecesOf(segments, fromS, toS, pieceS) {
  const first = Math.floor(fromS / pieceS);
  const count = Math.max(1, Math.ceil(toS / pieceS) - first);
  const found = Array.from({ length: count }, (_, at) => ({ beginS: (first + at) * pieceS, shares: {} }));
  for (const { beginS, endS, kind } of segments) {
    let atS = Math.max(fromS, beginS);
    const lastS = Math.min(toS, endS);
    while (atS < lastS) {
      const at = Math.min(count - 1, Math.floor(atS / pieceS) - first);
      const untilS = Math.max((first + at + 1) * pieceS, atS + 1e-9);
      const { shares } = found[at];
      shares[kind] = (shares[kind] ?? 0) + (Math.min(lastS, untilS) - atS) / pieceS;
      atS = untilS;
    }
  }
  return found.filter(({ shares }) => Object.keys(shares).length);
}
