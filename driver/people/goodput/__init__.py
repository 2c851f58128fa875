"""Where every second of a job went, from what the journal says that it did. See docs/goodput.md.

`marks` reads entries, `pieces` splits a job's time, `account` sums it up by bucket, incident and
cause, `fleet` those of all jobs; `ledger` keeps what was read. All are pure but the last, which
reads the journal.
"""
