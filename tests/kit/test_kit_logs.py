"""A log that lies on a full disk loses lines, and takes no process with it."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
from holdfast.kit.logs import LazyLogger
for number in range(1_000):
    LazyLogger().warning("a line", number=number)
print("goes on", flush=True)
"""


def test_a_log_on_a_full_disk_ends_no_process() -> None:
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=full, check=False
        )
    assert run.stdout == b"goes on\n"


def test_lines_come_out_whole_and_in_order_where_there_is_room() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    lines = run.stderr.splitlines()
    assert len(lines) == 1_000
    assert b'"number": 999' in lines[-1]


def test_what_a_line_quotes_has_no_signs_that_a_terminal_obeys() -> None:
    program = (
        "from holdfast.kit.logs import set_up_logs; import structlog;"
        "set_up_logs('driver', json=False); structlog.get_logger().info('a', why='\\x1b]0;t\\x07')"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert rb"\x1b]0;t\x07" in run.stderr
