"""Turns of both kinds of handlers, against the host in memory."""

import asyncio
import threading
import time

import pytest
import trunkline
from trunkline._core import QUEUED_STEERS, QUEUED_TURNS
from trunkline.testing import Host


def blocking(turn):
    turn.output(turn.text)


async def on_loop(turn):
    await turn.output(turn.text)


@pytest.mark.parametrize("handler", [blocking, on_loop])
def test_each_input_has_one_end_in_its_order(handler):
    with Host(handler) as host:
        session = host.open()
        turns = [session.begin(f"text {number}") for number in range(50)]
        for number, turn in enumerate(turns):
            messages = session.until("turn.complete")
            assert [m["turn_id"] for m in messages] == [turn, turn]
            assert messages[0]["content"] == f"text {number}"
            assert messages[1]["status"] == "completed"


@pytest.mark.parametrize("handler", [blocking, on_loop])
def test_a_host_of_the_core_gets_the_core_alone(handler):
    with Host(handler, extensions=()) as host:
        session = host.open()
        result = session.send("hello")
        assert [set(m) for m in result.messages] == [
            {"type", "session_id", "content", "channel"},
            {"type", "session_id"},
        ]


def fail(turn):
    turn.tool_start("c-1", "Bash", {"command": "ls"})
    raise trunkline.Failure("no more", "rate_limit", status="limit", retry_at="2026-03-01T12:00:00Z")


def test_a_failure_is_the_end_and_closes_what_is_open():
    with Host(fail) as host:
        result = host.open().send("x")
        assert result.status == "limit"
        assert result.end["error"]["category"] == "rate_limit"
        assert [(m["tool_call_id"], m["is_error"]) for m in result.of("tool.end")] == [("c-1", True)]
    with Host(fail, extensions=()) as host:
        result = host.open().send("x")
        assert [m["type"] for m in result.messages] == ["output", "turn.complete"]
        assert result.messages[0]["content"] == "no more (try again at 2026-03-01T12:00:00Z)"


def test_a_stop_ends_a_blocking_handler_at_its_next_call():
    def handler(turn):
        while True:
            turn.output("tick")
            turn.wait(60)

    with Host(handler) as host:
        session = host.open()
        turn = session.begin("x")
        session.until("output")
        session.write("stop", turn_id=turn, reason="user")
        end = session.until("turn.complete")[-1]
        assert (end["status"], end["stop_reason"]) == ("stopped", "user")


def test_a_stop_is_no_failure_for_the_operator(capsys):
    async def handler(turn):
        await turn.output("begun")
        await asyncio.sleep(60)

    with Host(handler) as host:
        session = host.open()
        session.begin("x")
        session.until("output")
        session.write("stop")
        assert session.until("turn.complete")[-1]["status"] == "stopped"
    assert capsys.readouterr().err == ""


def test_a_stop_cancels_an_async_handler_which_may_have_last_words():
    async def handler(turn):
        try:
            await turn.output("begun")
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await turn.output("last words")
            raise

    with Host(handler) as host:
        session = host.open()
        session.begin("x")
        session.until("output")
        session.write("stop")
        said, end = session.until("turn.complete")
        assert said["content"] == "last words"
        assert end["status"] == "stopped"


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_a_handler_that_does_not_stop_is_ended_and_the_next_turn_runs(kind):
    hold = threading.Event()

    def stuck(turn):
        turn.output("begun")
        if turn.text == "stuck":
            hold.wait(30)

    async def stuck_on_loop(turn):
        await turn.output("begun")
        while turn.text == "stuck" and not hold.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                pass

    with Host(stuck if kind == "blocking" else stuck_on_loop) as host:
        session = host.open()
        session.begin("stuck")
        session.until("output")
        session.write("stop")
        assert session.until("turn.complete", 8)[-1]["status"] == "stopped"
        assert session.send("on").status == "completed"
        hold.set()


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_nothing_but_true_approves(kind):
    def ask(turn):
        turn.output(str(turn.permission("Bash", "Delete", "rm").approved))

    async def ask_on_loop(turn):
        await turn.output(str((await turn.permission("Bash", "Delete", "rm")).approved))

    with Host(ask if kind == "blocking" else ask_on_loop) as host:
        session = host.open()
        assert session.send("x", permission=lambda request: True).text == "True"
        assert session.send("x").text == "False"
        for approved in ["true", 1, None, {}]:
            session.begin("x")
            request = session.until("permission.request")[-1]
            session.write("permission.response", request_id=request["request_id"], approved=approved)
            assert session.until("turn.complete")[0]["content"] == "False"


