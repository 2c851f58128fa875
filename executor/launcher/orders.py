"""What the executor and its launcher say to each other: JSON, one message a packet.

The socket is a SOCK_SEQPACKET pair, so a message is whole or absent. File descriptors of a rank's
output travel with `Fork`.
"""

import msgspec

MAX_PACKET_BYTES = 1 << 20
"""More than a socket buffer holds by default (208 KiB), so a packet is never cut."""


class Program(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A Python program as the `python` command line would run it: one of script, module, code."""

    script: str = ""
    module: str = ""
    code: str = ""
    arguments: tuple[str, ...] = ()
    workdir: str = "/"
    env: dict[str, str] = {}  # on top of the launcher's own
    unset: tuple[str, ...] = ()  # what the launcher has and the program must not
    unbuffered: bool = False  # `python -u`
    title: str = ""  # at most 15 bytes, for ps
    hooks: bool = False  # install the telemetry hooks first
    record: str = ""  # file to which the names of modules imported from here on are appended


class Begin(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To a launcher that a fork server made: this is your environment, and your folder."""

    environment: dict[str, str]
    workdir: str


class Import(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Import these modules. `gently`: ranks run, so leave the processor to them."""

    modules: tuple[str, ...]
    gently: bool = False


class Fork(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Fork a child that becomes `program`; its stdout and stderr come with the packet."""

    id: int
    program: Program


class Spare(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Fork a child that waits for a `Fork` on the socket that comes with the packet."""

    id: int


class Imported(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All that `Import` named is done. `skipped` could not be imported, or may not be."""

    imported: int
    skipped: int
    torch: bool = False  # whether torch is among all that was imported, by whatever name


class Forked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    id: int
    pid: int


class Declined(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """This launcher must not fork any more; `module` is what spoiled it, where that is known."""

    id: int
    why: str
    module: str = ""
