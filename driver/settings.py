"""The driver's settings: from the command line, else the environment, else as here.

Made once by `driver.main`; the only place of the driver that reads the environment. Each field says
its unit, its default's reason and its bound.
"""

import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, CliImplicitFlag, SettingsConfigDict

from holdfast.kit.limits import is_pollable
from holdfast.protocol.paths import RunPaths
from holdfast.traces.sinks import amiss

NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SECRET = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


class Settings(BaseSettings):
    """`HOLDFAST_DRIVER_STATE` and so on, or `--state` and so on."""

    model_config = SettingsConfigDict(
        env_prefix="HOLDFAST_DRIVER_",
        frozen=True,
        extra="forbid",
        cli_prog_name="holdfast-driver",
        cli_kebab_case=True,
        cli_hide_none_type=True,
    )

    state: Path
    """Folder of the tokens, the lock, the jobs' logs and mostly the journal; made if absent."""
    listen: str = "127.0.0.1:0"
    """IP address and port for people and nodes; port 0 takes a free one, and later the same."""
    probes: str = ""
    """IP address and port of /healthz, /readyz and /ablez alone, without TLS: what a kubelet asks
    there does not stand behind the nodes that connect; empty: only with everything else."""
    journal: str = ""
    """postgresql://USER@HOST/DATABASE, its password by PGPASSFILE; empty: a file in the state."""
    standby: CliImplicitFlag[bool] = False
    """Wait while another driver on the same database leads, and lead when that one is gone."""
    lease: str = ""
    """NAMESPACE/NAME of the Lease by which drivers in Kubernetes agree who of them tries to lead;
    empty: a lock in the database."""
    name: str = "holdfast-driver"
    """What other drivers and people are told of who leads; in Kubernetes the name of the pod."""
    advertise: str = ""
    """http://HOST:PORT at which nodes reach this very driver; empty: where it listens."""
    hosts: str = ""
    """Names, commas between, by which browsers reach this driver beside its addresses and those
    above, such as that of an Ingress. A request without a token for another name is refused."""
    tls: CliImplicitFlag[bool] = False
    """Speak TLS on TCP, with a certificate of a CA that drivers on the same journal share. Then
    addresses of drivers begin with https://."""
    tls_certificate: Path | None = None
    """PEM file of a certificate to show instead; read again when it changes."""
    tls_key: Path | None = None
    """PEM file of its key, for the driver alone."""
    tls_ca: Path | None = None
    """PEM file of the CA that nodes are to trust for it; without one: those of their machines."""
    keeper: Path | None = None
    """Unix socket of the keeper of a local cluster; without one there are no nodes."""
    cluster: Literal["local", "kubernetes"] = "local"
    """Where nodes come from: a keeper, or Kubernetes, where jobs are TrainingJobs."""
    kubeconfig: Path | None = None
    """Who we are at which API server; without one: this pod's service account."""
    namespace: str = ""
    """The one namespace whose TrainingJobs are ours; empty: all of them."""
    node_selector: str = ""
    """Label selector of the Nodes that jobs may get, e.g. `pool=training`; empty: all of them."""
    pod_groups: CliImplicitFlag[bool] = False
    """Have a start's pods placed all at one moment, by a PodGroup, where the API server has them
    (1.36, with the feature gates GenericWorkload and GangScheduling). Else pods have gates."""
    driver_urls: str = ""
    """What pods are told of where drivers are, commas between; empty: where this one listens."""
    traces: str = ""
    """Where pods keep their spans: redis://HOST:PORT, or off; empty: in files that go with them."""
    traces_secret: str = ""
    """Name of the Secret, in each job's namespace, whose `password` is that Redis'; a job where
    there is none of that name runs, and its spans are refused."""
    dry_run_evictions: CliImplicitFlag[bool] = False
    """Evict no node by itself: only decide, journal and say which would be, and why."""
    connect_s: float = Field(default=120, ge=1, le=86_400)
    """Seconds from a node's allocation until its executor has connected; an image may be large."""
    placed_within_s: float = Field(default=30, ge=1, le=86_400)
    """Seconds until a scheduler has placed a pod, from its creation or from when any pod of its
    start got on; then the start gives all its nodes back."""
    trial_after_s: float = Field(default=600, ge=1, le=31_536_000)
    """Seconds from a node's eviction until it is tested, and used again where it passes; each
    further eviction and each test that it does not pass doubles that, up to a day."""
    standby_test_s: float = Field(default=60, ge=0, le=3_600)
    """Seconds that a standby's test of itself is waited for when it comes; 0: none is tested."""
    keep_entries: int = Field(default=1_000_000, ge=1_000)
    """How many of the newest entries of the journal are kept, beside all of the jobs and incidents
    that are there; a thousand entries take about a megabyte."""
    heartbeat_period_s: float = Field(default=0.5, ge=0.05, le=60)
    """Seconds between a daemon's heartbeats; longer by itself where there are very many nodes."""
    watch_period_s: float = Field(default=0.1, ge=0.01, le=10)
    """Seconds between looks of the detectors at the clock, for what shows by its absence."""
    die_with_fd: int | None = None
    """End when this inherited descriptor is at its end: whoever started us is gone."""
    webhooks: Path | None = None
    """YAML or JSON file of who is told what happens, by a POST each; see docs/webhooks.md."""
    log_level: str = Field(default="info", pattern="^(debug|info|warning|error)$")
    """Least level of the lines on stderr."""

    @field_validator("state")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("journal")
    @classmethod
    def _database(cls, value: str) -> str:
        if value and not value.startswith(("postgresql://", "postgres://")):
            raise ValueError("give postgresql://USER@HOST/DATABASE, or leave it out for a file")
        return value

    @field_validator("namespace")
    @classmethod
    def _name_of_a_namespace(cls, value: str) -> str:
        if value and not NAMESPACE.fullmatch(value):
            raise ValueError(f"{value!r} is no name of a namespace: give a-z, 0-9 and - alone")
        return value

    @field_validator("traces")
    @classmethod
    def _place_of_traces(cls, value: str) -> str:
        if why := amiss(value):
            raise ValueError(why)
        return value

    @field_validator("traces_secret")
    @classmethod
    def _name_of_a_secret(cls, value: str) -> str:
        if value and not SECRET.fullmatch(value):
            raise ValueError(f"{value!r} is no name of a Secret: give a-z, 0-9, - and . alone")
        return value

    @field_validator("driver_urls", "advertise")
    @classmethod
    def _addresses(cls, value: str) -> str:
        for url in filter(None, (each.strip() for each in value.split(","))):
            if not url.startswith(("http://", "https://", "unix:")):
                raise ValueError(f"{url!r} is no address of a driver: give http(s)://HOST:PORT")
        return value

    @model_validator(mode="after")
    def _of_kubernetes(self) -> Self:
        named = (
            "namespace",
            "node_selector",
            "kubeconfig",
            "pod_groups",
            "traces",
            "traces_secret",
        )
        for option in named:
            if getattr(self, option) and self.cluster != "kubernetes":
                typed = option.replace("_", "-")
                raise ValueError(f"--{typed}: it needs --cluster kubernetes")
        if self.traces_secret and not self.traces:
            raise ValueError("--traces-secret: it needs --traces redis://HOST:PORT")
        return self

    @field_validator("die_with_fd")
    @classmethod
    def _descriptor(cls, value: int | None) -> int | None:
        if value is not None and not is_pollable(value):
            raise ValueError(
                f"{value} is no pipe or socket of this process: give the number of one that "
                "whoever starts it holds open, or leave it out"
            )
        return value

    @field_validator("lease")
    @classmethod
    def _namespace_and_name(cls, value: str) -> str:
        if value and len(value.split("/")) != 2:
            raise ValueError("give NAMESPACE/NAME, e.g. holdfast/holdfast-driver")
        return value

    @model_validator(mode="after")
    def _shared(self) -> Self:
        if self.standby and not self.journal:
            raise ValueError("--standby: it needs a journal that drivers share, see --journal")
        if self.lease and not (self.standby and self.cluster == "kubernetes"):
            raise ValueError("--lease: it needs --standby and --cluster kubernetes")
        return self

    @model_validator(mode="after")
    def _encrypted(self) -> Self:
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ValueError("--tls-certificate: give it and --tls-key, or neither")
        if self.tls_certificate and not self.tls:
            raise ValueError("--tls-certificate: it needs --tls")
        if self.tls_ca and not self.tls_certificate:
            raise ValueError("--tls-ca: it is the CA of --tls-certificate, which is missing")
        for url in self.urls if self.tls else ():
            host = urlsplit(url).hostname
            if not (url.startswith("https://") and host and host.isascii()):
                raise ValueError(f"--tls: {url!r} is no address with TLS, give https://HOST:PORT")
        return self

    @field_validator("listen", "probes")
    @classmethod
    def _address_and_port(cls, value: str, asked: ValidationInfo) -> str:
        host, _, port = value.rpartition(":")
        if not value and asked.field_name == "probes":
            return value
        try:
            ipaddress.ip_address(host.strip("[]"))
            if not 0 <= int(port) <= 65_535:
                raise ValueError
        except ValueError:
            raise ValueError("give an IP address and a port, e.g. 127.0.0.1:0") from None
        return value

    @property
    def urls(self) -> list[str]:
        """All addresses of drivers that are named here."""
        named = (*self.driver_urls.split(","), self.advertise)
        return [url.strip() for url in named if url.strip()]

    @property
    def paths(self) -> RunPaths:
        return RunPaths(self.state)


def tells_spans(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether OpenTelemetry's own variables name somebody who takes spans."""
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return not off and any(environment.get(name) for name in names)


def parts(address: str) -> tuple[str, int]:
    """Host, without brackets, and port of HOST:PORT."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