def test_a_stop_denies_what_waits():
    seen = []

    def ask(turn):
        seen.append(turn.permission("Bash", "Delete", "rm").approved)

    with Host(ask) as host:
        session = host.open()
        session.begin("x")
        session.until("permission.request")
        session.write("stop")
        assert session.until("turn.complete")[-1]["status"] == "stopped"
    assert seen == [False]


def test_sessions_that_wait_hold_up_no_other():
    gate = threading.Barrier(20)

    def handler(turn):
        gate.wait(20)  # none gets on before all are here
        turn.output("through")

    with Host(handler) as host:
        sessions = [host.open() for _ in range(20)]
        for session in sessions:
            session.begin("x")
        for session in sessions:
            assert session.until("turn.complete")[0]["content"] == "through"


def test_after_a_slow_handler_quick_ones_are_soon_run_by_one_thread_again():
    hold = threading.Event()

    def handler(turn):
        if turn.text == "slow":
            hold.wait(20)

    with Host(handler) as host:
        slow, quick = host.open(), host.open()
        slow.begin("slow")
        quick.send("x")  # by another thread
        runner = host._server._runner
        assert runner._slow
        hold.set()
        slow.until("turn.complete")
        until = time.monotonic() + 20
        while runner._slow and time.monotonic() < until:
            quick.send("x")
        assert not runner._slow


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_a_handler_that_blocks_its_thread_delays_no_pong(kind):
    hold = threading.Event()

    def block(turn):
        turn.output("begun")
        hold.wait(20)

    async def block_loop(turn):
        await turn.output("begun")
        hold.wait(20)

    with Host(block if kind == "blocking" else block_loop) as host:
        session = host.open()
        session.begin("x")
        session.until("output")
        host.write({"type": "ping", "session_id": "", "nonce": 1})
        assert host.pipe.get(timeout=5)["nonce"] == 1
        hold.set()
        session.until("turn.complete")


def test_state_lives_as_long_as_its_session():
    closed = []

    class Counter(trunkline.Adapter):
        def start(self, session, options):
            return 0

        def turn(self, turn):
            turn.session.state += 1
            turn.output(str(turn.session.state))

        def close(self, session):
            closed.append(session.state)

    with Host(Counter()) as host:
        one, two = host.open(), host.open()
        assert [one.send("x").text, one.send("x").text, two.send("x").text] == ["1", "2", "1"]
        one.close()
        deadline = time.monotonic() + 5
        while closed != [2] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert closed == [2]
    assert sorted(closed) == [1, 2]


def test_steers_are_answered_once():
    def handler(turn):
        turn.output("begun")
        first = turn.next_steer()
        turn.output(first.accept())
        turn.next_steer()  # held, and not answered

    with Host(handler, steerable=True) as host:
        session = host.open()
        session.begin("x")
        session.until("output")
        for number in (1, 2):
            session.write("user.input", content=f"more {number}", message_id=f"m-{number}", mode="steer")
        messages = session.until("turn.complete")
        results = [(m["message_id"], m["delivered"]) for m in messages if m["type"] == "steer.result"]
        assert results == [("m-1", True), ("m-2", False)]


def test_more_inputs_than_may_wait_are_refused_and_each_ends():
    hold = threading.Event()

    def handler(turn):
        turn.output("begun")
        hold.wait(20)

    with Host(handler) as host:
        session = host.open()
        turns = [session.begin("x")]
        session.until("output")
        turns += [session.begin("x") for _ in range(QUEUED_TURNS + 10)]
        refused = [session.until("turn.complete")[-1] for _ in range(10)]
        assert [end["turn_id"] for end in refused] == turns[-10:]
        assert {end["error"]["category"] for end in refused} == {"busy"}
        hold.set()
        assert [session.until("turn.complete")[-1]["turn_id"] for _ in turns[:-10]] == turns[:-10]


def test_more_steers_than_may_wait_are_refused():
    hold = threading.Event()

    def handler(turn):
        turn.output("begun")
        hold.wait(20)

    with Host(handler, steerable=True) as host:
        session = host.open()
        session.begin("x")
        session.until("output")
        for number in range(QUEUED_STEERS + 1):
            session.write("user.input", mode="steer", message_id=f"m-{number}", content="x")
        refused = session.until("steer.result")[-1]
        assert (refused["message_id"], refused["delivered"]) == (f"m-{QUEUED_STEERS}", False)
        hold.set()


def test_what_is_paused_comes_in_order_after_the_pause():
    with Host(blocking) as host:
        session = host.open()
        session.write("flow.pause")
        session.begin("a")
        host.write({"type": "ping", "session_id": "", "nonce": 1})
        host.pipe.get(timeout=5)
        with pytest.raises(TimeoutError):
            session.next(0.2)
        session.write("flow.resume")
        assert [m["type"] for m in session.until("turn.complete")] == ["output", "turn.complete"]
