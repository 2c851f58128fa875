"""Cases: worlds in each of which one cause goes on until it is really gone, played for hours.

Run by the tests and by `holdfast bench evidence`, which ask how well a driver finds out what is
wrong. `causes_*` say what goes wrong, whoever plays; `drawing` draws a case from its seed; `play`
has the driver's real core play it, over a cluster that is thinner and cheaper than the one beside
this folder; `oracle` plays the same causes without any of the core. Must not know how any of them
decides: `books` count from the world's side, and `naming` reads what the driver said.
"""
