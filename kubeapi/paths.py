"""Where each kind of object is at an API server, TrainingJobs among them. Pure.

Used with `client` and `reflector`. A name is one segment of a path; what would be more is
refused, for names come from people. `namespace=""` is all namespaces: for lists and watches.
"""

from urllib.parse import quote

from holdfast.kit.errors import PermanentError

GROUP = "holdfast.dev"
VERSION = "v1alpha1"
"""Of TrainingJobs."""
CORE = "/api/v1"
DEFAULT = "default"
"""The namespace of Events about what is in none."""


def namespaces(name: str = "") -> str:
    return _path(CORE, "", "namespaces", name)


def nodes(name: str = "", subresource: str = "") -> str:
    return _path(CORE, "", "nodes", name, subresource)


def pods(namespace: str = "", name: str = "", subresource: str = "") -> str:
    """`subresource`: status, eviction, log, binding."""
    return _path(CORE, namespace, "pods", name, subresource)


def events(namespace: str = "", name: str = "") -> str:
    """Events of `events.k8s.io`."""
    return _path("/apis/events.k8s.io/v1", namespace, "events", name)


def service_accounts(namespace: str, name: str = "", subresource: str = "") -> str:
    """`subresource`: token, to which a TokenRequest is posted."""
    return _path(CORE, namespace, "serviceaccounts", name, subresource)


def leases(namespace: str = "", name: str = "") -> str:
    return _path("/apis/coordination.k8s.io/v1", namespace, "leases", name)


def priority_classes() -> str:
    return _path("/apis/scheduling.k8s.io/v1", "", "priorityclasses", "")


def pod_groups_api() -> str:
    """Where an API server says whether it has PodGroups."""
    return "/apis/scheduling.k8s.io/v1alpha2"


def pod_groups(namespace: str = "", name: str = "") -> str:
    return _path(pod_groups_api(), namespace, "podgroups", name)


def training_jobs(namespace: str = "", name: str = "", subresource: str = "") -> str:
    return _path(f"/apis/{GROUP}/{VERSION}", namespace, "trainingjobs", name, subresource)


def token_reviews() -> str:
    return "/apis/authentication.k8s.io/v1/tokenreviews"


def self_access_reviews() -> str:
    """Where whoever asks posts what they would like to be allowed to do."""
    return "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def self_reviews() -> str:
    """Where whoever asks posts a SelfSubjectReview, to be told who they are."""
    return "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def _path(api: str, namespace: str, kind: str, name: str, subresource: str = "") -> str:
    within = f"/namespaces/{_segment(namespace)}" if namespace else ""
    below = "".join(f"/{_segment(part)}" for part in (name, subresource) if part)
    return f"{api}{within}/{kind}{below}"


def _segment(name: str) -> str:
    if name in (".", "..") or "/" in name or "%" in name:
        raise PermanentError(f"name {name!r} has '/', '%' or is dots: no object is called that")
    return quote(name, safe="")
