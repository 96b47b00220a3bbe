"""An adapter with tools, permission, stop and resume, on the package for Python."""
import os
import uuid
from pathlib import Path
from typing import Any

import trunkline


class Notes(trunkline.Adapter):
    def describe(self) -> trunkline.Description:
        return trunkline.Description(name="notes", version="1.0.0", resumes=True)

    def start(self, session: trunkline.Session, options: dict[str, Any]) -> Path:
        known = (session.resume or {}).get("native_session_id")
        name = Path(known or str(uuid.uuid4())).name
        kept = Path(os.environ["NOTES"], name)
        session.info(native_session_id=name, context="kept" if kept.exists() else "lost")
        return kept

    def turn(self, turn: trunkline.Turn) -> None:
        kept, (verb, _, rest) = turn.session.state, turn.text.partition(" ")
        if verb == "write":
            self.write(turn, rest)
        elif verb == "wait":
            turn.output("waiting")
            turn.wait(3600)  # a stop ends it
        elif verb == "recall":
            turn.output(kept.read_text())
        else:
            with kept.open("a") as file:
                file.write(turn.text + "\n")
            turn.output("noted")

    def write(self, turn: trunkline.Turn, path: str) -> None:
        call = str(uuid.uuid4())
        turn.tool_start(call, "write", {"path": path})
        if turn.permission("write", f"Write {path}", path):
            Path(path).write_text("written")
            turn.tool_end(call, "written")
        else:
            turn.tool_end(call, "denied", is_error=True)


trunkline.serve(Notes())
