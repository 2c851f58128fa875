"""Patterns that a person gives: what is refused, by which name, and that none takes long."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kit.patterns import NoPattern, Patterns, compiled
from holdfast.protocol.jobcheck import check
from holdfast.protocol.mistakes import BadDocument

SLOW = r"(\w+\s?)+: fatal"


@pytest.mark.parametrize(
    ("pattern", "says", "fix"),
    [
        ("a(?=b)", "a lookahead", "two rules"),
        ("a(?!b)", "a lookahead", "two rules"),
        ("(?<=a)b", "a lookbehind", "what comes before"),
        ("(?<!a)b", "a lookbehind", "what comes before"),
        (r"(a)\1", "a backreference", "Write out"),
        ("(?P<x>a)(?P=x)", "a backreference", "Write out"),
        ("(a)(?(1)b|c)", "a conditional group", "both cases"),
        ("(?>a)", "a possessive or atomic group", "Leave it out"),
        ("a++", "a possessive or atomic group", "Leave it out"),
        ("a{,3}", "{,3} has no lower bound", "{0,3}"),
        ("a{1001}", "a repetition of more than 1,000", "less often"),
        ("(?#x)a", "a comment", "Leave it out"),
        ("(?x) a", "a flag other than i, m, s", "Leave the flag out"),
        (r"a\Z", r"\Z", r"\z"),
        (r"\u2603", "a character by its number", "Write the character"),
        ("(", "missing )", "backslash"),
    ],
)
def test_what_the_engine_lacks_is_refused_by_its_name(pattern: str, says: str, fix: str) -> None:
    with pytest.raises(NoPattern, match=re.escape(says)) as refused:
        compiled(pattern)
    assert fix in refused.value.fix


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"\++", "a++b"),
        (r"[{,3}]", "}"),
        (r"a\{,3}", "a{,3}"),
        (r"\\1", r"\1"),
        ("[(?=]", "?"),
        ("(?i)nan", "loss NaN"),
        (r"\bECC\b.*error$", "an ECC error"),
        ("(?P<name>é)", "é"),
    ],
)
def test_what_only_looks_like_it_is_taken(pattern: str, text: str) -> None:
    assert Patterns((pattern,)).found(text) == [(pattern, compiled(pattern).search(text).start())]


PLAIN = st.text("ab(|)*?.^$", max_size=8)


@given(pattern=PLAIN, text=st.text("ab", max_size=8))
def test_what_both_engines_take_they_find_in_the_same_lines(pattern: str, text: str) -> None:
    try:
        theirs, ours = re.compile(pattern), compiled(pattern)
    except (re.error, NoPattern):
        return
    assert (ours.search(text) is None) == (theirs.search(text) is None)


def test_a_pattern_that_costs_seconds_elsewhere_is_searched_in_much_text() -> None:
    """Python's `re` needs 32 s for 27 characters of it, and twice that for each one more."""
    assert Patterns((SLOW, "a{5}")).found("a" * 100_000 + "!") == [("a{5}", 0)]


def test_a_job_is_told_field_value_and_fix() -> None:
    job = {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "a"},
        "spec": {"command": ["true"], "logRules": [{"pattern": "(?<=x)y"}, {"pattern": SLOW}]},
    }
    with pytest.raises(BadDocument) as refused:
        check(job)
    (mistake,) = refused.value.mistakes
    assert (mistake.field, mistake.value) == ("spec.logRules[0].pattern", '"(?<=x)y"')
    assert "a lookbehind" in mistake.why
    assert mistake.fix == "Match what comes before, too."
