"""The base of everything that the driver knows: values that are never changed, only replaced."""

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of all values of the model. Equal values are equal whatever object they are.

    No value can hold itself, so Python's collector of cycles need not look at any: at 12,500 nodes
    one look at all of them took .14 s, in which nobody was heard.
    """
