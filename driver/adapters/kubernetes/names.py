"""Every name that Holdfast has in a Kubernetes cluster: kinds, labels, annotations, taint, pods.

Used by the modules of this folder, and by no other: outside it nobody knows Kubernetes. Pure.
"""

from typing import NamedTuple

from holdfast.kubeapi.paths import GROUP as GROUP
from holdfast.kubeapi.paths import VERSION
from holdfast.protocol.xids import HARDWARE_FAULT, XID_ERRORS

API_VERSION = f"{GROUP}/{VERSION}"
KIND = "TrainingJob"

MANAGER = "holdfast"
AUDIENCE = "holdfast"
"""Of the tokens of executors: no other service accepts them, and we accept no other."""

JOB = f"{GROUP}/job"
JOB_UID = f"{GROUP}/job-uid"
SLOT = f"{GROUP}/slot"
"""Which pod of its job it is, counted from 0; a number of the pod, not a rank."""
INCARNATION = f"{GROUP}/incarnation"
"""How many pods the slot had, this one among them."""
TRIAL = f"{GROUP}/trial"
"""Which exam of a distrusted node the pod is for, by its number; such a pod is of no job."""
NODE = f"{GROUP}/node"
"""Annotation of a pod: the node that it is for. A label may not be as long as a node's name."""

GATE = f"{GROUP}/gang"
"""Scheduling gate of a pod that waits for the others of its job's start."""

RACK = "topology.holdfast.dev/rack"
"""Label of a node. Not in kubernetes.io: a node may not label itself there (NodeRestriction)."""

TAINT = f"{GROUP}/distrusted"
"""The decision; its value is the incident."""
CONDITION = "HoldfastDistrusted"
"""The reason, as a condition of the node."""
BY, WHY, SINCE, INCIDENT = (
    f"{GROUP}/distrusted-by",
    f"{GROUP}/distrusted-why",
    f"{GROUP}/distrusted-since",
    f"{GROUP}/distrusted-incident",
)
MARKS = (BY, WHY, SINCE, INCIDENT)

MAINTENANCE, MAINTENANCE_BY = f"{GROUP}/maintenance", f"{GROUP}/maintenance-by"
"""Annotations of a node, for people and their tools: why it is to be free, and by when (RFC 3339).
"""
MAINTENANCE_TAINTS = (
    "ToBeDeletedByClusterAutoscaler",
    "aws-node-termination-handler/asg-lifecycle-termination",
    "aws-node-termination-handler/rebalance-recommendation",
    "aws-node-termination-handler/scheduled-maintenance",
    "aws-node-termination-handler/spot-itn",
    "cloud.google.com/impending-node-termination",
    "karpenter.sh/disrupted",
    "medik8s.io/drain",
    "node.cloudprovider.kubernetes.io/shutdown",
)
"""Taints by which others say that a node is going to be taken away, though it works now."""

PROBLEMS = {
    HARDWARE_FAULT: ("True", True),
    "CperHardwareErrorFatal": ("True", True),
    "GPUMissing": ("True", True),
    "AcceleratedHardwareReady": ("False", True),
    "KernelDeadlock": ("True", False),
    "ReadonlyFilesystem": ("True", False),
    "XfsShutdown": ("True", False),
    XID_ERRORS: ("True", False),
    "NVLinkStatusInactive": ("True", False),
    "KernelReady": ("False", False),
    "NetworkingReady": ("False", False),
    "StorageReady": ("False", False),
}
"""Conditions of a node by which problem detectors speak: the status that is bad, and whether that
needs no test of ours (the node is replaced at once) or makes the node a suspect."""

LONGEST_OF_NODE = 215
"""Characters of a node's name in that of its exam's pod, which may have 253."""


class Object(NamedTuple):
    """A TrainingJob, as the API server knows it."""

    namespace: str
    name: str


class Jobs:
    """The one place that turns objects into names of core jobs, and back.

    With one namespace they are the same; with all of them it is NAMESPACE.NAME, which is unique,
    for neither may have a dot in it.
    """

    def __init__(self, namespace: str = "") -> None:
        self.namespace = namespace

    def job(self, of: Object) -> str:
        return of.name if self.namespace else f"{of.namespace}.{of.name}"

    def object(self, job: str) -> Object:
        if self.namespace:
            return Object(self.namespace, job)
        namespace, _, name = job.partition(".")
        return Object(namespace, name)


def pod_name(job: str, slot: int, incarnation: int) -> str:
    """`JOB-SLOT-INCARNATION`: both numbers are always there, so no two jobs share a pod name."""
    return f"{job}-{slot}-{incarnation}"


def trial_name(node: str, trial: int) -> str:
    """`holdfast-trial-NODE-NUMBER`, of a long node's name as much as a pod's name has room for."""
    return f"{MANAGER}-trial-{node[:LONGEST_OF_NODE].rstrip('-.')}-{trial}"
