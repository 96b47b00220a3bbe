"""The program of docs/clients.md that watches all sessions, as the page has it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from daemon import Daemon, needs_trunkline
from trunkline.client import BlockingClient

EXAMPLES = os.environ.get("TRUNKLINE_EXAMPLES") or Path(__file__).resolve().parents[3] / "examples/python"
PAGE = Path(EXAMPLES).resolve().parents[1] / "docs/clients.md"
pytestmark = [needs_trunkline, pytest.mark.skipif(not PAGE.exists(), reason="no pages beside the package")]


def test_the_program_shows_what_waits_and_what_comes_and_answers_both(tmp_path):
    daemon = Daemon(tmp_path).start()
    program = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL).group(1)
    assert "http://127.0.0.1:7457" in program
    (tmp_path / "watch.py").write_text(program.replace("127.0.0.1:7457", daemon.http))
    (tmp_path / "token").write_text(daemon.token("--all-sessions"))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        with BlockingClient(socket=daemon.socket) as client:
            session = client.open(permission="leave", entries=True)
            first = session.send("ask")
            next(entry for entry in session if entry["type"] == "permission.request")
            pipe = subprocess.PIPE
            with subprocess.Popen([sys.executable, "watch.py"], cwd=tmp_path, env=env, stdin=pipe, stdout=pipe) as watch:
                try:
                    watch.stdin.write(b"y\nn\n")  # it asks for a line only once there is a request
                    watch.stdin.flush()
                    assert first.text() == "True"
                    assert client.open(permission="leave").send("ask").text() == "False"
                finally:
                    watch.kill()
                shown = watch.stdout.read().decode()
            decided = next(entry for entry in session if entry["type"] == "request.decided")
        assert decided["name"] == "Anna"
        assert shown == "Bash: rm (y/n) " * 2
    finally:
        daemon.child.terminate()
        daemon.child.wait()
