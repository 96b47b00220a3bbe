"""The agent behind the abilities test: what it does is in the words of its input."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "adapters-sdk/python/src"))

import trunkline  # noqa: E402


def answer(turn: trunkline.Turn) -> None:
    """Obeys its input."""
    if turn.text == "hold":
        turn.output("ready")
        turn.wait(60)
    elif turn.text == "steer":
        turn.output("ready")
        turn.output(f"steered: {turn.next_steer().accept()}")
    elif turn.text == "ask":
        turn.output(f"decided: {turn.permission('Bash', 'Delete the logs', 'rm -r logs').approved}")
    elif turn.text == "ask question":
        turn.output(f"decided: {turn.question('Which one?').text()}")
    elif turn.text == "file":
        turn.new_file("made.txt", b"made by the agent")
    elif turn.files:
        for file in turn.files:
            turn.output(f"{file['file_name']}: {Path(file['file_path']).read_text()}")
    else:
        turn.output(turn.text)


trunkline.serve(answer, steerable=True)
