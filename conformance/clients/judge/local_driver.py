"""The reference driver without a process, for runs of many mutants."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from .driver import Driver
from .reference_client import Behaviour
from .reference_driver import DriverLoop


class LocalDriver(Driver):
    """A driver that runs in the judge's own loop."""

    def __init__(self, behaviour: Behaviour, folder: Path, **options: Any) -> None:
        super().__init__(**options)
        self._loop = DriverLoop(behaviour, self._take)

    async def begin(self) -> None:
        pass

    async def _write(self, line: str) -> None:
        self._loop.take(line)

    async def end(self) -> None:
        await self._loop.client.leave()
        for task in list(self._loop.tasks):
            task.cancel()
        await asyncio.sleep(0)
