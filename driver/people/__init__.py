"""What people ask of the driver: who may ask, what is asked and what is refused, the story of what
was decided, and what the driver says on its terminal.

Used by `adapters.rest` and by the operator on Kubernetes. Must not decide: a request is an event.
"""
