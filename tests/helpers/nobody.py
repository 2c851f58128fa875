"""Behind an executor's link where only the link is tried: it says hello and does nothing."""

from typing import Any

from holdfast.protocol.messages import Hello, Observed
from holdfast.protocol.version import PROTOCOL_VERSION


class Nobody:
    """What `executor.link` asks of an executor."""

    def hello(self) -> Hello:
        return Hello(protocol=PROTOCOL_VERSION, process="executor", node="n", incarnation="i")

    def observe(self) -> Observed:
        return Observed(node="n", incarnation="i", sequence=0, generation=0, epoch=0)

    def welcomed(self, welcome: Any) -> None: ...

    def instructed(self, desired: Any) -> None: ...

    def asked(self, question: Any, answer: Any) -> None: ...
