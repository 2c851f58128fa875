"""The emulated nodes as nodes of a real Kubernetes: their kubelet, and what runs their pods.

Started by `python -m holdfast.lab.emulator.kubelet.main`; see docs/emulator.md. One process is the
kubelet of all nodes; in each node a runtime keeps the node's containers, which are processes in the
node's own namespaces. What a node reads and writes at the API server goes over that node's own
link. Must know nothing of Holdfast's jobs: to it, a pod is a pod.
"""
