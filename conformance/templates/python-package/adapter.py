#!/usr/bin/env python3
"""An adapter on the package trunkline. Your agent goes into `answer`."""
import pathlib

import trunkline


def answer(turn: trunkline.Turn) -> None:
    """One turn. Say as much as you like; the return ends the turn, and an exception is shown to the user.

    After `stop` the next call of `turn` ends it; `turn.wait(seconds)` is the sleep that a stop ends. `turn.permission` asks:
    act only where it is true. `turn.files` are the files of the user; `turn.file(path)` sends one. As an `async def` it gets
    an `AsyncTurn`, with the same methods. Options, state of a session and more: see `trunkline.Adapter`.
    """
    # To try it out, and for the recipes in conform.toml. Your agent replaces all of this.
    command, _, rest = turn.text.partition(" ")
    if command == "/sleep":
        turn.wait(float(rest))
    elif command == "/touch" and turn.permission("touch", f"Create {rest}", rest):
        pathlib.Path(rest).touch()
    elif command == "/fail":
        raise trunkline.Failure(rest)
    turn.output(f"You said: {turn.text}")


if __name__ == "__main__":
    trunkline.serve(answer)
