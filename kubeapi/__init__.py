"""A client of Kubernetes API servers: calls, watches, copies of collections, queues of work.

`client` speaks to a server, `reflector` keeps a copy of what it has, `paths` says where each kind
of object is. Used by the driver's adapter, lab and bench. Must not load typed models of Kubernetes:
objects are JSON as it came, in dicts.
"""
