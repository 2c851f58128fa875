"""A real Kubernetes control plane for development and tests, from Go modules, without containers.

`build` makes the one binary, `plane` runs etcd, API server, controllers and scheduler with it for
as long as a `with`. Used by `holdfast lab kubernetes`, the emulator's kubelet and tests/kubernetes.
Must not know Holdfast's own objects: what runs here is stock Kubernetes.
"""
