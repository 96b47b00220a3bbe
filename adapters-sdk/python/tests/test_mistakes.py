"""Mistakes of an author, which a host would ignore: each is an error at its call, or in the end of its turn."""

import pytest
import trunkline
from trunkline.testing import Host


def blocking(call):
    return lambda turn: call(turn)


def on_loop(call):
    async def handler(turn):
        result = call(turn)
        return await result if hasattr(result, "__await__") else result

    return handler


def message_of(handler, **description):
    with Host(handler, **description) as host:
        result = host.open().send("x")
        return result.end.get("error", {}).get("message") or result.status


def end_by(error):
    def handler(turn):
        raise error

    return handler


@pytest.mark.parametrize(
    "handler, message",
    [
        (lambda turn: {}["path"], "KeyError: 'path'"),
        (end_by(SystemExit(3)), "SystemExit: 3"),
        (end_by(ValueError()), "ValueError"),
        (end_by(trunkline.Failure("no more")), "no more"),
    ],
)
@pytest.mark.parametrize("form", [blocking, on_loop])
def test_the_message_of_a_failed_turn_begins_with_the_class(form, handler, message):
    assert message_of(form(handler)) == message


MISTAKES = {
    "output() takes a str, not int": lambda turn: turn.output(5),
    "output() takes a str, not NoneType": lambda turn: turn.output(None),
    "output() takes a str, not bytes": lambda turn: turn.session.output(b"x"),
    "no message of an adapter has the type 'outptu': did you mean 'output'?": lambda turn: turn.emit("outptu", content="x"),
    "no message of an adapter has the type 'tool.ended': did you mean 'tool.end'?": lambda turn: turn.emit("tool.ended"),
    "no message of an adapter has the type 'acme.note': use custom() for an event of your own": lambda turn: turn.emit(
        "acme.note"
    ),
    "no message of an adapter has the type 'user.input': use custom() for an event of your own": lambda turn: turn.emit(
        "user.input", content="x"
    ),
    "no tool call 'c-9' was started in this turn: call tool_start() first": lambda turn: turn.tool_end("c-9"),
    "the handler returned str; send text with turn.output()": lambda turn: "hello",
    "input_tokens of usage must be of the type integer, not str": lambda turn: turn.usage(input_tokens="many"),
    "input_tokens of usage must be of the type integer, not bool": lambda turn: turn.usage(input_tokens=True),
    "usage has no member 'input_token': did you mean 'input_tokens'?": lambda turn: turn.usage(input_token=5),
    "output needs the member 'content'": lambda turn: turn.emit("output", channel="stdout"),
    "summary of turn.complete must be of the type string, not int": lambda turn: turn.end(summary=5),
    "diffs of permission.request must be of the type array, not str": lambda turn: turn.permission(
        "Edit", "Change", "a.py", diffs="+a"
    ),
}


@pytest.mark.parametrize("message", MISTAKES)
@pytest.mark.parametrize("form", [blocking, on_loop])
def test_a_mistake_is_an_error(form, message):
    kind = "ValueError" if message.startswith("no ") else "TypeError"
    assert message_of(form(MISTAKES[message])) == f"{kind}: {message}"


def test_a_blocking_handler_that_returns_a_coroutine_is_pointed_to_async_def():
    async def late(turn):
        pass

    coroutines = []
    message = message_of(lambda turn: coroutines.append(late(turn)) or coroutines[0])
    coroutines[0].close()
    assert message == "TypeError: the handler returned coroutine; write it as an async def"


def right(turn):
    turn.tool_start("c-1", "Bash", {"command": "ls"})
    turn.tool_update("c-1", "README.md", data=[1])
    turn.tool_end("c-1", "1 file", duration_ms=12)
    turn.tool_end("c-1")  # a second end is left out
    turn.usage(input_tokens=5, cost_usd=1, model=None)
    turn.plan([{"content": "read", "status": "pending"}])
    turn.emit("custom", name="acme.note", data={"any": "thing"})


def test_what_the_protocol_has_is_sent():
    with Host(right) as host:
        result = host.open().send("x")
    kinds = ["tool.start", "tool.update", "tool.end", "usage", "plan", "custom", "turn.complete"]
    assert (result.status, [message["type"] for message in result.messages]) == ("completed", kinds)
