"""`python -m holdfast.bench.slow record PATH …` and `judge QUIET BUSY [SLOW]`."""

import argparse
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m holdfast.bench.slow")
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="run real ranks and write what they told")
    record.add_argument("path", type=Path)
    record.add_argument("--ranks", type=int, default=8)
    record.add_argument("--seconds", type=float, default=180)
    record.add_argument("--work", type=int, default=256, help="rows of a batch")
    record.add_argument("--neighbours", type=int, default=0, help="processes that spin at times")
    record.add_argument("--percents", type=float, nargs="*", default=[])
    judge = commands.add_parser("judge", help="play traces into the detector")
    judge.add_argument("quiet", type=Path, help="that the limit is taken from")
    judge.add_argument("busy", type=Path, help="that is judged, healthy")
    judge.add_argument("slow", type=Path, nargs="?", help="in which ranks were slow at times")
    judge.add_argument("--steps", type=int, default=100_000)
    judge.add_argument("--runs", type=int, default=100, help="of each size of slowness")
    given = vars(parser.parse_args())
    if given.pop("command") == "record":
        from holdfast.bench.slow.record import record as run

        run(given.pop("path"), **given)
    else:
        from holdfast.bench.slow.judge import judge as play

        play(**given)


if __name__ == "__main__":
    main()
