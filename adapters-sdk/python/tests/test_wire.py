"""Lines: hostile ones come to no harm, long ones are cut, and none mixes with another."""

import fcntl
import json
import os
import threading

import pytest
from trunkline._fit import TooLong as NoFit
from trunkline._fit import fit
from trunkline._fold import fold
from trunkline._frames import Lines, TooLong
from trunkline._json import DEEP, encode, has_bad_id, parse, text_json
from trunkline._wire import PIECE, Wire
from trunkline.testing import Host


def echo(turn):
    turn.output(turn.text)


HOSTILE = [
    b"",
    b" \t\r",
    b"null",
    b"[]",
    b'{"type":"user.input","session_id":"s-1","content":NaN}',
    b'{"type":"user.input","session_id":"s-1","content":"half',
    b'{"type":"user.input","session_id":"s-1","content":"\xff"}',
    b'{"type":"user.input","session_id":"s-\\ud800","content":"x"}',
    b'{"type":"user.input","session_id":"s-1","content":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    b"[" * 1_000_000,
    b'{"type":["user.input"],"session_id":"s-1"}',
    b'{"type":"user.input","session_id":"s-1","content":["x"]}',
    b'{"type":"user.input","session_id":"' + b"s" * 300 + b'","content":"x"}',
    "{'type':'stop'}".encode(),
]


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_noise_is_skipped_and_the_next_line_is_read(line):
    with Host(echo) as host:
        session = host.open()
        host.write_line(line)
        assert [m["type"] for m in session.send("after").messages] == ["output", "turn.complete"]


@pytest.mark.parametrize(
    "text",
    ["\u2028\u2029\u0085\x0b\x0c", "\U0001f600" * 1000, '"\\\n\r\t\x00', "\ud83d"],
    ids=["separators", "wide", "escapes", "half"],
)
def test_texts_pass_unharmed(text):
    with Host(echo) as host:
        assert host.open().send(text).text == text.replace("\ud83d", "\ufffd")


def test_unknown_members_may_be_anything():
    deep = b"[" * 100_000 + b"]" * 100_000
    line = b'{"type":"user.input","session_id":"s-1","turn_id":"t-9","content":"x","a":%s,"b":%s,"c":-1e99999}'
    with Host(echo) as host:
        session = host.open()
        host.write_line(line % (deep, b"9" * 100_000))
        assert session.until("turn.complete")[-1]["turn_id"] == "t-9"


def test_a_line_over_the_limit_is_skipped_and_told_to_its_session():
    with Host(echo) as host:
        session = host.open()
        piece = b"x" * (1 << 20)
        import os

        for part in [b'{"type":"user.input","session_id":"s-1","content":"', *[piece] * 20, b'"}\n']:
            rest = memoryview(part)
            while rest:
                rest = rest[os.write(host._input, rest) :]
        told = session.next()
        assert (told["type"], told["category"]) == ("error", "oversize")
        assert session.send("after").text == "after"


def test_long_lines_are_skipped_in_bounded_memory():
    lines, most, told = Lines(1 << 20), 0, []
    for _ in range(1600):
        told += lines.feed(b"x" * 65536)
        most = max(most, sum(map(len, lines._parts)))
    told += lines.feed(b'\n{"type":"a"}\n')
    assert most <= (1 << 20) + 65536
    assert isinstance(told[0], TooLong) and told[0].bytes == 1600 * 65536
    assert told[1:] == [b'{"type":"a"}']


def test_lines_are_the_same_however_bytes_are_split():
    text = b'\xef\xbb\xbf{"a":"\xe2\x80\xa8"}\r\n\n{"b":1}\n{"cut"'
    whole = [line for line in Lines().feed(text)]
    lines = Lines()
    assert [line for at in range(len(text)) for line in lines.feed(text[at : at + 1])] == whole
    assert [parse(line) for line in whole] == [{"a": "\u2028"}, None, {"b": 1}]
    assert list(lines.finish()) == [b'{"cut"']


def test_json_as_the_specification_reads_it():
    assert parse(b'{"a":1,"a":2}') == {"a": 2}
    assert parse(b'{"a":%s}' % (b"[" * 300 + b"]" * 300)) == {"a": DEEP}
    assert parse(b'{"a":%s,"b":"\\ud83d"}' % (b"[" * 300 + b"]" * 300)) == {"a": DEEP, "b": "\ufffd"}
    for bad in [b'{"a":%s,}' % (b"[]" * 200), b'{"a":' + b"[]," * 200 + b"}", b"{" * 300]:
        assert parse(bad) is None
    assert json.loads(text_json("\u2028\ud800é")) == "\u2028\ufffdé"
    assert "\u2028" not in encode({"a": "\u2028"})


