"""Faults done to Holdfast on a real Kubernetes: which, where they are played, and who saw what.

Called by `holdfast chaos --cluster kubernetes`. Judged by what others wrote down: the API server's
audit log, its objects, the driver's journal, and what executors and ranks left in files.
"""
