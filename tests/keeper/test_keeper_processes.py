"""What the keeper makes of /proc."""

from headless import headless

from holdfast.keeper import processes


def test_a_process_is_there_until_its_last_thread_has_ended() -> None:
    with headless() as process:
        assert processes.start_ticks(process.pid) is not None
    assert processes.start_ticks(process.pid) is None
