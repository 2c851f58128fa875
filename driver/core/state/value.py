"""The base of everything that the driver knows: values that are never changed, only replaced."""

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all values of the model. Equal values are equal whatever object they are."""
