"""Writes what `holdfast.client` knows of the driver's interface: `python -m holdfast.lab.client`.

`models` from the classes of the answers, `methods` from the OpenAPI document. A test holds that the
files are what this writes, so that a route or a field cannot be forgotten.
"""
