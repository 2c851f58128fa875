"""What to say where a library is missing that one of Holdfast's extras brings.

Called by whoever loads such a library only when it is needed.
"""

from holdfast.driver.ports import PermanentError


def not_installed(what: str, error: ModuleNotFoundError, extra: str) -> PermanentError:
    """What to do where a setting needs a library of an extra that is not there."""
    return PermanentError(
        f"{what}: {error.name} is not installed. Install the extra: pip install 'holdfast[{extra}]'"
    )
