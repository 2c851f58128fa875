"""Who asks here and does not hear the answer: half-done handshakes, of a table and of a kernel."""

from pathlib import Path

from holdfast.daemon.probes.half_open import asking

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
ROW = "   0: 0200000A:{port:04X} {address}:9C40 {state} 00000000:00000000 01:00000064 00000000  0\n"


def test_it_is_who_has_asked_this_port_and_not_answered_since(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    table.write_text(
        HEAD
        + ROW.format(port=7001, address="0300000A", state="03")
        + ROW.format(port=7001, address="0400000A", state="01")
        + ROW.format(port=7002, address="0500000A", state="03")
        + "torn\n"
    )
    assert asking(7001, table) == {"10.0.0.3"}


def test_where_the_kernel_does_not_tell_there_is_nobody(tmp_path: Path) -> None:
    assert asking(7001, tmp_path / "none") == frozenset()
