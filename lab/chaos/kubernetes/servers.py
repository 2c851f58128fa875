"""Faults of the API server, and of what it has to give (37, 38). As `kubelets`."""

from holdfast.lab.chaos.injectors import api_server, node, supply
from holdfast.lab.chaos.kubernetes import fault_witnesses, rows
from holdfast.lab.chaos.kubernetes.rows import OnKubernetes

SERVERS: tuple[OnKubernetes, ...] = (
    OnKubernetes(
        37,
        "api-down",
        "the API server is down for two minutes",
        api_server.stopped,
        rows.UNSEEN,
        longer=rows.LONGEST,
        there=(fault_witnesses.api_server_was_away(api_server.DOWN_S),),
        starts_api=True,
    ),
    OnKubernetes(
        37,
        "api-down-rank-killed",
        "a rank is killed while the API server is down",
        api_server.stopped_while(rows.kill),
        rows.IN_PLACE,
        longer=rows.LONGEST,
        there=(fault_witnesses.api_server_was_away(api_server.DOWN_S),),
        starts_api=True,
    ),
    OnKubernetes(
        37,
        "api-down-node-lost",
        "a node is lost while the API server is down",
        api_server.stopped_while(node.lost),
        rows.LOST,
        longer=rows.LONGEST,
        there=(fault_witnesses.api_server_was_away(api_server.DOWN_S),),
        starts_api=True,
    ),
    OnKubernetes(
        37,
        "api-compacted",
        "etcd is compacted and the API server started again: watches have to begin anew",
        api_server.compacted,
        rows.UNSEEN,
        longer=rows.LONGEST,  # an API server takes its time to start
        there=(fault_witnesses.watches_began_anew,),
        starts_api=True,
    ),
    OnKubernetes(
        37,
        "api-bad-answers",
        "every second request of the driver is answered 429, 500, 502 or 409, and a node is lost",
        api_server.answering_badly_while(node.lost),
        rows.LOST,
        longer=rows.MIDDLE,
        proxied=True,
        there=(fault_witnesses.answers_were_bad,),
    ),
    OnKubernetes(
        37,
        "api-slow",
        "every second answer to the driver comes late or never, and a node is lost",
        api_server.answering_slowly_while(node.lost),
        rows.LOST,
        longer=rows.LONG,
        proxied=True,
        there=(fault_witnesses.answers_were_slow,),
    ),
    OnKubernetes(
        38,
        "never-scheduled",
        "no node has the devices that the job's pods ask for, until some have",
        supply.devices_come,
        rows.UNSEEN,
        first=supply.devices_are_out,
        spec={"pod": {"rdmaDevices": {supply.DEVICE: "1"}}},
        at_once=True,
    ),
    OnKubernetes(
        38,
        "image-missing",
        "the image of the job's pods does not exist, until somebody pushes it",
        supply.image_comes,
        rows.UNSEEN,
        spec={"pod": {"image": supply.IMAGE}},
        at_once=True,
    ),
)
