"""Where a fault comes from, in words for people. Pure. Used by the driver's pages and commands."""

from holdfast.protocol.faults import Origin, Sure

NAMES = {
    Origin.USER: "user code",
    Origin.FRAMEWORK: "framework",
    Origin.HOST: "host",
    Origin.GPU: "GPU",
    Origin.NETWORK: "network",
    Origin.STORAGE: "storage",
    Origin.EXTERNAL: "external",
}


def told(origin: str, sure: str) -> str:
    """`GPU`, `likely user code`, `not sure, perhaps network`, `not sure`; an origin that is not
    known here is told by its own name."""
    name = NAMES[Origin(origin)] if origin in set(Origin) else origin
    if sure == Sure.SURE and name:
        return name
    if sure == Sure.LIKELY and name:
        return f"likely {name}"
    return f"{Sure.NOT_SURE}, perhaps {name}" if name else str(Sure.NOT_SURE)
