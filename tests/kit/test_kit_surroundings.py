from holdfast.kit.surroundings import surroundings


def test_limits_are_words_to_be_read_in_a_sentence() -> None:
    limits = {what: value for what, value in surroundings().items() if what.startswith("limit: ")}
    assert len(limits["limit: Max open files"].split()) == 3
    assert all("  " not in value for value in limits.values())
