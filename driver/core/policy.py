"""The numbers that decisions depend on, with a version that goes into every journal entry.

Made once at the driver's start and given to `decide`. Must not hold anything that differs per job.
"""

import msgspec


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds and shares; change the version with any of them."""

    version: int = 13
    gather_s: float = 0.03
    """Exits that arrive within it are judged together. Survivors in gloo saw a peer's death after
    .007 to .05 s (checkpoint reference), and a signal reaches the driver in a few milliseconds."""
    echo_s: float = 1.0
    """How long exits that look like echoes of a peer's death wait for the death itself."""
    doubt_s: float = 10.0
    """How long echoes wait for their cause while a node of the job is away: as long as `return_s`,
    within which such a node is back or judged. Nothing is lost by it, for a job cannot be restarted
    in place without its node."""
    stacks_s: float = 1.0
    """How long ranks that hang are left alive for their stacks (py-spy took .01 to .04 s each)."""
    connect_s: float = 120.0
    """From an allocation until its executor has to be connected."""
    quiet_s: float = 20.0
    """From the order to end ranks until the node has none. SIGKILL to reaped took .03 s."""
    store_s: float = 30.0
    """From quiet until the rendezvous listens, and between looks at an unreadable checkpoint."""
    look_s: float = 60.0
    """How long a job waits for what its store holds until another node looks, where the one that
    does tells of an error: twice as long as agents wait for an answer of the store."""
    look_tries: int = 2
    """So many other nodes look, one after another: where all of them fail it is the store."""
    reconnect_s: float = 20.0
    """How long an executor may be away before its silence counts."""
    return_s: float = 10.0
    """How long a driver that took over waits for executors before it takes them for silent. They
    come back with a jitter of at most 5 s."""
    catch_up_s: float = 2.0
    catch_up_share: float = 0.25
    """After a standstill of the driver nobody is judged for silence before this share of it, and no
    later for it than after `catch_up_s`: what was sent meanwhile has to be read first. A share, so
    that a driver that stands still again and again, and runs for a fifth of its time, gets on."""
    settle_s: float = 600.0
    """A job that ran so long without a fault has recovered, even where no step can be seen."""
    save_s: float = 60.0
    """So long before its time is over a node that is to be free is left, whether or not another is
    there."""
    save_gap_s: float = 120.0
    """Where there is no such time, how long the last step is waited for after something of it has
    last reached the store. (As long as agents wait for one answer of a slow one.)"""
    save_longest_s: float = 600.0
    """And how long in all. (A checkpoint that takes longer is of no use to anybody.)"""
    save_fails_s: float = 10.0
    """How long a store that is to take the last step, and that has taken nothing of it, may fail.
    Agents try again within 10 s, and tell of one that does not answer after 30 s."""
    hold_s: float = 300.0
    """How long a job keeps its nodes while it waits for one more and another job waits too."""
    rest_s: float = 60.0
    """A node that failed us without proof against it is not chosen again before."""
    refused_longest_s: float = 600.0
    """A job waits `rest_s` until it asks again for a node that it waited for in vain, twice as long
    after each further time, and at most so long."""
    forget_s: float = 86_400.0
    """A node that has been gone for so long, and that nobody holds or distrusts, is forgotten when
    the next one goes: machines that are made anew have new names."""
    retry_s: float = 5.0
    """Until a failed call to the cluster is made again."""
    correlation_s: float = 10.0
    """Losses of nodes that come within it are one incident."""
    report_again_s: float = 300.0
    """The same report within it joins the incident that it had."""
    silence_share: float = 0.2
    """Of the nodes, at most this many (but one) are evicted at once for silence alone
    (ByteRobust-style brake; faults 46 and 49)."""
    eviction_share: float = 0.5
    """Of the nodes, at most this many (but one) are evicted at once for whatever reason. One more
    is a mass failure: the brake is put on, and stays on until a person releases it."""
    dry_run: bool = False
    """Nobody is evicted but by people; what would be is decided, journaled and said."""
    at_once_s: float = 60.0
    """What "at once" means for these shares."""
    requalify_after_s: float = 600.0
    """From a node's eviction until it is tested, so that it may be used again. Each further
    eviction of it, and each test that it does not pass, doubles that."""
    requalify_longest_s: float = 86_400.0
    """Above which that is not doubled."""
    standby_test_s: float = 60.0
    """From the order of a standby's self-test until it is not waited for any more; 0: standbys are
    not tested. (Its two boxes are of 5 s each, and each may take 10 s to start.)"""
    standby_failures: int = 2
    """Standbys of a job that fail their self-tests one after another before it is more likely the
    test than the nodes: further ones of that job are not tested."""
    blame_window_s: float = 3_600.0
    """For so long a fault that was put down to a node counts as a word against it, where its tests
    are judged, and tests that found nothing are not asked again."""
    spot_tries: int = 4
    """Standstills at one place of a script until they are the script's own fault; the detectors
    wait four times as long at each as at the one before it (15 s, 1 min, 4 min, 16 min)."""
    kept_incidents: int = 200
    """Closed incidents that the state keeps; older ones are in the journal."""
