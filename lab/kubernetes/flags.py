"""The command lines of the control plane's programs, as pure functions of where things are.

Called by `plane`. Every flag here has run on 1.36.4.
"""

from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
SERVICES = "10.96.0.0/16"
SERVICE_IP = "10.96.0.1"
"""Address of the API server as the service `kubernetes`; its certificate is good for it."""
CONTROLLERS = (
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "pod-garbage-collector-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "disruption-controller",
    "persistentvolumeclaim-protection-controller",
    "resourcequota-controller",
    "deployment-controller",
    "replicaset-controller",
    "daemonset-controller",
    "endpointslice-controller",
    "clusterrole-aggregation-controller",
    "podgroup-protection-controller",
    "certificatesigningrequest-signing-controller",
)
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
  - level: Metadata
    verbs: [get, list, watch]
  - level: Metadata
    resources:
      - {group: coordination.k8s.io}
      - {group: authentication.k8s.io}
      - {group: "", resources: [secrets, serviceaccounts/token, events]}
  - level: RequestResponse
"""
"""What was written, by whom, and why it was allowed; of reads, leases and secrets only the rest."""
AUDIT_WRITES = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
  - level: None
    verbs: [get, list, watch]
  - level: None
    resources: [{group: coordination.k8s.io}]
  - level: Metadata
"""
"""Who wrote what, without its content: where very much is written."""
POD_GROUPS = {
    "kube-apiserver": (
        "--runtime-config=scheduling.k8s.io/v1alpha2=true",
        "--feature-gates=GenericWorkload=true",
    ),
    "kube-controller-manager": ("--feature-gates=GenericWorkload=true",),
    "kube-scheduler": ("--feature-gates=GenericWorkload=true,GangScheduling=true",),
}
"""Beyond the flags below: a control plane that has PodGroups, an alpha of 1.36."""


@dataclass(frozen=True)
class Places:
    """Of one control plane: its folder and the ports of HOST that it listens on."""

    folder: Path
    api_port: int
    etcd_port: int
    etcd_peer_port: int
    grace_s: float

    @property
    def etcd_url(self) -> str:
        return f"http://{HOST}:{self.etcd_port}"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    @property
    def audit_policy(self) -> Path:
        return self.folder / "audit-policy.yaml"

    def certificate(self, name: str) -> Path:
        return self.folder / "identities" / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.folder / "identities" / f"{name}.key"

    def kubeconfig(self, name: str) -> Path:
        return self.folder / "identities" / f"{name}.yaml"


def etcd(at: Places) -> list[str]:
    peer = f"http://{HOST}:{at.etcd_peer_port}"
    return [
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--data-dir={at.folder / 'etcd'}",
        f"--listen-client-urls={at.etcd_url}",
        f"--advertise-client-urls={at.etcd_url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]


def kube_apiserver(at: Places) -> list[str]:
    return [
        f"--bind-address={HOST}",
        f"--secure-port={at.api_port}",
        f"--etcd-servers={at.etcd_url}",
        f"--cert-dir={at.folder / 'certificates'}",
        f"--client-ca-file={at.certificate('ca')}",
        f"--tls-cert-file={at.certificate('server')}",
        f"--tls-private-key-file={at.key('server')}",
        f"--service-account-issuer=https://{HOST}:{at.api_port}",
        f"--service-account-key-file={at.key('service-accounts')}",
        f"--service-account-signing-key-file={at.key('service-accounts')}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--service-cluster-ip-range={SERVICES}",
        "--endpoint-reconciler-type=none",
        f"--audit-policy-file={at.audit_policy}",
        f"--audit-log-path={at.audit_log}",
    ]


def kube_controller_manager(at: Places) -> list[str]:
    """A node is NotReady after `grace_s` without its lease, and evicted from at once."""
    return [
        f"--kubeconfig={at.kubeconfig('kube-controller-manager')}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={at.key('service-accounts')}",
        f"--root-ca-file={at.certificate('ca')}",
        f"--cluster-signing-cert-file={at.certificate('ca')}",
        f"--cluster-signing-key-file={at.key('ca')}",
        f"--controllers={','.join(CONTROLLERS)}",
        "--node-monitor-period=1s",
        f"--node-monitor-grace-period={at.grace_s:g}s",
        "--node-eviction-rate=100",
        "--secondary-node-eviction-rate=100",
        "--unhealthy-zone-threshold=1.0",
    ]


def kube_scheduler(at: Places) -> list[str]:
    return [
        f"--kubeconfig={at.kubeconfig('kube-scheduler')}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    ]
