"""A forked program cannot tell that it was not started by `python`; others are executed."""

import asyncio
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from holdfast.protocol import forks
from holdfast.protocol.paths import RunPaths

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOOK = """
import atexit, sys, __main__
atexit.register(print, "atexit")
print(__name__, __file__, __spec__ and __spec__.name, __package__, __doc__)
print(sys.argv, sys.path[0], sys.flags.safe_path, sys.stdin.read() == "")
print(sorted(name for name in vars(__main__)))
print("on stderr", file=sys.stderr)
"""

ENDS = {
    "a code": "import sys; sys.exit(7)",
    "no code": "raise SystemExit",
    "a sentence": "raise SystemExit('out of coffee')",
    "an exception": "def f():\n    return 1 / 0\n\nf()",
    "a chain": "try:\n    {}['x']\nexcept KeyError as e:\n    raise ValueError('bad') from e",
    "a syntax error": "x = = 1",
    "null bytes": "import os\nx = 1\0\n",
    "no end of line": "print('unflushed', end='')",
    "a thread": "import threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()",
    "a finalizer that needs a global": "import time\nclass Held:\n    def __del__(self):\n"
    "        time.sleep(0.01)\n        print('let go', flush=True)\nkept = Held()",
    "a finalizer after an exit in a handler": "import sys, time\nclass Held:\n"
    "    def __del__(self):\n        time.sleep(0.01)\n        print('let go', flush=True)\n"
    "kept = Held()\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    sys.exit(3)",
    "a proxy of what is gone": "import weakref\nclass Held:\n    pass\n"
    "held = Held()\nproxy = weakref.proxy(held)\ndel held",
    "one that says what it is asked": "class Asked:\n    @property\n    def __class__(self):\n"
    "        print('asked')\n        raise RuntimeError('not within a request')\nkept = Asked()",
    "one that a daemon thread holds up": "import threading, time\nclass Held:\n"
    "    def __del__(self):\n        time.sleep(0.1)\nkept, count = Held(), 0\n"
    "def work():\n    global count\n    while True:\n        count += 1\n"
    "for _ in range(3):\n    threading.Thread(target=work, daemon=True).start()\n"
    "raise RuntimeError('the reason')",
}

SPAWNS = """
import multiprocessing as mp
def double(x):
    return 2 * x
if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as pool:
        print(pool.map(double, [1, 2]), flush=True)
"""


