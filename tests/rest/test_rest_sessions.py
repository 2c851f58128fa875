"""Codes and sessions of the page by themselves: how long, how often, over a restart, for whom."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.driver.adapters.page.safety import is_ours
from holdfast.driver.adapters.page.sessions import (
    CODE_S,
    MOST_CODES,
    MOST_SESSIONS,
    SESSION_S,
    Sessions,
    form_token,
)

OWN, ADA = "the driver's own token of people", "ada's token"


class StoppedClock:
    """Both clocks go on when they are told."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def monotonic_s(self) -> float:
        return self.passed_s

    def wall(self) -> datetime:
        return datetime(2026, 11, 26, 3, tzinfo=UTC) + timedelta(seconds=self.passed_s)


def cookie_of(sessions: Sessions, token: str) -> str:
    cookie = sessions.redeem(sessions.code(token))
    assert cookie is not None
    return cookie


def test_a_code_is_good_once_and_for_a_minute() -> None:
    clock = StoppedClock()
    sessions = Sessions(OWN, clock)
    once, late = sessions.code(OWN), sessions.code(OWN)
    assert sessions.redeem(once)
    assert sessions.redeem(once) is None
    clock.passed_s = CODE_S + 1
    assert sessions.redeem(late) is None


@pytest.mark.parametrize(("token", "after"), [(OWN, OWN), (ADA, None)])
def test_a_session_of_the_drivers_own_token_outlives_its_restart_and_no_other(
    token: str, after: str | None
) -> None:
    clock = StoppedClock()
    before = Sessions(OWN, clock)
    cookie = cookie_of(before, token)
    assert token not in cookie
    assert before.token_of(cookie) == token
    assert Sessions(OWN, clock).token_of(cookie) == after
    assert Sessions("another token of people", clock).token_of(cookie) is None
    clock.passed_s = SESSION_S + 1
    assert before.token_of(cookie) is None


def test_the_oldest_give_way() -> None:
    sessions = Sessions(OWN, StoppedClock())
    first = sessions.code(ADA)
    codes = [sessions.code(ADA) for _ in range(MOST_CODES)]
    assert sessions.redeem(first) is None
    assert sessions.redeem(codes[-1])
    early = cookie_of(sessions, ADA)
    cookies = [cookie_of(sessions, ADA) for _ in range(MOST_SESSIONS)]
    assert sessions.token_of(early) is None
    assert sessions.token_of(cookies[0]) == ADA


COOKIES = st.text(alphabet="abc012.\u00e9\udce9", max_size=40)


@given(given=COOKIES)
def test_what_is_no_cookie_of_ours_is_nobodys(given: str) -> None:
    for sessions in (Sessions(OWN, StoppedClock()), Sessions("", StoppedClock())):
        assert sessions.token_of(given) is None
        assert sessions.redeem(given) is None


@given(place=st.integers(min_value=0, max_value=200), sign=st.sampled_from("0fZ."))
def test_a_cookie_that_was_changed_is_none(place: int, sign: str) -> None:
    sessions = Sessions(OWN, StoppedClock())
    cookie = cookie_of(sessions, OWN)
    changed = cookie[: place % len(cookie)] + sign + cookie[place % len(cookie) + 1 :]
    assert changed == cookie or sessions.token_of(changed) is None


def test_forms_of_two_sessions_have_nothing_in_common() -> None:
    sessions = Sessions(OWN, StoppedClock())
    first, second = cookie_of(sessions, OWN), cookie_of(sessions, OWN)
    assert form_token(first) != form_token(second)
    assert form_token(first) not in first


@given(name=st.from_regex(r"[a-z0-9]{1,8}(\.[a-z0-9]{1,8}){1,3}", fullmatch=True))
def test_a_name_with_a_dot_is_ours_only_where_we_were_told_it(name: str) -> None:
    address = name.replace(".", "").isdigit() and name.count(".") == 3
    assert is_ours(f"{name}:80", frozenset({name}))
    assert address or not is_ours(f"{name}:80", frozenset({"other.example"}))
