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


@by_audit_log
def lease_was_deleted(seen: Seen) -> list[str]:
    """By the audit log: a stranger deleted it, and a driver made another, by a PUT that says so."""
    done = [each for each in seen.audited if _is_lease(each) and effects.was_done(each)]
    gone = [effects.did(each) == "delete leases" and not effects.by_driver(each) for each in done]
    after = done[gone.index(True) :] if any(gone) else []
    made = any(effects.by_driver(each) and each["responseStatus"]["code"] == 201 for each in after)
    return [] if made else ["nobody deleted the Lease that a driver then made anew"]


def _writes_lease(event: Object) -> bool:
    return event["verb"] in ("update", "patch") and effects.was_done(event) and _is_lease(event)


def _is_lease(event: Object) -> bool:
    about = event.get("objectRef", {})
    return (about.get("resource"), about.get("namespace"), about.get("name")) == ("leases", *LEASE)
