"""What a rank restores from: the checkpoint that was agreed on, opened in the store.

Used by the checkpointer. One of as many ranks is read shard by shard, as it was written; one of
another layout in the ranges that this rank needs.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from holdfast.checkpoint import earlier, together, tree
from holdfast.checkpoint.coverage import Place
from holdfast.checkpoint.fetch import Foreign, Identity, identity, read_manifest
from holdfast.checkpoint.layout import folder_name
from holdfast.checkpoint.manifest import Manifest
from holdfast.checkpoint.ranges import Ranges
from holdfast.checkpoint.reshard import Resharded, Wanted
from holdfast.checkpoint.settings import Settings
from holdfast.checkpoint.stores import Store, open_store
from holdfast.checkpoint.tensors import view
from holdfast.protocol.messages import EARLIER, Restore


class Saved(NamedTuple):
    """A state and the random generators with it, and how their tensors are found.

    `partly`: other ranks' tensors are there, too. `some`: it is of others' weights, which are some
    of a state. `wrong`: what cannot be had for this layout.
    """

    tree: tree.Tree
    generators: tree.Tree
    find: tree.Find
    own: tree.Find
    partly: bool = False
    some: bool = False
    wrong: Callable[[], list[str]] = list


def place(settings: Settings, wanted: Restore) -> tuple[Store, str]:
    """The store and the folder in it. Raises `Refused` or `StoreError`."""
    if wanted.epoch != EARLIER:
        return open_store(settings.store_url), folder_name(wanted.step, wanted.epoch)
    store = open_store(earlier.parse(settings.begin_from).url)
    return store, earlier.folder(store, settings.begin_from, wanted.step)


@contextmanager
def in_store(
    store: Store, folder: str, *, rank: int, of: Identity, holds: Callable[[], Wanted]
) -> Iterator[Saved]:
    """The checkpoint in this folder, for this rank. Raises `Refused` or `StoreError`."""
    manifest = read_manifest(store, folder)
    written = identity(manifest)
    if stranger := of.strange(written):
        raise Foreign(f"{folder}: {stranger}")
    layout = of.refuses(written)
    if not layout and not (_has_cut(manifest, rank) and _cut_otherwise(manifest, rank, holds())):
        found = together.read(store, folder, manifest, rank)
        saved, generators = tree.decode(found.tree)

        def find(name: str):  # type: ignore[no-untyped-def]
            return view(*found.find(name))

        yield Saved(saved, generators, find, find, some=not written.job)
        return
    with closing(Ranges(store, folder)) as ranges:
        cut = Resharded(ranges, manifest, rank, holds())

        def wrong() -> list[str]:
            return [f"{folder}: {layout}", *cut.wrong] if layout and cut.wrong else cut.wrong

        some = not written.job
        yield Saved(
            cut.tree, cut.generators, cut.find, cut.own, partly=True, some=some, wrong=wrong
        )


def _has_cut(manifest: Manifest, rank: int) -> bool:
    """Whether this rank, one of as many, had parts of tensors at all."""
    part = manifest.parts[rank]
    writers = {rank, *part.elsewhere.values()}
    places = (place for writer in writers for place in manifest.parts[writer].places.values())
    return any(place.shape != place.whole for place in places)


def _cut_otherwise(manifest: Manifest, rank: int, holds: Wanted) -> bool:
    """Whether this rank, one of as many, had other parts of its tensors."""
    elsewhere = manifest.parts[rank].elsewhere
    for name, shard in holds.places.items():
        writer = elsewhere.get(name, rank)
        there = manifest.parts[writer].places.get(name)
        shape = holds.shapes.get(name)
        if there and shape is not None and there != Place(shard.global_shape, shard.offsets, shape):
            return True
    return False
