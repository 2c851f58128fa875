"""`python -m holdfast.lab.simulator SEED [COUNT]`: run seeds, and explain the first that fails."""

import sys

from holdfast.lab.simulator.simulate import explain, run_many


def main() -> int:
    first = int(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    failures = run_many(range(first, first + count))
    failures.sort(key=lambda failure: failure.scenario.seed)
    if failures:
        sys.stdout.write(explain(failures[0], lines=400) + "\n")
    rules = sorted({(failure.rule, failure.scenario.seed) for failure in failures})
    sys.stdout.write(f"{count} seeds, {len(failures)} failures {rules[:40]}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
