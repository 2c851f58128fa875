"""Imports modules once, then runs scripts, each in a process that it forks; one order a line.

`python forking.py MODULE…`, started by `forked`. Its answer to an order is the exit code.
"""

import importlib
import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

from dying import die_with_parent


def run(order: dict[str, Any]) -> None:
    """Be the script's process, to its end."""
    die_with_parent()
    for number, name in ((0, os.devnull), (1, order["out"]), (2, order["err"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = [order["script"], *order["arguments"]]
    sys.path.insert(0, str(Path(order["script"]).parent))
    code: Any = 0
    try:
        runpy.run_path(order["script"], run_name="__main__")
    except SystemExit as end:
        code = end.code or 0
    except BaseException:  # noqa: BLE001 as the interpreter does
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    os._exit(code)  # to take down what torch has imported would take a second of CPU


def main() -> None:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    print("ready", flush=True)
    for line in sys.stdin:
        if not (pid := os.fork()):
            run(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
