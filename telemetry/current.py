"""The recorder of this process: set by `hooks.install`, None outside Holdfast and in children."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.telemetry.recorder import Recorder

recorder: "Recorder | None" = None

ends = False
"""Whether this process ends without a teardown of its interpreter, so that a thread may go on."""
