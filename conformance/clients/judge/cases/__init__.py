"""The cases. Importing this package registers them all."""

from . import errors, hub, sessions  # noqa: F401
