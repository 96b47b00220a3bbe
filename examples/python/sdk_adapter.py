#!/usr/bin/env python3
"""An adapter on the package `trunkline` (adapters-sdk/python): an echo with stop, permissions and files."""
import asyncio
import contextlib
import re
import sys
from pathlib import Path

# Here the package is beside it; elsewhere it is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "adapters-sdk/python/src"))
import trunkline


async def answer(turn: trunkline.AsyncTurn) -> None:
    if found := re.fullmatch(r"/sleep (\d+\.?\d*)", turn.text):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(float(found[1])):  # a stop cancels it here
                while steer := await turn.next_steer():
                    await turn.output(steer.accept())
    elif found := re.match(r"/tool (\S+)", turn.text):
        decision = await turn.permission(found[1], f"Run {found[1]}", found[1])
        return await turn.output(f"{'ran' if decision else 'denied'} {found[1]}")
    for file in turn.files:
        await turn.output(f"got {file['file_name']}\n")
    await turn.output(turn.text)


trunkline.serve(answer, name="sdk_adapter.py", version="1.0.0", steerable=True)
