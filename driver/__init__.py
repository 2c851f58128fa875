"""The control plane: decides, remembers, and tells executors what should run.

Started by systemd, a Deployment, or `holdfast run` and `holdfast demo`. Must not import torch, and
must not act before what it decided is in its journal.
"""
