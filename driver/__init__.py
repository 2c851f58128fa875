"""The control plane: decides, remembers, and tells executors what should run.

Started by systemd, a Deployment, or `holdfast run` and `holdfast demo`. Must not import torch, and
must not act before what it decided is in its journal.

`core` decides, `watch` detects, `adapters` know technologies; `batch`: events on their way through
the loop, `lead`: which driver leads, `serve`: sockets, `people`: what they ask, `journal`: what is
written down, `formats`: the state as bytes, `cluster`: what is around and how effects are carried
out, `follow`: what follows the state. `main` starts, `wiring` joins the parts.
"""
