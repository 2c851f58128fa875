"""Tells others what the journal says: a POST for each job, incident, node or brake that turned.

`file` reads who is told, `messages` makes what is sent (pure), `sender` sends it, from a place in
the journal that is kept there. Beside the loop: nothing waits for a receiver.
"""
