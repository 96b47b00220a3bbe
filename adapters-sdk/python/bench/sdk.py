"""The package: `sdk.py blocking` or `sdk.py asyncio`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
import trunkline


def blocking(turn):
    turn.output(turn.text)


async def on_loop(turn):
    await turn.output(turn.text)


trunkline.serve(blocking if sys.argv[1] == "blocking" else on_loop)