async def as_python(task: Any) -> tuple[int, str, str]:
    """What `python` itself makes of the same command."""
    done = await asyncio.to_thread(
        subprocess.run,
        task.command,
        cwd=task.workdir,
        env={**os.environ, **task.env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


async def as_rank(node: Any, task: Any) -> tuple[int, str, str]:
    await node.launch(task, ranks=1)
    (ended,) = await node.exited(1)
    return ended.exit_code, node.output(), node.output(stream="stderr")


@pytest.mark.parametrize("how", ["file", "module", "code"])
async def test_a_program_sees_what_it_would_see_under_python(node: Any, how: str) -> None:
    path = node.script(LOOK)
    text = LOOK.replace("__file__, ", "")
    command = {
        "file": [f"{path.parent.name}/{path.name}", "-x", "1"],
        "module": ["-m", f"{path.parent.name}.script", "-x", "1"],
        "code": ["-c", text, "-x", "1"],
    }[how]
    task = node.task(sys.executable, *command)
    assert await as_rank(node, task) == await as_python(task)


@pytest.mark.parametrize("text", ENDS.values(), ids=ENDS.keys())
async def test_a_program_ends_as_it_would_under_python(node: Any, text: str) -> None:
    task = node.python(text)
    assert await as_rank(node, task) == await as_python(task)


LOADS = "import torch\ntorch.load('nowhere')\n"
PASSED_ON = {
    "an exception": LOADS,
    "a cause": "import torch\ntry:\n    torch.load('nowhere')\n"
    "except OSError as error:\n    raise ValueError('bad') from error\n",
    "a group": "import torch\ntry:\n    torch.load('nowhere')\n"
    "except OSError as error:\n    raise ExceptionGroup('bad', [error])\n",
    "what was handled": "import torch\ntry:\n    torch.load('nowhere')\n"
    "except OSError:\n    raise ValueError('bad')\n",
    "a group of earlier ones": "import torch\nkept = []\ntry:\n    torch.load('nowhere')\n"
    "except OSError as error:\n    kept.append(error)\nraise ExceptionGroup('bad', kept)\n",
    "one whose fields are frozen": "import dataclasses, torch\n"
    "@dataclasses.dataclass(frozen=True)\nclass Bad(Exception):\n    why: str\n"
    "torch.nn.Linear(1, 1)\nraise Bad('bad')\n",
    "a hook of its own": "import sys, traceback\n"
    "sys.excepthook = lambda *error: print(*traceback.format_exception(*error))\n" + LOADS,
    "a collective": "import torch.distributed as dist\n"
    "dist.init_process_group('mpi', store=dist.HashStore(), rank=0, world_size=1)\n",
}


EACH = """
import os, sys
import torch, torch.distributed
cases = sys.argv[1:]
rank = os.environ.get("RANK")
if rank is None:
    for rank, case in enumerate(cases):
        if not os.fork():
            for number, stream in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(f"{case}.{stream}", os.O_WRONLY | os.O_CREAT), number)
            break
    else:
        sys.exit({os.waitstatus_to_exitcode(os.wait()[1]) for _ in cases} != {1})
exec(compile(open(cases[int(rank)]).read(), cases[int(rank)], "exec"))
"""
"""Torch is imported once for all cases: each is a rank of one task, and a fork under `python`."""


@pytest.mark.torch
async def test_what_goes_through_torch_has_no_frames_of_ours(node: Any, tmp_path: Path) -> None:
    paths = [tmp_path / f"case-{nth}" for nth in range(len(PASSED_ON))]
    for path, text in zip(paths, PASSED_ON.values(), strict=True):
        path.write_text(text)
    task = node.python(EACH, *map(str, paths))
    code, _, said = await as_python(task)
    assert code == 0, said
    await node.launch(task, ranks=len(paths))
    ended = await node.exited(len(paths))
    assert [status.exit_code for status in ended] == [1] * len(paths)
    for rank, (path, case) in enumerate(zip(paths, PASSED_ON, strict=True)):
        told = [Path(f"{path}.{stream}").read_text() for stream in ("stdout", "stderr")]
        assert "Traceback" in "".join(told)
        assert [node.output(rank), node.output(rank, "stderr")] == told, case


LEAVES_THINGS_OPEN = """
import atexit, sys
class Written:
    def __del__(self):
        open("deleted", "w").write("yes")
kept = Written()
kept.itself = kept
open_by_a_global = open("global", "w")
open_by_a_global.write("yes")
sys.left = open("module", "w")
sys.left.write("yes")
atexit.register(lambda: open("exited", "w").write("yes"))
"""


async def test_what_a_program_leaves_open_is_written_when_it_ends(node: Any) -> None:
    task = node.python(LEAVES_THINGS_OPEN)
    assert (await as_rank(node, task))[0] == 0
    written = {path: (Path(task.workdir) / path).read_text() for path in FILES_LEFT}
    assert written == dict.fromkeys(FILES_LEFT, "yes")


FILES_LEFT = ("deleted", "global", "module", "exited")


async def test_a_script_that_is_not_there_fails_as_under_python(node: Any) -> None:
    task = node.task(sys.executable, "nowhere.py")
    code, _, said = await as_rank(node, task)
    assert code == 2
    assert "can't open file" in said


async def test_multiprocessing_spawns_from_a_forked_rank(node: Any) -> None:
    assert await as_rank(node, node.python(SPAWNS)) == (0, "[2, 4]\n", "")


NAMES = """
import os, sys
print(open("/proc/self/cmdline").read().rstrip("\\0").split("\\0"), open("/proc/self/comm").read())
print(os.environ["HOME"])
"""


async def test_a_rank_is_called_by_its_own_command_in_the_list_of_processes(node: Any) -> None:
    task = node.python(NAMES)
    python, script = Path(task.command[0]).name, task.command[1]
    code, said, _ = await as_rank(node, task)
    assert code == 0
    assert said.splitlines()[0] == f"{[python, script]} rank-0"
    assert os.environ["HOME"] in said


async def test_a_command_longer_than_the_launchers_is_cut_and_its_environment_is_whole(
    node: Any,
) -> None:
    text = "print(len(open('/proc/self/cmdline').read())); print(open('/proc/self/environ').read())"
    path = node.script(text)
    code, said, _ = await as_rank(node, node.task(sys.executable, str(path), "x" * 100_000))
    length, environment = said.split("\n", 1)
    assert (code, int(length) < 10_000) == (0, True)
    assert f"HOME={os.environ['HOME']}\0" in environment


async def test_ranks_do_not_share_their_random_numbers(node: Any) -> None:
    task = node.python("import random, numpy\nprint(random.random(), numpy.random.random())")
    await node.launch(task, ranks=2)
    await node.exited(2)
    one, other = node.output(0).split(), node.output(1).split()
    assert len({*one, *other}) == 4


async def test_the_users_own_module_comes_before_an_installed_one_of_its_name(node: Any) -> None:
    task = node.python("import xmlrpc.client, gzip\nprint(gzip.mine)")
    mine = Path(task.command[1]).with_name("gzip.py")
    mine.write_text("mine = 'yes'\nGzipFile = object")
    assert await as_rank(node, task) == (0, "yes\n", "")


async def test_what_a_rank_has_imported_is_there_before_the_next_one_starts(node: Any) -> None:
    text = """
        import importlib, sys
        name = "wsgiref." + "headers"
        print(name in sys.modules)
        importlib.import_module(name)
        """
    task = node.python(text)
    assert (await as_rank(node, task))[1] == "False\n"
    again = node.task(*task.command, env={"ANOTHER": "environment"})
    assert (await as_rank(node, again))[1] == "True\n"


async def test_what_is_not_python_is_executed_and_said(node: Any) -> None:
    task = node.task("sh", "-c", 'echo "$RANK of $WORLD_SIZE"; exit 127', env={"A": "b"})
    await node.launch(task, ranks=2)
    ended = await node.exited(2)
    assert [status.exit_code for status in ended] == [127, 127]
    assert not any(status.error and status.error.not_startable for status in ended)
    assert node.output(1) == "1 of 2\n"
    assert node.driver.seen.launcher.startswith("none: sh is not")
    assert node.driver.seen.rendezvous.port > 0


@pytest.mark.parametrize(
    ("command", "more", "code", "words"),
    [
        (["no-such-program"], {}, 127, ["command", "'no-such-program'", "Give its whole path"]),
        (["./script.py"], {}, 127, ["command", "'./script.py'"]),
        (["sh"], {"workdir": "/no/such/folder"}, 126, ["workdir", "'/no/such/folder'", "Give"]),
        (["sh"], {"log_root": "/dev/null"}, 126, ["log_root", "/dev/null", "Give a folder"]),
        (["sh", "a\0b"], {}, 126, ["command[1]", "'a\\x00b'", "NUL", "Remove it"]),
        (["sh"], {"env": {"A": "b\0"}}, 126, ["env['A']", "NUL", "Remove it"]),
        ([sys.executable, "-c", "", "\0"], {}, 126, ["command[3]", "NUL", "Remove it"]),
        (["sh"], {"log_root": "/a\0"}, 126, ["log_root", "null byte", "Give a folder"]),
        (["sh", "x" * 200_000], {}, 126, ["command", "Argument list too long", "Change command"]),
    ],
    ids="program relative workdir logs nul nul-in-env nul-to-python nul-in-logs too-long".split(),
)
async def test_what_cannot_be_started_says_which_field_and_how_to_mend_it(
    node: Any, command: list[str], more: dict[str, str], code: int, words: list[str]
) -> None:
    await node.launch(node.task(*command, **more), ranks=1)
    (ended,) = await node.exited(1)
    assert ended.exit_code == code
    assert ended.error.not_startable
    for word in words:
        assert word in ended.error.message


async def test_a_rank_that_cannot_be_written_down_on_a_full_disk_is_not_started(node: Any) -> None:
    task = node.task("sh", "-c", "echo started")
    desired = await node.want(task, host_rendezvous=True)
    folder = RunPaths(node.folder / "run").rank("job", desired.epoch, 0)
    folder.mkdir(parents=True)
    (folder / forks.FILE).symlink_to("/dev/full")
    told = await node.driver.eventually(
        lambda o: o.epoch == desired.epoch and o.rendezvous and o.quiet
    )
    await node.want(
        task, ranks=1, host_rendezvous=True, epoch=desired.epoch, rendezvous=told.rendezvous
    )
    (ended,) = await node.exited(1)
    assert (ended.exit_code, ended.error.not_startable) == (126, True)
    assert "log_root" in ended.error.message
    assert "No space left on device" in ended.error.message
    assert await as_rank(node, node.task("sh", "-c", "echo lives")) == (0, "lives\n", "")
    assert len({hello.incarnation for hello in node.driver.hellos}) == 1, "it is the same executor"


async def test_an_exception_reaches_the_driver_with_the_users_own_frames_only(node: Any) -> None:
    text = textwrap.dedent(ENDS["an exception"])
    await node.launch(node.python(text), ranks=1)
    (ended,) = await node.exited(1)
    assert ended.exit_code == 1
    assert ended.error.exception == "ZeroDivisionError"
    assert ended.error.message == "ZeroDivisionError: division by zero"
    assert ended.error.traceback.count("File ") == 2
    assert not ended.error.in_collective
