"""Faults of a node, its kubelet and its pods (3 of faults.md). A part of the table: see `rows`."""

from holdfast.lab.chaos.injectors import kubelet, node, people
from holdfast.lab.chaos.kubernetes import fault_witnesses, rows, witnesses
from holdfast.lab.chaos.kubernetes.rows import OnKubernetes

KUBELETS: tuple[OnKubernetes, ...] = (
    OnKubernetes(3, "node-lost", "a node is lost, its connections are reset", node.lost, rows.LOST),
    OnKubernetes(
        3,
        "node-unplugged",
        "the link of a node goes down without a single reset",
        node.unplugged,
        rows.LOST,
    ),
    OnKubernetes(
        3,
        "kubelet-frozen",
        "the kubelet of a node is frozen until that is NotReady, its ranks go on",
        kubelet.frozen,
        rows.UNSEEN,
        longer=rows.MIDDLE,
        there=(witnesses.was_not_ready,),
    ),
    OnKubernetes(
        3,
        "kubelets-stopped",
        "the kubelets of all nodes are stopped until none is Ready, the ranks go on",
        kubelet.all_stopped,
        rows.UNSEEN,
        longer=rows.MIDDLE,
        there=(witnesses.was_not_ready,),
    ),
    OnKubernetes(
        3,
        "kubelet-killed",
        "the kubelet of all nodes is killed",
        kubelet.killed,
        rows.UNSEEN,
        longer=rows.MIDDLE,  # it has to be back before the job is over
        there=(fault_witnesses.kubelet_began_anew,),
    ),
    OnKubernetes(
        3,
        "pod-deleted",
        "a person deletes a pod whose ranks train",
        people.pod_deleted,
        rows.MOVED,
        longer=rows.MIDDLE,
    ),
    OnKubernetes(
        3,
        "namespace-deleted",
        "a person deletes the namespace of the job",
        people.namespace_deleted,
        rows.FORGOTTEN,
        holds=(witnesses.nothing_is_left, witnesses.driver_lived),
    ),
    OnKubernetes(
        3,
        "foreign-taint",
        "another controller taints a node whose ranks train",
        people.tainted,
        rows.UNSEEN,
        there=(witnesses.taint_stays(people.TAINT),),
    ),
    OnKubernetes(
        3,
        "foreign-taint-lost",
        "another controller taints the nodes of the job, then one is lost",
        people.tainted_before(node.lost),
        rows.LOST,
        there=(witnesses.taint_stays(people.TAINT),),
    ),
)
