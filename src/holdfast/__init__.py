"""Holdfast keeps large training jobs running.

Each folder at the top of the repository is the package ``holdfast.<folder>`` (a symbolic link
beside this file). `ARCHITECTURE.md` says on one page what each is for and what it may import.
"""

__version__ = "0.1.0"
