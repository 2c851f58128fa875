"""Restarts in the tools that scripts track experiments with: W&B, MLflow, TensorBoard.

Each is hooked once the script itself has imported it (`telemetry.hooks`). A rank that was started
again goes on with the run of the attempt before where the tool has such a thing and the script
names no run of its own, and the restart is marked there. HOLDFAST_TRACKERS=off leaves them alone.
"""

import os

from holdfast.telemetry.trackers import mlflow, tensorboard, wandb

HOOKS = {
    "wandb": wandb.hook,
    "mlflow.tracking.fluent": mlflow.hook,
    "torch.utils.tensorboard.writer": tensorboard.hook,
}
"""What is called with which module, once that is loaded."""


def wanted() -> bool:
    return os.environ.get("HOLDFAST_TRACKERS", "") != "off"
