"""Which Python files are no code of a user's, wherever the interpreter lies: by their names. Pure.

Asked of a rank's own stack by `telemetry.frames`, and of what py-spy prints by `stacks`.
"""

import re

_INSTALLED = re.compile(
    r"/(site|dist)-packages/"
    r"|^<(frozen |eval_with_key>)"
    r"|(^|/)(?P<two>[a-z2-7]{2})/c(?P=two)[a-z2-7]{49}\.py$"
)
"""`dist-packages` is Debian's and Ubuntu's, and so that of NVIDIA's images: not below the standard
library's folder. The last two are what `torch.compile` generates of a user's code (torch 2.15): its
graphs, and Inductor's files, whose name and folder are a hash in base 32."""


def is_installed(file: str) -> bool:
    return _INSTALLED.search(file) is not None
