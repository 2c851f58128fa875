"""What a job's pods need of a Kubernetes cluster: `spec.pod` of the one job spec. Pure.

Fields are a bounded part of Kubernetes' own PodSpec and have its names, so that what people know
holds. Where ranks run and how many a pod has is not said here: the job says it.
"""

import re
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from holdfast.protocol.jobrules import is_own
from holdfast.protocol.specmodel import Model, sentence

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
QUANTITY = r"^([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi)?$"
OWN_VOLUMES = ("scratch", "memory", "identity", "shm")
"""Volumes that Holdfast gives every pod."""
SOURCES = ("hostPath", "persistentVolumeClaim", "configMap", "secret", "emptyDir")


def _as_text(value: object) -> object:
    """YAML reads `nvidia.com/gpu: 8` as a number; a quantity is text in the end."""
    return str(value) if type(value) is int else value


def _quantity(value: str) -> str:
    if not re.fullmatch(QUANTITY, value):
        raise sentence(NO_QUANTITY, QUANTITY_FIX)
    return value


def _of_kubernetes(amounts: dict[str, str]) -> dict[str, str]:
    for name in amounts:
        if not (name in OWN_RESOURCES or "/" in name or name.startswith(HUGE_PAGES)):
            raise sentence(NO_RESOURCE, RESOURCE_FIX)
    return amounts


NO_QUANTITY = "this is no quantity."
QUANTITY_FIX = "Write a number and, where it needs one, a unit of Kubernetes: 8, 500m, 64G, 64Gi."
OWN_RESOURCES = ("cpu", "memory", "ephemeral-storage")
HUGE_PAGES = "hugepages-"
"""Begins the names of those of each size."""
NO_RESOURCE = f"the resources of Kubernetes are {', '.join(OWN_RESOURCES)} and {HUGE_PAGES}SIZE."
RESOURCE_FIX = "Write a device with its domain: nvidia.com/gpu."


Label = Annotated[str, StringConstraints(pattern=DNS_LABEL, min_length=1, max_length=63)]
ObjectName = Annotated[str, StringConstraints(min_length=1, max_length=253)]
VariableName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", min_length=1, max_length=256)
]
Resource = Annotated[str, StringConstraints(min_length=1, max_length=316)]
AbsolutePath = Annotated[str, StringConstraints(pattern=r"^/[^:]*$", max_length=4_096)]
Quantity = Annotated[
    str,
    BeforeValidator(_as_text),
    StringConstraints(min_length=1, max_length=32),
    AfterValidator(_quantity),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": QUANTITY}),
]
Amounts = Annotated[dict[Resource, Quantity], Field(max_length=32), AfterValidator(_of_kubernetes)]


class Resources(Model):
    """What each pod may use, by resource, e.g. `nvidia.com/gpu: 8`, `memory: 512Gi`."""

    requests: Amounts = Field(default_factory=dict)
    """What a node must have free; where it is not said, the limits."""
    limits: Amounts = Field(default_factory=dict)
    """What a pod may not exceed."""


class Toleration(Model):
    """A taint that the job's pods do not mind."""

    key: str = Field(default="", max_length=316)
    """Key of the taint; empty with operator Exists: every taint."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Exists is for any value."""
    value: str = Field(default="", max_length=63)
    """Value of the taint."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """Effect of the taint; empty: every effect."""

    @model_validator(mode="after")
    def _names_what_it_tolerates(self) -> Self:
        if self.operator == "Exists" and self.value:
            raise sentence(EXISTS_VALUE, EXISTS_VALUE_FIX)
        if self.operator == "Equal" and not self.key:
            raise sentence(EVERY_KEY, EVERY_KEY_FIX)
        return self


EXISTS_VALUE = "operator Exists is for any value."
EXISTS_VALUE_FIX = "Remove value, or set operator: Equal."
EVERY_KEY = "an empty key means every taint, whatever its value."
EVERY_KEY_FIX = "Name a key, or set operator: Exists."


class HostPath(Model):
    """A folder of the node itself."""

    path: AbsolutePath
    """Absolute path on the node."""
    type: Literal["", "Directory", "DirectoryOrCreate", "File", "CharDevice"] = ""
    """What must be there before the pod starts; empty: nothing is looked at."""


class Claim(Model):
    """A PersistentVolumeClaim of the job's namespace."""

    claim_name: ObjectName
    """Its name. All pods of the job mount it, so it must be ReadWriteMany or ReadOnlyMany."""
    read_only: bool = False
    """Mount it read-only, whatever it allows."""


class ConfigMap(Model):
    """A ConfigMap of the job's namespace, a file a key."""

    name: ObjectName
    """Its name."""


