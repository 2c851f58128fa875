"""An HDFS of one's own: a NameNode and two DataNodes, started, killed, and nothing of it left."""

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from holdfast.checkpoint.stores import TemporaryStoreError
from holdfast.checkpoint.stores.hdfs import HdfsStore
from holdfast.checkpoint.stores.webhdfs import WebHdfs
from holdfast.lab.kubernetes.build import NotHere
from holdfast.lab.kubernetes.ports import free_ports
from holdfast.lab.kubernetes.process import Process
from holdfast.lab.stores.build import HOW, jars
from holdfast.lab.stores.guarded import guarded_folder

HOST = "127.0.0.1"
USER = "holdfast"
"""Who may do everything there, whoever we are."""
DATANODES = 2
READY_WITHIN_S = 120.0
SILENT_S = 3
"""A DataNode speaks every second; a dead one counts as alive for a while."""
LOOK_S = 0.1
NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
ADMINISTRATION = "org.apache.hadoop.hdfs.tools.DFSAdmin"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
APPS = ("hdfs/WEB-INF", "datanode/WEB-INF", "static")
"""Folders that Hadoop's own distribution has and its jars have not."""
NO_APP = '<web-app version="2.4" xmlns="http://java.sun.com/xml/ns/j2ee"/>'
SOON = {
    "dfs.namenode.safemode.extension": "0",
    "dfs.heartbeat.interval": "1",
    "dfs.namenode.heartbeat.recheck-interval": "1000",
    "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10",
    "dfs.client.socket-timeout": "20000",
    "dfs.client.retry.window.base": "100",
}
"""So that a test need not wait for minutes until a dead DataNode is known to be dead."""
ROOM = "dfs.datanode.round-robin-volume-choosing-policy.additional-available-space"
"""Else a volume with less than 1 GiB free takes nothing."""


