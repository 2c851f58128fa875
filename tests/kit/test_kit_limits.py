"""How many files a process may have open."""

import subprocess
import sys

ASKS = """
import resource
from holdfast.kit.limits import raise_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))
print(raise_open_files(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_a_process_gives_itself_all_the_open_files_that_it_may_have() -> None:
    asked = subprocess.run([sys.executable, "-c", ASKS], check=True, capture_output=True, text=True)
    assert asked.stdout.split() == ["512"] * 3