def test_deltas_are_cut_into_pieces_that_joined_are_the_whole():
    text = 'é"\\\u2028' * 200_000
    lines = list(fit({"type": "output", "session_id": "s", "content": text}, frozenset(), 1 << 20))
    assert len(lines) > 1 and all(len(line.encode()) <= 1 << 20 for line in lines)
    assert "".join(json.loads(line)["content"] for line in lines) == text


def test_other_messages_are_shortened_and_say_so():
    message = {"type": "tool.end", "session_id": "s", "tool_call_id": "c", "content": "é" * 900_000, "data": "x" * 900_000}
    (line,) = fit(message, frozenset({"events"}), 1 << 20)
    cut = json.loads(line)
    assert cut["truncated"] is True and len(line.encode()) <= 1 << 20 and "data" not in {*cut} or len(cut["content"]) < 900_000


@pytest.mark.parametrize(
    "member", ["native_session_id", "model", "provider", "stop_reason", "session_params", "error", "summary", "usage"]
)
def test_the_end_of_a_turn_always_fits(member):
    text = "é\n" * (1 << 20)
    value = {"error": {"category": "auth", "message": text, "code": text}, "usage": {"model": text}}.get(member, text)
    end = {"type": "turn.complete", "session_id": "\1" * 256, "turn_id": "\1" * 256, "status": "failed", member: value}
    (line,) = fit(end, frozenset({"turns", "usage", "resume"}), 1 << 20)
    cut = json.loads(line)
    assert len(line.encode()) <= 1 << 20
    assert (cut["status"], cut["turn_id"], cut["truncated"]) == ("failed", "\1" * 256, True)
    if member == "error":
        assert cut["error"]["category"] == "auth" and len(cut["error"]["message"]) > 1 << 18


def test_other_ends_fit_and_a_long_title_leaves_room_for_the_delta():
    text = "é\n" * (1 << 20)
    for message in [
        {"type": "session.closed", "reason": "failed", "error": {"category": "auth", "message": text}},
        {"type": "steer.result", "message_id": "m", "delivered": False, "reason": text},
        {"type": "session.info", "native_session_id": text, "model": text},
        {"type": "tool.end", "tool_call_id": "c", "content": text, "is_error": True},
        {"type": "tool.start", "tool_call_id": "c", "tool": text},
    ]:
        (line,) = fit({**message, "session_id": "s"}, frozenset({"events"}), 1 << 20)
        assert len(line.encode()) <= 1 << 20
    update = {"type": "tool.update", "session_id": "s", "tool_call_id": "c", "content": text, "title": text}
    lines = list(fit(update, frozenset({"events"}), 1 << 20))
    assert all(len(line.encode()) <= 1 << 20 for line in lines)
    assert "".join(json.loads(line)["content"] for line in lines) == text


def test_an_id_has_at_most_256_bytes():
    for name in ["session_id", "turn_id", "request_id", "message_id"]:
        assert not has_bad_id({name: "é" * 128}) and has_bad_id({name: "é" * 128 + "x"})


def test_what_a_person_decides_by_is_never_cut():
    message = {"type": "permission.request", "session_id": "s", "request_id": "r", "tool": "t", "description": "d"}
    with pytest.raises(NoFit):
        list(fit({**message, "resource": "x" * (1 << 21)}, frozenset({"control"}), 1 << 20))


def test_an_id_of_a_message_stays_where_it_belongs_to_what_was_agreed_on():
    result = {"type": "steer.result", "session_id": "s", "message_id": "m", "delivered": True}
    assert fold(result, frozenset({"turns"})) == [result]
    said = {"type": "output", "session_id": "s", "content": "x", "message_id": "m"}
    assert fold(said, frozenset({"turns"})) == [{"type": "output", "session_id": "s", "content": "x"}]
    assert fold(said, frozenset({"events"})) == [said]


@pytest.mark.parametrize(
    "sizes, at", [([3 * PIECE], 1), ([PIECE - 1, PIECE, 3 * PIECE], 2), ([PIECE, PIECE, 1], 1)]
)
def test_a_pong_overtakes_lines_and_not_the_rest_of_one_that_is_begun(sizes, at):
    read, write = os.pipe()
    try:
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIECE)
        lock = threading.RLock()
        wire = Wire(write, lock)
        lines = [bytes([97 + n]) * (size - 1) + b"\n" for n, size in enumerate(sizes)]
        with lock:
            for line in lines:  # the pipe takes one piece
                wire.put(1, line)
            wire.put_urgent(b"pong\n")
            got = os.read(read, PIECE) + wire._take()
        told = got.splitlines(keepends=True)
        assert told == [*lines[:at], b"pong\n", *lines[at:]]
    finally:
        os.close(read)
        os.close(write)
