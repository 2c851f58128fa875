"""What a GPU's own driver says of it, each trouble once."""

import pytest

from holdfast.driver.core.evidence import signs
from holdfast.driver.watch import hardware
from holdfast.driver.watch.hardware import ToldOfGpus
from holdfast.driver.watch.model import Settings
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Gpu, Heartbeat


def told(before: ToldOfGpus, now: float, *seen: Gpu) -> tuple[ToldOfGpus, tuple[Finding, ...]]:
    beat = Heartbeat(node="n", incarnation="i", sequence=1, uptime_s=1.0, gpus=seen)
    return hardware.judge_gpus(before, beat, Settings(), now)


WEIGHTS = {
    Gpu(index=3, lost=True): Weight.CONCLUSIVE,
    Gpu(index=3, recovery="reboot"): Weight.SUSPECT,
    Gpu(index=3, remap_failed=True): Weight.SUSPECT,
    Gpu(index=3, uncorrected_errors=2): Weight.REPORT,
}


@pytest.mark.parametrize(("gpu", "weight"), WEIGHTS.items(), ids=range(len(WEIGHTS)))
def test_a_trouble_weighs_what_its_xid_would_and_is_told_once(gpu: Gpu, weight: Weight) -> None:
    well = Gpu(index=0, celsius=60, uncorrected_errors=0)
    seen, (finding,) = told({}, 1.0, well, gpu)
    assert (finding.kind, finding.weight, finding.node) == (Kind.KERNEL_FAULT, weight, "n")
    assert finding.summary.startswith("GPU 3 of n ")
    assert finding.sign == signs.of_gpu(weight)
    seen, again = told(seen, 2.0, well, gpu)
    assert again == ()
    seen, unread = told(seen, 3.0)
    assert unread == (), "nothing was read: nothing is over"
    assert told(seen, 4.0, gpu)[1] == ()
    over, none = told(seen, 5.0, Gpu(index=3))
    assert (over, none) == ({}, ())


def test_errors_that_were_not_corrected_are_told_again_when_there_are_more() -> None:
    seen: ToldOfGpus = {}
    found = []
    for now, errors in enumerate((1, 1, 900, 900, 5, 6)):  # a driver loaded anew counts from 0
        seen, new = told(seen, float(now), Gpu(index=3, uncorrected_errors=errors))
        found += [each.evidence[0].text.rpartition(", ")[2] for each in new]
    assert found == ["1 error", "900 errors", "6 errors"]


def test_heat_is_told_where_it_lasts_and_accuses_nobody() -> None:
    hot = Gpu(index=1, celsius=93, slowed_by_heat=True)
    seen, found = told({}, 0.0, hot)
    assert found == ()
    seen, found = told(seen, 5.0, Gpu(index=1, celsius=90))
    seen, found = told(seen, 6.0, hot)
    assert found == ()
    seen, (finding,) = told(seen, 16.0, hot)
    assert (finding.weight, finding.summary) == (
        Weight.REPORT,
        "GPU 1 of n has been slowed by heat for 10 s",
    )
    assert finding.evidence[0].text.endswith("10 s, 93 °C")