class Hdfs:
    """Its processes; one DataNode writes each block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.rpc_port, self.port, *rest = free_ports(2 + 3 * DATANODES)
        self._ports = [tuple(rest[3 * nth : 3 * nth + 3]) for nth in range(DATANODES)]
        self._namenode: Process | None = None
        self._datanodes: dict[int, Process] = {}

    @property
    def address(self) -> str:
        """Of its NameNode, as in `hdfs://ADDRESS/folder`."""
        return f"{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """With which a program may use it."""
        return {"HADOOP_USER_NAME": USER}

    def ask(self, method: str, op: str, path: str, **options: str) -> dict[str, Any]:
        """As its administrator."""
        return WebHdfs(self.address, USER).ask(method, op, path, **options)

    def administer(self, *words: str) -> None:
        """What only `hdfs dfsadmin` does."""
        at = ["-fs", f"hdfs://{HOST}:{self.rpc_port}"]
        command = [*_java(self._folder), ADMINISTRATION, *at, *words]
        subprocess.run(command, check=True, capture_output=True, timeout=READY_WITHIN_S)

    def start(self) -> None:
        """Return once both DataNodes are there and a file can be written."""
        self._configure()
        command = [*_java(self._folder), NAMENODE, "-format", "-nonInteractive", "-force"]
        subprocess.run(command, check=True, capture_output=True, timeout=READY_WITHIN_S)
        self.start_namenode()
        for nth in range(DATANODES):
            self.start_datanode(nth)
        self.wait_until_ready()

    def start_namenode(self) -> None:
        command = [*_java(self._folder), NAMENODE]
        self._namenode = Process("NameNode", command, log=self._folder / "namenode.log")

    def start_datanode(self, nth: int) -> None:
        names = ("dfs.datanode.address", "dfs.datanode.http.address", "dfs.datanode.ipc.address")
        own = {name: f"{HOST}:{port}" for name, port in zip(names, self._ports[nth], strict=True)}
        own["dfs.datanode.data.dir"] = str(self._folder / f"data-{nth}")
        options = [word for name, value in own.items() for word in ("-D", f"{name}={value}")]
        command = [*_java(self._folder), DATANODE, *options]
        log = self._folder / f"datanode-{nth}.log"
        self._datanodes[nth] = Process(f"DataNode {nth}", command, log=log)

    def kill_namenode(self) -> None:
        if self._namenode is not None:
            self._namenode.kill()

    def kill_datanode(self, nth: int) -> None:
        self._datanodes[nth].kill()

    def datanode_pid(self, nth: int) -> int:
        return self._datanodes[nth].pid

    def transfer_address(self, nth: int) -> str:
        """By which HDFS knows the DataNode."""
        return f"{HOST}:{self._ports[nth][0]}"

    def datanode_at(self, location: str) -> int:
        """Which DataNode a URL of WebHDFS names."""
        port = urlsplit(location).port
        return next(nth for nth, ports in enumerate(self._ports) if ports[1] == port)

    def writers(self) -> list[int]:
        """The DataNodes that have taken bytes of a file which is being written now."""
        return [nth for nth in range(DATANODES) if self._is_written_to(nth)]

    def _is_written_to(self, nth: int) -> bool:
        blocks = (self._folder / f"data-{nth}").glob("current/*/current/rbw/blk_*")
        return any(one.suffix != ".meta" and one.stat().st_size for one in blocks)

    def mend(self) -> None:
        """Start what is dead, and wait until all is as it was."""
        if self._namenode is not None and self._namenode.ended:
            self.start_namenode()
        for nth, process in tuple(self._datanodes.items()):
            if process.ended:
                self.start_datanode(nth)
        self.wait_until_ready()

    def alive(self) -> int:
        """DataNodes that the NameNode hears."""
        heard = WebHdfs(self.address, USER).live_datanodes()
        return sum(one["lastContact"] < SILENT_S for one in heard.values())

    def wait_until_ready(self) -> None:
        """All DataNodes are there, and a file can be written."""

        def ready() -> bool:
            try:
                HdfsStore(self.address, "/", user=USER).put("ready", [b"x"])
                return self.alive() == DATANODES and all(map(_listens, self._ports))
            except TemporaryStoreError:
                return False

        self._wait(ready)

    def stop(self) -> None:
        for process in (*self._datanodes.values(), self._namenode):
            if process is not None:
                process.kill()

    def _wait(self, ready: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + READY_WITHIN_S
        while not ready():
            for process in (self._namenode, *self._datanodes.values()):
                if process is not None and process.ended:
                    raise RuntimeError(process.last_words())
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"no HDFS within {READY_WITHIN_S:g} s, logs {self._folder}")
            time.sleep(LOOK_S)

    def _configure(self) -> None:
        conf = self._folder / "conf"
        for app in APPS:
            (conf / "webapps" / app).mkdir(parents=True)
        for app in APPS[:2]:
            (conf / "webapps" / app / "web.xml").write_text(NO_APP)
        core = {
            "fs.defaultFS": f"hdfs://{HOST}:{self.rpc_port}",
            "hadoop.tmp.dir": str(self._folder / "tmp"),
            "hadoop.http.staticuser.user": USER,
        }
        hdfs = SOON | {
            ROOM: "0",
            "dfs.replication": "1",
            "dfs.permissions.enabled": "true",
            "dfs.namenode.name.dir": str(self._folder / "name"),
            "dfs.namenode.rpc-address": f"{HOST}:{self.rpc_port}",
            "dfs.namenode.http-address": f"{HOST}:{self.port}",
            "dfs.datanode.hostname": HOST,
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        }
        for name, values in (("core-site.xml", core), ("hdfs-site.xml", hdfs)):
            (conf / name).write_text(_xml(values))


def _listens(ports: tuple[int, ...]) -> bool:
    """Whether a DataNode that was started is there: one that has died counts as alive for a bit."""
    for port in ports:
        with socket.socket() as trial:
            if trial.connect_ex((HOST, port)):
                return False
    return True


def _xml(values: dict[str, str]) -> str:
    each = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in values.items()
    )
    return f"<configuration>{''.join(each)}</configuration>\n"


def _java(folder: Path) -> list[str]:
    return [
        "env", f"HADOOP_USER_NAME={USER}", "java", "-Xmx256m", "-XX:-UsePerfData",
        f"-Djava.io.tmpdir={folder}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-cp", f"{folder / 'conf'}:{jars()}/*",
    ]  # fmt: skip


def missing() -> str:
    """Why it cannot be started here, in a sentence; "" where it can."""
    there = jars().exists() and shutil.which("java") is not None
    return "" if there else f"no HDFS is here. {HOW}"


@contextmanager
def running_hdfs() -> Iterator[Hdfs]:
    """A started one. Raises `NotHere`."""
    if why := missing():
        raise NotHere(why)
    with guarded_folder("holdfast-hdfs-") as folder:
        server = Hdfs(folder)
        try:
            server.start()
            yield server
        finally:
            server.stop()
