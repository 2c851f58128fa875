"""What NCCL and gloo are told by the environment of ranks, as a pure function of plain values.

Used by the job spec and by `holdfast run`, which must not load pydantic for it.
"""

from collections.abc import Mapping, Sequence

LARGE = {
    "NCCL_P2P_NET_CHUNKSIZE": "524288",
    "TORCH_NCCL_HIGH_PRIORITY": "1",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
}
"""Of large jobs: MegaScale (NSDI'24) and Megatron-LM. TORCH_NCCL_AVOID_RECORD_STREAMS was a fourth;
torch 2.15 knows no such name."""

IB_TIMEOUT, IB_RETRIES = 20, 7
"""NCCL's own since 2.23, said aloud."""


def environment(
    *,
    large: bool = True,
    ib_timeout: int = IB_TIMEOUT,
    ib_retries: int = IB_RETRIES,
    interfaces: Sequence[str] = (),
    watchdog_s: int | None = None,
) -> dict[str, str]:
    """What ranks have unless the job's `env` or a node's own environment sets it otherwise."""
    named = dict(LARGE) if large else {}
    named |= {"NCCL_IB_TIMEOUT": str(ib_timeout), "NCCL_IB_RETRY_CNT": str(ib_retries)}
    if interfaces:
        names = ",".join(interfaces)
        named |= {"NCCL_SOCKET_IFNAME": f"={names}", "GLOO_SOCKET_IFNAME": names}
    if watchdog_s is not None:
        named["TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"] = str(watchdog_s)
    return named


def told(defaults: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """`defaults` of a job, and what its `own` environment says of NCCL and gloo, which wins."""
    about = {name: value for name, value in own.items() if name in defaults or _is_about(name)}
    return {**defaults, **about}


def unusual(given: Mapping[str, str]) -> list[str]:
    """What ranks are told otherwise than others, or not at all, in words. Of a driver or a job from
    before any were told nothing is known.
    """
    if not given:
        return []
    usual = environment()
    other = [f"{name}={given[name]}" for name in sorted(given) if usual.get(name) != given[name]]
    return other + [f"no {name}" for name in sorted(usual.keys() - given.keys())]


def _is_about(name: str) -> bool:
    return name.startswith(("NCCL_", "TORCH_NCCL_", "GLOO_", "TORCH_GLOO_"))
