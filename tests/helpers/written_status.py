"""An API server that keeps each status that the operator writes, and does nothing else."""

from typing import Any

Object = dict[str, Any]


class Written:
    def __init__(self) -> None:
        self.said: list[Object] = []

    async def patch(self, path: str, body: Object) -> Object:
        self.said.append(body["status"])
        return {}
