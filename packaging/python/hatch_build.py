"""Names the platform of a wheel that holds a program."""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformTag(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['WHEEL_PLATFORM']}"
