"""Which command is etcd, the API server, kubectl: an envtest folder's own, else the built binary's.

Where that is not built, any kubectl will do: for a cluster that a person gives.

Called by whatever starts one. Must not build: a test or a command says first that it may take long.
"""

import os
import shutil
from pathlib import Path

from holdfast.lab.kubernetes.build import CONTROL_PLANE, HOW, KWOK, NotHere, cached

ASSETS = "KUBEBUILDER_ASSETS"
"""Environment of the ecosystem's convention: a folder with etcd, kube-apiserver and kubectl."""


def command(program: str) -> list[str]:
    """The words that start `program`. Raises `NotHere`."""
    given = assets() / program if os.environ.get(ASSETS) else None
    if given is not None and given.is_file():
        return [str(given)]
    module = KWOK if program == KWOK.binary else CONTROL_PLANE
    binary = cached(module)
    if not binary.exists() and program == "kubectl" and (there := shutil.which(program)):
        return [there]
    if not binary.exists():
        raise NotHere(f"{program} is not here: {module.name} is not built yet. {HOW}")
    return [str(binary)] if module is KWOK else [str(binary), program]


def assets() -> Path:
    """The folder of KUBEBUILDER_ASSETS. Raises `NotHere` where there is no such folder."""
    folder = Path(os.environ[ASSETS])
    if not folder.is_dir():
        raise NotHere(f"{ASSETS} is {folder}, and that is no folder.")
    return folder
