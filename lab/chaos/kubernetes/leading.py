"""What has to hold of who leads, by the Lease and those who wrote it. Witnesses as in `witnesses`.

Named by scenarios in which drivers share a journal. Pure.
"""

from holdfast.lab.chaos.injectors import lease
from holdfast.lab.chaos.kubernetes import effects
from holdfast.lab.chaos.kubernetes.seen import Object, Seen
from holdfast.lab.chaos.kubernetes.witnesses import by_audit_log
from holdfast.lab.operators import LEASE


def only_who_leads_is_up(seen: Seen) -> list[str]:
    """Of two drivers the one that has the Lease; the other ended, and nobody started it again."""
    holder = str(seen.lease.get("spec", {}).get("holderIdentity") or "nobody")
    up = ", ".join(seen.drivers_up) or "none"
    right = up == holder.partition(" at ")[0]
    return [] if right else [f"of the drivers {up} is up, and {holder} has the Lease"]


def lease_is_back(seen: Seen) -> list[str]:
    """Whoever had taken the Lease has it no more: a driver has."""
    holder = str(seen.lease.get("spec", {}).get("holderIdentity") or "")
    return (
        [] if holder and holder != lease.THIEF else [f"the Lease is held by {holder or 'nobody'}"]
    )


@by_audit_log
def theft_was_borne(seen: Seen) -> list[str]:
    """By the audit log: a stranger had the Lease for a while in which no driver wrote it."""
    wrote = [effects.by_driver(each) for each in seen.audited if _writes_lease(each)]
    if wrote.count(False) < 2:
        return ["no stranger held the Lease"]
    last = len(wrote) - 1 - wrote[::-1].index(False)
    stolen = wrote[wrote.index(False) : last + 1]
    return ["a driver wrote the Lease while a stranger held it"] if any(stolen) else []


def _writes_lease(event: Object) -> bool:
    about, (namespace, name) = event.get("objectRef", {}), LEASE
    which = (about.get("resource"), about.get("namespace"), about.get("name"))
    done = event.get("verb") in ("update", "patch") and effects.was_done(event)
    return done and which == ("leases", namespace, name)
