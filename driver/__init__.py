"""The control plane: decides, remembers, and tells executors what should run.

Started by systemd, a Deployment, or `holdfast run` and `holdfast demo`. Must not import torch, and
must not act before what it decided is in its journal.

`core` decides, `watch` detects, `adapters` know technologies; `lead`: which driver leads, `serve`:
sockets, `people`: what they ask, `journal`: what is written down, `cluster`: what is around and how
effects are carried out, `follow`: what follows the state. `main` starts, `wiring` joins the parts.
"""
