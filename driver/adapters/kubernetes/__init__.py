"""Kubernetes as a cluster: the one folder of the driver that knows of it.

`client` speaks to an API server, `reflector` keeps a copy of what it has; the operator's parts are
built on these. Only the driver's main and the lab import from here, and only where Kubernetes is
used. Must not load typed models of Kubernetes: objects are JSON as it came, in dicts.
"""
