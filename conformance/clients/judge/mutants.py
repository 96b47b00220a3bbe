"""Clients with one fault each, and the cases that must find it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .reference_client import Behaviour


@dataclass
class Mutant:
    """A variant of the reference client."""

    name: str
    changes: dict[str, Any]
    fails: list[str] = field(default_factory=list)  # the cases that it must fail
    also: list[str] = field(default_factory=list)  # patterns of cases that it may fail, besides; no others
    transport: str = "http"
    in_process: bool = True  # False: its memory is measured, so it is a process of its own

    def behaviour(self) -> Behaviour:
        return Behaviour(**self.changes)


def _permanent_but(*statuses: int) -> Any:
    return lambda status: 400 <= status < 500 and status not in (408, 425, 429, *statuses)


def _permanent_and(*statuses: int) -> Any:
    return lambda status: status in statuses or (400 <= status < 500 and status not in (408, 425, 429))


# A client that does not connect again fails by the way in most cases of faults.
FAULTS = ["C-RSM-*", "C-ERR-*", "C-SND-*", "C-EVT-*", "C-ALT-*", "C-PIP-*", "C-WSK-*", "C-CMD-*", "C-REQ-07", "C-LST-03", "C-LST-04"]

MUTANTS = [
    # Turns.
    Mutant("reports no ends of turns", {"reports_ends": False}, ["C-TRN-01"], ["*"]),
    Mutant("sends one input at a time", {"sends_while_running": False}, ["C-TRN-02", "C-TRN-05"]),
    Mutant("does not stop", {"stops": False}, ["C-TRN-03", "C-TRN-05", "C-SND-07"]),
    Mutant("does not steer", {"steers": False}, ["C-TRN-04", "C-SND-05"]),
    Mutant("does not withdraw", {"withdraws": False}, ["C-TRN-05"]),
    Mutant("joins separate messages", {"separates_messages": False}, ["C-TRN-06"]),
    Mutant("reports failed turns as completed", {"reports_failed_turns": False}, ["C-TRN-03", "C-TRN-05", "C-TRN-07", "C-RSM-03", "C-SND-07"]),
    # Lost connections.
    Mutant(
        "never reconnects", {"reconnects": False},
        ["C-RSM-01", "C-RSM-03", "C-RSM-08", "C-RSM-09", "C-RSM-11", "C-RSM-12", "C-RSM-14", "C-EVT-02", "C-REQ-07"], FAULTS,
    ),
    Mutant("never reconnects, socket", {"reconnects": False}, ["C-PIP-01", "C-RSM-11"], FAULTS, "socket"),
    Mutant("never reconnects, websocket", {"reconnects": False}, ["C-PIP-01", "C-WSK-03"], FAULTS, "websocket"),
    Mutant("never reconnects, command", {"reconnects": False}, ["C-PIP-01", "C-RSM-03"], FAULTS, "command"),
    Mutant("asks nothing again on a new pipe", {"repeats_questions": False}, ["C-LST-04"], transport="socket"),
    Mutant("attaches at the first entry", {"attaches_behind": False}, ["C-RSM-02"]),
    Mutant("sends no epoch", {"sends_epoch": False}, ["C-RSM-04"]),
    Mutant("retries permanent failures of streams", {"raises_at_once": False}, ["C-RSM-04", "C-RSM-05", "C-ERR-03", "C-ERR-04", "C-ERR-05", "C-EVT-04"]),
    Mutant("hands out repeated entries", {"skips_known": False}, ["C-RSM-06"]),
    Mutant("begins at the first entry again", {"resumes": False, "skips_known": False}, ["C-RSM-01", "C-RSM-06", "C-RSM-08"], FAULTS),
    Mutant("does not report lag", {"reports_lag": False}, ["C-RSM-07"]),
    Mutant("does not look for gaps", {"reads_gaps": False}, ["C-RSM-08"]),
    Mutant("ends for `unavailable`", {"returns_after_unavailable": False}, ["C-RSM-09"]),
    Mutant("follows closed sessions", {"follows_closed": True}, ["C-RSM-10"]),
    Mutant("waits for silent streams", {"watches_silence": False}, ["C-RSM-12"]),
    Mutant("fails for heartbeats", {"counts_heartbeats": False}, ["C-RSM-13"], ["C-FRM-01"]),
    # Bytes.
    Mutant("takes each piece for whole lines", {"buffers_lines": False}, ["C-FRM-01", "C-FRM-03"], ["*"]),
    Mutant("knows no CR", {"accepts_carriage_return": False}, ["C-FRM-02", "C-FRM-09"]),
    Mutant("takes the LF behind a CR for a line", {"joins_line_ends": False}, ["C-FRM-09"]),
    Mutant("decodes pieces of characters", {"decodes_whole_lines": False}, ["C-FRM-01", "C-FRM-03"]),
    Mutant("fails for unknown types", {"skips_unknown_types": False}, ["C-FRM-04"]),
    Mutant("fails for unknown fields", {"skips_other_fields": False}, ["C-FRM-05"]),
    Mutant("takes only the last data line", {"joins_data": False}, ["C-FRM-06", "C-FRM-09"]),
    Mutant("knows no byte order mark", {"skips_bom": False}, ["C-FRM-06"]),
    Mutant("ends lines at U+2028", {"ends_lines_only_at_lf": False}, ["C-FRM-07"], ["C-FRM-03", "C-FRM-08", "C-FRM-09"]),
    Mutant("reads short lines only", {"max_line": 1024 * 1024}, ["C-FRM-08"]),
    # Errors.
    Mutant("retries 401", {"permanent": _permanent_but(401)}, ["C-ERR-02", "C-ERR-03"]),
    Mutant("retries 404", {"permanent": _permanent_but(404)}, ["C-ERR-01", "C-ERR-04", "C-ERR-05"]),
    Mutant("retries 409", {"permanent": _permanent_but(409)}, ["C-ERR-01", "C-ERR-04", "C-ERR-06", "C-REQ-06", "C-REQ-10", "C-RSM-04", "C-RSM-05"]),
    Mutant("retries 410", {"permanent": _permanent_but(410)}, ["C-ERR-01", "C-ERR-04", "C-ERR-05"]),
    Mutant("retries 422", {"permanent": _permanent_but(422)}, ["C-ERR-01", "C-ERR-04", "C-ERR-06"]),
    Mutant("leaves refused turns open", {"ends_refused_turns": False}, ["C-ERR-06"]),
    Mutant("raises 429", {"permanent": _permanent_and(429)}, ["C-ERR-07"]),
    Mutant("raises 502 and 503", {"permanent": _permanent_and(502, 503)}, ["C-ERR-08", "C-ERR-09"], ["C-ERR-11"]),
    Mutant("ignores Retry-After", {"honours_retry_after": False}, ["C-ERR-07", "C-ERR-08"]),
    Mutant("raises lost connections as permanent", {"network_is_temporary": False}, ["C-ERR-10"], FAULTS + ["C-FIL-03"]),
    Mutant("retries without pauses", {"grows_pauses": False}, ["C-ERR-11"]),
    # Bounds.
    Mutant("reads bodies without a bound", {"max_body": 1 << 40}, ["C-BND-01"]),
    Mutant("reads lines without a bound", {"max_line": 1 << 40}, ["C-BND-02", "C-BND-03"]),
    Mutant("reads heads without a bound", {"max_head": 1 << 30}, ["C-BND-04", "C-BND-06"]),
    Mutant("unpacks without a bound", {"accepts_gzip": True, "bounds_gzip": False, "max_body": 1 << 31}, ["C-BND-05"], ["C-BND-01"], in_process=False),
    # Sent once.
    Mutant("repeats an input under another key", {"keeps_key": False}, ["C-SND-01", "C-SND-02", "C-SND-05", "C-ERR-07", "C-ERR-08"], ["C-SND-04", "C-SND-07"]),
    Mutant("does not repeat a lost request", {"repeats": False}, ["C-SND-02", "C-SND-06", "C-ERR-07", "C-ERR-08"], ["C-SND-05", "C-SND-07", "C-ALT-*"]),
    Mutant("has one key for all inputs", {"new_message_ids": False}, ["C-SND-03"], ["*"]),
    Mutant("opens a session without a key", {"sends_key": False}, ["C-SND-04"], ["C-SND-05", "C-SND-07"]),
    Mutant("sends once on pipes", {"sends_again_on_pipes": False}, ["C-SND-02", "C-SND-06"], transport="socket"),
    # Requests.
    Mutant("answers by itself", {"decides_by_itself": True}, ["C-REQ-01", "C-REQ-03", "C-REQ-04", "C-REQ-08", "C-SND-06"], ["C-REQ-*"]),
    Mutant("always approves", {"approves_always": True}, ["C-REQ-02"]),
    Mutant("callbacks do not end", {"ends_callbacks": False}, ["C-REQ-03", "C-REQ-04"]),
    Mutant("callbacks do not end, socket", {"ends_callbacks": False}, ["C-REQ-03", "C-REQ-04"], transport="socket"),
    Mutant("does not name who decided", {"names_decider": False}, ["C-REQ-03"]),
    Mutant("keeps refused answers to itself", {"reports_refused_answers": False}, ["C-REQ-05", "C-REQ-06"]),
    Mutant("repeats refused answers", {"repeats_refused_answers": True}, ["C-REQ-05", "C-REQ-06", "C-REQ-10"]),
    Mutant("begins callbacks again after a cut", {"asks_again": True}, ["C-REQ-07"], transport="socket"),
    Mutant("answers what is left to others", {"leaves": False}, ["C-REQ-09"], ["C-REQ-10"]),
    Mutant("begins callbacks of decided requests", {"asks_decided": True}, ["C-REQ-11"]),
    # The stream over all sessions, lists, files.
    Mutant("hides snapshots", {"reports_snapshots": False}, ["C-EVT-01", "C-EVT-02", "C-EVT-03"]),
    Mutant("changes begin anew", {"resumes_changes": False}, ["C-EVT-02", "C-EVT-03"]),
    Mutant("hides resets", {"reports_reset": False}, ["C-EVT-03"]),
    Mutant("lists the first page only", {"pages": False}, ["C-LST-01"]),
    Mutant("reads the whole history", {"passes_range": False}, ["C-LST-02", "C-LST-05"]),
    Mutant("conceals lost entries", {"names_lost": False}, ["C-LST-05"]),
    Mutant("takes cut answers for empty ones", {"checks_length": False}, ["C-LST-03"]),
    Mutant("forgets files", {"sends_files": False}, ["C-FIL-01"]),
    Mutant("reads a byte too few", {"reads_files_whole": False}, ["C-FIL-02"]),
    Mutant("does not check files", {"checks_files": False}, ["C-FIL-03"]),
    # The token, and addresses.
    Mutant("token in the URL", {"token_in_url": True}, ["C-SEC-01"]),
    Mutant("token in the URL, websocket", {"token_in_url": True}, ["C-SEC-01"], transport="websocket"),
    Mutant("token in errors", {"token_in_errors": True}, ["C-SEC-01"]),
    Mutant("follows redirects", {"follows_redirects": True}, ["C-SEC-02"]),
    Mutant("uses one address only", {"tries_next_address": False}, ["C-ALT-01", "C-ALT-02"]),
    Mutant("stays at a dead address", {"moves_on": False}, ["C-ALT-01", "C-ALT-02"]),
    # Pipes.
    Mutant("takes each piece of a pipe for whole lines", {"buffers_lines": False}, ["C-PIP-03"], ["*"], "socket"),
    Mutant("fails for noise", {"skips_noise": False}, ["C-PIP-02"], transport="socket"),
    Mutant("reads lines of a pipe without a bound", {"max_line": 1 << 40}, ["C-PIP-04"], transport="socket", in_process=False),
    Mutant("ends for `unavailable` on a pipe", {"returns_after_unavailable": False}, ["C-PIP-05"], transport="socket"),
    Mutant("repeats refused attaches", {"raises_at_once": False}, ["C-PIP-06"], transport="socket"),
    Mutant("does not look for gaps on a pipe", {"reads_gaps": False}, ["C-PIP-07"], transport="socket"),
    Mutant("leaves refused turns on a pipe open", {"ends_refused_turns": False}, ["C-PIP-08"], transport="socket"),
    Mutant("reports provisional ends, too", {"ends_once": False}, ["C-PIP-09"], transport="socket"),
    Mutant("starts a command again for status 2", {"restarts_for_status_2": True}, ["C-CMD-01", "C-CMD-02"], transport="command"),
    Mutant("takes each frame for a message", {"joins_frames": False}, ["C-WSK-01"], ["*"], "websocket"),
    Mutant("takes each message for a line", {"splits_messages": False}, ["C-WSK-02"], transport="websocket"),
    Mutant("raises 502 and 503 of a WebSocket", {"permanent": _permanent_and(502, 503)}, ["C-WSK-04"], transport="websocket"),
]  # fmt: skip
