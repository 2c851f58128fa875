"""A script that begins anew is not told to be back as if nothing was repeated."""

from holdfast.driver.core import events as e


def trains(life) -> str:
    life.do(e.ProgressSeen(job="job", epoch=life.job.epoch))
    return life.job.why


def test_who_begins_anew_with_steps_of_its_own_count_repeats_what_it_had_not_saved(life) -> None:
    life.node("n0")
    life.node("n1")
    life.submit()
    life.answer()
    assert trains(life) == "job trains"
    life.dies(1, signal=9)
    life.answer()
    assert trains(life) == (
        "job trains again: its script began anew, and repeats what it had not saved"
    )
