"""Tests of `answer` without a process: `.venv/bin/python -m pytest`."""
import pathlib
import tempfile

from adapter import answer
from trunkline.testing import Host


def test_it_answers():
    with Host(answer) as host:
        assert host.open().send("hello").text == "You said: hello"


def test_it_acts_only_where_it_may():
    with Host(answer) as host, tempfile.TemporaryDirectory() as folder:
        file, session = pathlib.Path(folder, "made"), host.open()
        session.send(f"/touch {file}", permission=lambda request: False)
        assert not file.exists()
        session.send(f"/touch {file}", permission=lambda request: request["resource"] == str(file))
        assert file.exists()
