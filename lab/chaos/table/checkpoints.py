"""Faults 21 to 25: where a job's checkpoints are is full, slow or away, or they are damaged. A
family: `checkpoint`.
"""

import signal

from msgspec.structs import replace

from holdfast.lab.chaos.injectors import checkpoint, node, rank, snapshots, store, user_bug
from holdfast.lab.chaos.scenario import Scenario, Shape
from holdfast.lab.chaos.scripts import BUGGY
from holdfast.lab.chaos.table.expected import (
    FROM_REAL_STORE,
    FROM_STORE,
    HOLDERS_LOST,
    IN_PLACE,
    KEEPS_MORE,
    POISONED,
)

_ROWS: tuple[Scenario, ...] = (
    Scenario(
        23,
        "store-down",
        "the store is away for ten seconds, and a rank is killed meanwhile",
        store.down_and(rank.signalled(signal.SIGKILL)),
        IN_PLACE,
        longer=3,
    ),
    Scenario(
        23,
        "store-down-memory-lost",
        "the store is away for ten seconds, and all nodes with snapshots are lost meanwhile",
        store.down_and(node.all_lost),
        replace(HOLDERS_LOST, most_steps_lost=80),  # all since the store went away
        longer=3,
        shape=Shape(standbys=2),
    ),
    *(
        Scenario(
            23,
            name,
            f"{what} is killed in the middle of two saves, then all nodes with snapshots are lost",
            user_bug.in_long_steps(store.killed_in_saves(kill)),
            FROM_REAL_STORE,
            script=BUGGY,
            longer=4,
            shape=Shape(standbys=2),
            store=beside,
        )
        for name, what, kill, beside in (
            ("hdfs-namenode-killed", "the NameNode of an HDFS", store.namenode, "hdfs"),
            ("hdfs-datanode-killed", "a DataNode of an HDFS", store.datanode, "hdfs"),
            ("s3-killed", "an S3 server", store.s3_server, "s3"),
        )
    ),
    Scenario(
        23,
        "store-fails",
        "the disk of the store fails (EIO) in a save, and all nodes with snapshots are lost",
        user_bug.in_long_steps(store.failing_and(node.all_lost)),
        FROM_REAL_STORE,
        script=BUGGY,
        longer=3,
        shape=Shape(standbys=2),
        store="disk",
    ),
    Scenario(
        21,
        "store-full",
        "the disk of an S3 server is full, and all nodes with snapshots are lost meanwhile",
        store.full_and(node.all_lost),
        FROM_REAL_STORE,
        longer=3,
        shape=Shape(standbys=2),
        store="s3-small",
    ),
    Scenario(
        22,
        "store-slow",
        "an S3 server is slow for ten seconds, and all nodes with snapshots are lost meanwhile",
        store.slow_and(node.all_lost),
        FROM_REAL_STORE,
        longer=3,
        shape=Shape(standbys=2),
        store="s3",
    ),
    *(
        Scenario(
            24,
            f"checkpoint-{damage.__name__}",
            f"the newest checkpoint is damaged ({damage.__name__}), then a node is lost",
            checkpoint.damaged(damage),
            FROM_STORE,
        )
        for damage in (checkpoint.flip, checkpoint.truncate, checkpoint.drop, checkpoint.tear)
    ),
    Scenario(
        24,
        "point-poisoned",
        "ranks die at their start from what was saved lately, and a rank is killed",
        user_bug.poisoned,
        POISONED,
        script=BUGGY,
        longer=3,
        spec={"checkpoint": KEEPS_MORE},
    ),
    Scenario(
        25,
        "save-torn",
        "a node is lost between two shards of a checkpoint",
        checkpoint.torn_save,
        FROM_STORE,
    ),
    *(
        Scenario(
            24,
            f"snapshot-{name}",
            f"a bit of a rank's newest snapshot is another one ({where}), and it is killed",
            do,
            IN_PLACE,
        )
        for name, where, do in (
            ("data", "its data", snapshots.damaged(snapshots.in_data)),
            ("head", "its header", snapshots.damaged(snapshots.in_head)),
            ("seal", "its seal", snapshots.damaged(snapshots.in_seal)),
            ("sum", "its checksum", snapshots.damaged(snapshots.in_sum)),
            ("unseen", "before its agent looked at it", snapshots.damaged_unseen),
        )
    ),
    Scenario(
        25,
        "drain-torn",
        "what writes checkpoints on a node is killed between two shards, and a rank there",
        snapshots.agent_killed_half_way,
        IN_PLACE,
    ),
)
ROWS = tuple(replace(row, family="checkpoint") for row in _ROWS)
