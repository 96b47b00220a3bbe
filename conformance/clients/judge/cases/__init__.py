"""The cases. Importing this package registers them all."""

from . import errors, hub, pipes, sessions  # noqa: F401
