"""What an executor and a rank that can begin anew in its own process say to each other.

JSON, one message a packet, over a SOCK_SEQPACKET socket in the abstract namespace, whose name is in
the rank's environment. `Begin` comes with the descriptors of the rank's new stdout and stderr.
"""

import msgspec


class Enter(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """This rank is in a function that can be called again."""

    rank: int
    local_rank: int


class Rest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The attempt is lost: leave the function and the groups, and wait."""


class AtRest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Nothing of the attempt runs in this process any more."""


class Begin(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Call the function again, in this environment."""

    env: dict[str, str]
