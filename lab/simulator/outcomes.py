"""Outcomes of many seeds: written down, read again, and compared with those of another core.

Two lives are alike when their books are, not when the same effects were performed: a redesign may
decide otherwise where nobody is the worse for it.
"""

import lzma
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from holdfast.lab.simulator.books import Outcome

Figures = dict[str, float]

FIGURES = {
    "succeeded": "jobs that reached their last step, a seed",
    "failed": "jobs that were given up, a seed",
    "attempts": "starts, a seed",
    "repeated": "steps done again, a seed",
    "avoidable": "of these, such as something that was there could have saved",
    "idle_s": "virtual seconds that jobs did not train, a seed",
    "held_s": "virtual seconds that nodes were held, a seed",
    "evicted": "evictions, a seed",
    "innocent": "of nodes that nothing had happened to",
    "broken": "seeds that broke a rule",
}


def figures(outcomes: Sequence[Outcome]) -> Figures:
    """The mean of each figure over all seeds."""
    return {name: fmean(_figures(each)[name] for each in outcomes) for name in FIGURES}


def _figures(outcome: Outcome) -> Figures:
    jobs = outcome.jobs
    return {
        "succeeded": sum(job.ended == "Succeeded" for job in jobs),
        "failed": sum(job.ended == "Failed" for job in jobs),
        "attempts": sum(job.attempts for job in jobs),
        "repeated": sum(job.repeated for job in jobs),
        "avoidable": sum(job.repeated - job.unavoidable for job in jobs),
        "idle_s": sum(job.idle_s for job in jobs),
        "held_s": sum(job.held_s for job in jobs),
        "evicted": outcome.evicted,
        "innocent": outcome.innocent,
        "broken": bool(outcome.rule),
    }


def write(path: Path, outcomes: Iterable[Outcome]) -> None:
    """A line of JSON for each seed, in the order of seeds, compressed."""
    lines = (msgspec.json.encode(each) for each in sorted(outcomes, key=lambda o: o.seed))
    path.write_bytes(lzma.compress(b"\n".join(lines) + b"\n"))


def read(path: Path) -> list[Outcome]:
    """What `write` wrote.

    Raises lzma.LZMAError or msgspec.DecodeError where it is not that.
    """
    decoder = msgspec.json.Decoder(Outcome)
    return [decoder.decode(line) for line in lzma.decompress(path.read_bytes()).splitlines()]


def differing(before: Iterable[Outcome], after: Iterable[Outcome]) -> list[tuple[Outcome, Outcome]]:
    """The seeds of both that did not come to the same, in the order of seeds."""
    known = {outcome.seed: outcome for outcome in before}
    pairs = [(known[each.seed], each) for each in after if each.seed in known]
    return sorted((pair for pair in pairs if pair[0] != pair[1]), key=lambda pair: pair[0].seed)


def table(before: Sequence[Outcome], after: Sequence[Outcome]) -> str:
    """Each figure before and now, over the seeds that both have, and how many seeds differ."""
    seeds = {each.seed for each in before} & {each.seed for each in after}
    if not seeds:
        return "no seed is in both\n"
    old, new = ([each for each in side if each.seed in seeds] for side in (before, after))
    was, now = figures(old), figures(new)
    rows = [f"{name:10} {was[name]:12.4f} {now[name]:12.4f}  {FIGURES[name]}" for name in FIGURES]
    head = f"{'':10} {'before':>12} {'now':>12}"
    unlike = differing(old, new)
    told = f"{len(unlike)} of {len(seeds)} seeds came to something else"
    first = ", ".join(str(one.seed) for one, _ in unlike[:12])
    return "\n".join([head, *rows, f"{told}: {first}" if unlike else told]) + "\n"


def sums(outcomes: Sequence[Outcome]) -> str:
    """Each figure, a seed."""
    found = figures(outcomes)
    return "".join(f"{name:10} {found[name]:12.4f}  {FIGURES[name]}\n" for name in FIGURES)
