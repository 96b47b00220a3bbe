"""Write an adapter: one handler.

    import trunkline

    def answer(turn: trunkline.Turn) -> None:
        turn.output(turn.text)

    trunkline.serve(answer)

The package does the rest of the protocol: it reads and writes the lines, runs sessions at the same time and the turns of
one session in order, ends each turn exactly once, carries stops and permissions, folds rich events down for hosts that know
the core alone, answers `ping`, and ends the process soon after its input ends. Clause ids such as [turn.4] point into
protocol/SPEC.md.
"""

from ._process import config, serve, serve_async
from ._requests import Answer, Decision
from .adapter import Adapter, Description, Failure, Stopped
from .session import Session, Steer
from .turn import AsyncTurn, Turn

__all__ = [
    "Adapter",
    "Answer",
    "AsyncTurn",
    "Decision",
    "Description",
    "Failure",
    "Session",
    "Steer",
    "Stopped",
    "Turn",
    "config",
    "serve",
    "serve_async",
]
__version__ = "0.1.0"
