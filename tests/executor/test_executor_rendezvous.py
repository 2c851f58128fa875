"""Whether the first epoch of a command has a rendezvous process, which is where it uses torch."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="module")

INDIRECT = "import holdfast.checkpoint.tensors"
USES_TORCH = {
    "a script, through another module": (["-c", INDIRECT], True),
    "an installed module": (["-m", "holdfast.checkpoint.tensors"], True),
    "neither": (["-m", "json.tool"], False),
}


@pytest.mark.torch
@pytest.mark.parametrize(("command", "served"), USES_TORCH.values(), ids=USES_TORCH)
async def test_the_store_is_served_in_the_first_epoch_of_what_uses_torch(
    node: Any, command: list[str], served: bool
) -> None:
    await node.want(node.task(sys.executable, *command), host_rendezvous=True)
    epoch = node.epoch
    await node.driver.eventually(lambda seen: seen.epoch == epoch and seen.rendezvous)
    assert (f"rdzv-e{epoch}" in titles(node)) is served


def titles(node: Any) -> set[str]:
    """Of what runs there; something else may end just now."""
    found = set()
    for pid in node.below():
        with suppress(FileNotFoundError, ProcessLookupError):
            found.add(Path(f"/proc/{pid}/comm").read_text().strip())
    return found
