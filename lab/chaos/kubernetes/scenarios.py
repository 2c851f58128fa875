"""The faults that are done on Kubernetes, and what must follow. As `chaos.scenarios`, which see.

Those that are the same on a laptop are done by the same injectors; what must follow is what others
than the driver saw.
"""

from holdfast.lab.chaos.injectors import nothing
from holdfast.lab.chaos.kubernetes.accidents import ACCIDENTS
from holdfast.lab.chaos.kubernetes.drivers import DRIVERS
from holdfast.lab.chaos.kubernetes.kubelets import KUBELETS
from holdfast.lab.chaos.kubernetes.rows import OnKubernetes
from holdfast.lab.chaos.kubernetes.servers import SERVERS

LEFT_ALONE = OnKubernetes(0, "left-alone", "nothing at all", nothing)
SCENARIOS: tuple[OnKubernetes, ...] = (*KUBELETS, *DRIVERS, *SERVERS, *ACCIDENTS)
