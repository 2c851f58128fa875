"""How often a TrainingJob's status is written: progress now and then, all else at once."""

from typing import Any

from written_status import Object, Written

from holdfast.driver.adapters.kubernetes.operator import PROGRESS_EVERY_S, Operator
from holdfast.driver.adapters.kubernetes.podbook import PodBook


class Clock:
    now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s


class Loop:
    state = None
    post = print


def job(uid: str, **status: Any) -> Object:
    return {"metadata": {"name": "speech", "namespace": "lab", "uid": uid}, "status": status}


async def test_progress_is_written_each_ten_seconds_at_most_and_what_turned_at_once() -> None:
    client, clock = Written(), Clock()
    operator: Any = Operator(
        client,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        loop=Loop(),  # type: ignore[arg-type]
        watch=None,  # type: ignore[arg-type]
        book=PodBook(),
        clock=clock,  # type: ignore[arg-type]
    )
    seen = job("one")
    for tenths in range(301):  # half a minute, in which a step takes a tenth of a second
        clock.now_s = 100.0 + tenths / 10
        new = {"phase": "Running", "step": tenths}
        await operator._write("speech", seen, new)
        seen = job("one", **client.said[-1])
    assert [each["step"] for each in client.said] == [0, 100, 200, 300]
    assert PROGRESS_EVERY_S == 10.0
    await operator._write("speech", seen, {"phase": "Suspending", "step": 301})
    assert client.said[-1]["phase"] == "Suspending"
    await operator._write("speech", job("another"), {"phase": "Running", "step": 1})
    assert client.said[-1] == {"phase": "Running", "step": 1}
    assert len(client.said) == 6
