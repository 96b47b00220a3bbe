"""The adapter as a process: its end, its stdout, its flags, its README."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from trunkline.testing import Host

README = Path(__file__).parent.parent / "README.md"
START = b'{"type":"session.start","session_id":"s"}\n'
INPUT = b'{"type":"user.input","session_id":"s","content":"hello"}\n'

FORMS = {
    "blocking": "def answer(turn):\n    BODY\n",
    "async": "import asyncio\nasync def answer(turn):\n    BODY\n",
}


def program(form, body):
    return "import trunkline, time, os, sys\n" + FORMS[form].replace("BODY", body) + "trunkline.serve(answer, name='p')\n"


def run(code, text, *arguments, env=None):
    done = subprocess.run([sys.executable, "-c", code, *arguments], input=text, capture_output=True, timeout=20, env=env)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.parametrize("form", FORMS)
def test_what_is_on_stdin_at_the_start_is_answered(form):
    send = "await turn.output(turn.text)" if form == "async" else "turn.output(turn.text)"
    status, messages, _ = run(program(form, send), START + INPUT)
    assert (status, [m["type"] for m in messages]) == (0, ["output", "turn.complete"])


@pytest.mark.parametrize("form", FORMS)
def test_what_is_printed_lands_on_stderr(form):
    noise = "print('NOISE'); os.write(1, b'NOISE\\n'); os.system('echo NOISE')"
    status, messages, stderr = run(program(form, noise), START + INPUT)
    assert (status, [m["type"] for m in messages]) == (0, ["turn.complete"])
    assert stderr.count(b"NOISE") == 3


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", ["end of input", "SIGTERM", "broken stdout"])
def test_it_ends_in_time_whatever_its_handler_does(form, way):
    begun = "await turn.output('begun')" if form == "async" else "turn.output('begun')"
    code = program(form, f"{begun}\n    while True: time.sleep(0.1)")
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdin.write(START + INPUT)
    child.stdin.flush()
    assert b"begun" in child.stdout.readline()
    began = time.monotonic()
    if way == "end of input":
        child.stdin.close()
    elif way == "SIGTERM":
        child.send_signal(signal.SIGTERM)
    else:
        child.stdout.close()
        child.stdin.write(START.replace(b'"s"', b'"t"') + INPUT.replace(b'"s"', b'"t"') * 2000)
        child.stdin.close()
    assert child.wait(10) == 0
    assert time.monotonic() - began < 5
    if way != "broken stdout":
        assert b"turn.complete" in child.stdout.read()


def test_flags_are_answered_without_a_session():
    code = program("blocking", "pass")
    done = subprocess.run([sys.executable, "-c", code, "--describe"], capture_output=True, timeout=20, check=True)
    described = json.loads(done.stdout)
    assert (described["name"], described["protocol"]) == ("p", 1)
    done = subprocess.run([sys.executable, "-c", code, "--diagnose"], capture_output=True, timeout=20, check=True)
    assert json.loads(done.stdout)["status"] == "pass"


def test_the_probe_is_off_unless_the_environment_says_so():
    script = json.dumps({"$probe": 1, "do": [["say", "probed"]]})
    text = START + json.dumps({"type": "user.input", "session_id": "s", "content": script}).encode() + b"\n"
    code = program("blocking", "turn.output(turn.text)")
    for value, said in [("1", "probed"), ("true", script), ("", script)]:
        _, messages, _ = run(code, text, env={**os.environ, "CONFORM_PROBE": value})
        assert messages[0]["content"] == said


def test_the_readme_is_true():
    adapter, test = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[:2]
    request = {"type": "permission.response", "session_id": "s", "request_id": "p1", "approved": True}
    child = subprocess.Popen([sys.executable, "-c", adapter], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdin.write(START + INPUT)
    child.stdin.flush()
    assert json.loads(child.stdout.readline())["resource"] == "hello"
    child.stdin.write(json.dumps(request).encode() + b"\n")
    child.stdin.flush()
    assert json.loads(child.stdout.readline())["content"] == "hello"
    child.stdin.close()
    assert child.wait(10) == 0
    child.stdout.close()
    names = {}
    exec(adapter.replace("trunkline.serve(", "(lambda *_, **__: None)("), names)
    exec(test, names)
    names["test_it_asks_before_it_speaks"]()


def test_the_adapter_of_the_readme_resumes_what_it_knows():
    code = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[2]
    names = {}
    exec(code.replace("trunkline.serve(", "(lambda *_, **__: None)("), names)
    with Host(names["Notes"]()) as host:
        first = host.open()
        assert [first.send("one").text, (end := first.send("two")).text] == ["1 notes", "2 notes"]
        params = end.end["session_params"]
        second = host.open(resume={"params": params})
        assert (second.next()["context"], second.send("three").text) == ("kept", "3 notes")
        for unknown in ({"conversation": "gone"}, None, "text"):
            third = host.open(resume={"params": unknown})
            assert (third.next()["context"], (end := third.send("one")).text) == ("lost", "1 notes")
            assert end.end["clear_session"] is True
