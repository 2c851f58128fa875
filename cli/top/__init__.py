"""`holdfast top`: jobs, ranks, nodes and incidents of a driver, live in a terminal.

`command` is what is typed, `live` wires, `looks` asks the driver, `screen` is what keys do (pure),
`draw` what is seen (pure), `orders` does what was asked for; `terminal` alone touches the terminal.
"""

from holdfast.cli.top.command import register

__all__ = ["register"]