class Secret(Model):
    """A Secret of the job's namespace, a file a key."""

    secret_name: ObjectName
    """Its name."""


class EmptyDir(Model):
    """A folder that lives as long as its pod."""

    medium: Literal["", "Memory"] = ""
    """Memory: a tmpfs, which counts against the pod's memory."""
    size_limit: Quantity | None = None
    """How much may be in it."""


_SOURCE_FIELDS = ("host_path", "persistent_volume_claim", "config_map", "secret", "empty_dir")
ONE_SOURCE = "a volume has exactly one source."
ONE_SOURCE_FIX = f"Give one of {', '.join(SOURCES)}."
OWN_VOLUME = f"the volumes {', '.join(OWN_VOLUMES)} are Holdfast's own."
OWN_VOLUME_FIX = "Choose another name."
SAME_NAME = "two volumes have the same name."
SAME_NAME_FIX = "Name each differently."


class Volume(Model):
    """Something mounted into each pod of the job. It has exactly one source."""

    name: Label
    """Name of the volume, unique within the job."""
    mount_path: AbsolutePath
    """Where the ranks see it."""
    read_only: bool = False
    """Ranks cannot write there."""
    host_path: HostPath | None = None
    """Source: a folder of the node."""
    persistent_volume_claim: Claim | None = None
    """Source: a claim."""
    config_map: ConfigMap | None = None
    """Source: a ConfigMap."""
    secret: Secret | None = None
    """Source: a Secret."""
    empty_dir: EmptyDir | None = None
    """Source: an empty folder."""

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        given = self.model_dump(include=set(_SOURCE_FIELDS), exclude_none=True)
        if len(given) != 1:
            raise sentence(ONE_SOURCE, ONE_SOURCE_FIX)
        if self.name in OWN_VOLUMES:
            raise sentence(OWN_VOLUME, OWN_VOLUME_FIX)
        return self


class ImagePullSecret(Model):
    """A Secret with the credentials of a registry."""

    name: ObjectName
    """Its name, in the job's namespace."""


OWN_VARIABLE = "Holdfast sets this variable itself."
OWN_VARIABLE_FIX = "Name another one."
SAME_VARIABLE = "two variables have the same name."
SAME_VARIABLE_FIX = "Name each differently."


class SecretVariable(Model):
    """A variable of the ranks' environment whose value is in a Secret of the job's namespace."""

    name: VariableName
    """Its name, e.g. REDISCLI_AUTH. What the job's `env` sets wins."""
    secret_name: ObjectName
    """The Secret. Pods wait until it is there."""
    key: ObjectName
    """Which of its entries."""

    @field_validator("name")
    @classmethod
    def _is_not_ours(cls, name: str) -> str:
        if is_own(name):
            raise sentence(OWN_VARIABLE, OWN_VARIABLE_FIX)
        return name


class Pod(Model):
    """How the job's pods are made: one a node, standbys among them."""

    image: str = Field(min_length=1, max_length=1_024)
    """Image with Python, Holdfast and what the command needs."""
    resources: Resources = Resources()
    """What each pod gets. Devices such as nvidia.com/gpu belong here."""
    rdma_devices: Amounts = Field(default_factory=dict)
    """RDMA devices of each pod by resource, e.g. `rdma/hca: 8`. As root it may then lock memory."""
    shm: Quantity | None = None
    """Size of /dev/shm, e.g. 64Gi. It counts against the pod's memory; default: the runtime's."""
    volumes: tuple[Volume, ...] = Field(default=(), max_length=32)
    """Mounted into each pod."""
    secret_env: tuple[SecretVariable, ...] = Field(default=(), max_length=32)
    """Variables from Secrets, such as passwords: their values stand in no spec, journal or log."""
    tolerations: tuple[Toleration, ...] = Field(default=(), max_length=32)
    """Taints that the pods do not mind."""
    service_account_name: str = Field(default="", max_length=253)
    """Account of the pods; empty: the namespace's default."""
    priority_class_name: str = Field(default="", max_length=253)
    """PriorityClass of the pods, which keeps others from taking one of a gang; empty: none."""
    image_pull_secrets: tuple[ImagePullSecret, ...] = Field(default=(), max_length=16)
    """For registries that ask who pulls."""

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [volume.name for volume in self.volumes]
        if len(set(names)) != len(names):
            raise sentence(SAME_NAME, SAME_NAME_FIX)
        variables = [variable.name for variable in self.secret_env]
        if len(set(variables)) != len(variables):
            raise sentence(SAME_VARIABLE, SAME_VARIABLE_FIX)
        return self
