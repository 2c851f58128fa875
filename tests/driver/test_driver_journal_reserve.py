"""The room beside the journal is given up in pieces, so that who filled the disk gets little."""

import errno
import os
from pathlib import Path

import pytest

from holdfast.driver.adapters.sql.reserve import PIECES, Reserve

SIZE = 64 << 10


def test_it_is_given_up_piece_by_piece_and_made_whole_again(tmp_path: Path) -> None:
    path = tmp_path / "reserve"
    reserve = Reserve(path, size_bytes=SIZE)
    left = []
    while reserve.release():
        left.append(path.stat().st_size if path.exists() else 0)
    assert left == [SIZE - piece * SIZE // PIECES for piece in range(1, PIECES + 1)]
    assert reserve.missing() is None
    assert path.stat().st_size == SIZE


def test_what_an_earlier_driver_left_of_it_is_used_and_made_whole(tmp_path: Path) -> None:
    path = tmp_path / "reserve"
    Reserve(path, size_bytes=SIZE).release()
    assert Reserve(path, size_bytes=SIZE).missing() is None
    assert path.stat().st_size == SIZE


def test_where_a_person_has_deleted_it_there_is_none_to_give(tmp_path: Path) -> None:
    path = tmp_path / "reserve"
    reserve = Reserve(path, size_bytes=SIZE)
    path.unlink()
    assert not reserve.release()


def test_where_it_cannot_be_made_whole_what_is_kept_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    path = tmp_path / "reserve"
    reserve = Reserve(path, size_bytes=SIZE)
    reserve.release()
    monkeypatch.setattr(os, "posix_fallocate", refused)
    assert reserve.missing() is not None
    assert path.stat().st_size == SIZE - SIZE // PIECES
