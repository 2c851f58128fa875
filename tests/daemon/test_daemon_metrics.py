"""What a daemon tells Prometheus, and whom it answers."""

import asyncio
import re
from pathlib import Path

import pytest
from ports import free_port
from prometheus_client.parser import text_string_to_metric_families

from holdfast.daemon import serving
from holdfast.daemon.metrics import Figures
from holdfast.daemon.settings import read
from holdfast.protocol.messages import Heartbeat, NicRates, Pressure
from holdfast.protocol.nodeenv import BadSettings

BEAT = Heartbeat(
    node="n",
    incarnation="i",
    sequence=1,
    uptime_s=1.0,
    nics=(NicRates(name="eth0", sent_bytes_per_s=5.0, errors_per_s=2.0),),
    pressure=Pressure(io=0.5),
    unreadable=("kernel log: no right",),
)


async def _ask(port: int, line: str) -> tuple[str, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{line} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    return head.splitlines()[0], body


async def test_it_tells_what_its_last_heartbeat_has() -> None:
    figures, port = Figures(), free_port()
    server = await serving.serve(f"127.0.0.1:{port}", figures)
    assert server is not None
    async with server:
        assert "holdfast_node_ranks" not in (await _ask(port, "GET /metrics"))[1]
        figures.told(BEAT, sent=True)
        figures.told(BEAT, sent=False)
        status, body = await _ask(port, "GET /metrics")
        assert status == "HTTP/1.1 200 OK"
        assert "404" in (await _ask(port, "GET /"))[0]
        assert "404" in (await _ask(port, "POST /metrics"))[0]
    told = {
        (s.name, s.labels.get("nic", "")): s.value
        for family in text_string_to_metric_families(body)
        for s in family.samples
    }
    assert told["holdfast_node_heartbeats_sent_total", ""] == 1
    assert told["holdfast_nic_sent_bytes_per_second", "eth0"] == 5
    assert told["holdfast_nic_errors_per_second", "eth0"] == 2
    assert told["holdfast_node_io_pressure", ""] == 0.5
    assert told["holdfast_node_unreadable", ""] == 1


async def test_a_port_that_is_taken_is_no_end_of_the_daemon() -> None:
    port = free_port()
    server = await serving.serve(f"127.0.0.1:{port}", Figures())
    assert server is not None
    async with server:
        assert await serving.serve(f"127.0.0.1:{port}", Figures()) is None
    assert await serving.serve("", Figures()) is None


@pytest.mark.parametrize("value", ["9464", "localhost:9464", "127.0.0.1:0", "127.0.0.1:x"])
def test_an_address_that_is_none_is_said(value: str) -> None:
    with pytest.raises(BadSettings, match=r"HOLDFAST_DAEMON_METRICS.*set it to"):
        read({"HOLDFAST_DAEMON_METRICS": value})


def test_the_page_on_metrics_has_each_of_them() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    said = page.partition("## Daemons")[2].partition("\n## ")[0]
    figures = Figures()
    figures.told(BEAT, sent=True)
    names = re.findall(r"^# TYPE holdfast_(?:node|nic)_(\w+) ", figures.text().decode(), re.M)
    assert len(names) > 8
    assert [name for name in names if f"_{name}`" not in said] == []
