"""Kubernetes as a cluster: the one folder of the driver that knows of it.

Built on `holdfast.kubeapi`, the client of an API server. Only the driver's main, lab and bench
import from here, and only where Kubernetes is used.
"""
