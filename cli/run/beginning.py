"""Where a run goes on that is to begin from an earlier one, looked at before all else."""

from pathlib import Path

import msgspec

from holdfast.cli import earlier
from holdfast.cli.stored.shared import manifest_of, newest_whole, told
from holdfast.protocol.counts import plural


class Beginning(msgspec.Struct, frozen=True):
    """A URL, the newest step there, and how many ranks saved it."""

    url: str
    step: int
    ranks: int

    def told(self, ranks: int) -> str:
        """For people, with what may be in the way."""
        said = f"begins from step {self.step}, {self.url}"
        if ranks == self.ranks:
            return said
        return f"{said}, which {plural(self.ranks, 'rank')} saved; this run has {ranks}"


def of(name: str, runs: Path) -> Beginning:
    """The newest whole checkpoint of what is named; its whole life, where that was named: an older
    one takes its place should it turn out to be damaged. Raises `Stopped`."""
    url = earlier.store_url(name, runs)
    with told():
        place = newest_whole(url)
        manifest = manifest_of(place)
    alone = url.endswith(place.folder)
    return Beginning(place.url if alone else place.life.url, place.step, manifest.world_size)
