"""The web page of a driver: its routes, who may see it, and how it changes something.

Mounted by `adapters.rest.app`, and by `cli` over a run's folder. The HTML is made by
`holdfast.page` of the dicts that the REST interface answers with.
"""
