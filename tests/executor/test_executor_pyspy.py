"""What is left of a stack: frames of whoever is asked for it, none of what runs the script."""

from holdfast.executor.adapters.pyspy import without_launcher

STACK = """\
Process 7: holdfast rank 0
Python v3.11.7 (/usr/bin/python3.11)

Thread 7 (idle): "MainThread"
    step (/home/me/train.py:31)
    <module> (/home/me/train.py:40)
    _execute_script (/opt/src/holdfast/executor/launcher/child.py:133)
    _execute (/opt/src/holdfast/executor/launcher/child.py:109)
    <module> (<string>:1)
Thread 9 (idle): "Thread-1"
    wait (threading.py:327)"""


def test_a_stack_ends_where_the_script_begins() -> None:
    assert without_launcher(STACK) == STACK.replace(
        """
    _execute_script (/opt/src/holdfast/executor/launcher/child.py:133)
    _execute (/opt/src/holdfast/executor/launcher/child.py:109)
    <module> (<string>:1)""",
        "",
    )


def test_a_rank_that_has_not_come_to_its_script_has_all_of_it() -> None:
    before = STACK.replace("_execute_script", "_prepare")
    assert without_launcher(before) == before
