"""Which of the free nodes a gang gets: few racks, for its ranks talk to each other all the time."""


def racks_of(life, job: str) -> set[str]:
    return {life.state.nodes[node].rack for node in life.state.jobs[job].places}


def test_a_gang_gets_a_rack_that_has_room_for_all_of_it(life) -> None:
    for node, rack in (("n0", "a"), ("n1", "b"), ("n2", "b")):
        life.node(node, rack=rack)
    life.submit("job", nodes=2)
    assert life.state.jobs["job"].places == ("n1", "n2")


def test_of_such_racks_the_smallest_so_that_larger_gangs_find_one_too(life) -> None:
    for number, rack in enumerate("aaabb"):
        life.node(f"n{number}", rack=rack)
    life.submit("small", nodes=2)
    life.submit("large", nodes=3)
    assert (racks_of(life, "small"), racks_of(life, "large")) == ({"b"}, {"a"})


def test_a_gang_that_no_rack_has_room_for_gets_the_fewest(life) -> None:
    for number, rack in enumerate("abbcccc"):
        life.node(f"n{number}", rack=rack)
    life.submit("job", nodes=6)
    assert racks_of(life, "job") == {"b", "c"}
