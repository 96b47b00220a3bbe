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
    fails: list[str] = field(default_factory=list)  # the cases that it fails, and no others
    transport: str = "http"
    in_process: bool = True  # False: its memory is measured, so it is a process of its own

    def behaviour(self) -> Behaviour:
        return Behaviour(**self.changes)


def _permanent_but(*statuses: int) -> Any:
    return lambda status: 400 <= status < 500 and status not in (408, 425, 429, *statuses)


def _permanent_and(*statuses: int) -> Any:
    return lambda status: status in statuses or (400 <= status < 500 and status not in (408, 425, 429))


MUTANTS = [
    Mutant("never reconnects", {"reconnects": False}),
    Mutant("never reconnects, socket", {"reconnects": False}, transport="socket"),
    Mutant("never reconnects, websocket", {"reconnects": False}, transport="websocket"),
    Mutant("never reconnects, command", {"reconnects": False}, transport="command"),
    Mutant("repeats an input under another key", {"keeps_key": False}),
    Mutant("sends no key", {"sends_key": False}),
    Mutant("does not repeat a lost request", {"repeats": False}),
    Mutant("retries permanent failures of streams", {"raises_at_once": False}),
    Mutant("retries 401", {"permanent": _permanent_but(401)}),
    Mutant("retries 404", {"permanent": _permanent_but(404)}),
    Mutant("retries 409", {"permanent": _permanent_but(409)}),
    Mutant("retries 422", {"permanent": _permanent_but(422)}),
    Mutant("raises 429", {"permanent": _permanent_and(429)}),
    Mutant("raises 503", {"permanent": _permanent_and(502, 503)}),
    Mutant("ignores Retry-After", {"honours_retry_after": False}),
    Mutant("retries without pauses", {"grows_pauses": False}),
    Mutant("hands out repeated entries", {"skips_known": False, "resumes": True}),
    Mutant("begins at the first entry again", {"resumes": False, "skips_known": False}),
    Mutant("does not look for gaps", {"reads_gaps": False}),
    Mutant("does not report lag", {"reports_lag": False}),
    Mutant("attaches at the first entry", {"attaches_behind": False}),
    Mutant("sends no epoch", {"sends_epoch": False}),
    Mutant("joins separate messages", {"separates_messages": False}),
    Mutant("decodes pieces of characters", {"decodes_whole_lines": False}),
    Mutant("knows no CR", {"accepts_carriage_return": False}),
    Mutant("ends lines at U+2028", {"ends_lines_only_at_lf": False}),
    Mutant("takes only the last data line", {"joins_data": False}),
    Mutant("knows no byte order mark", {"skips_bom": False}),
    Mutant("fails for unknown types", {"skips_unknown_types": False}),
    Mutant("fails for noise", {"skips_noise": False}, transport="socket"),
    Mutant("waits for silent streams", {"watches_silence": False}),
    Mutant("fails for heartbeats", {"counts_heartbeats": False}),
    Mutant("reads short lines only", {"max_line": 1024 * 1024}),
    Mutant("reads lines without a bound", {"max_line": 1 << 40}),
    Mutant("reads bodies without a bound", {"max_body": 1 << 40}),
    Mutant("reads heads without a bound", {"max_head": 1 << 30}),
    Mutant("unpacks without a bound", {"accepts_gzip": True, "bounds_gzip": False, "max_body": 1 << 31}, in_process=False),
    Mutant("follows redirects", {"follows_redirects": True}),
    Mutant("token in the URL", {"token_in_url": True}),
    Mutant("token in errors", {"token_in_errors": True}),
    Mutant("token in the URL, websocket", {"token_in_url": True}, transport="websocket"),
    Mutant("callbacks do not end", {"ends_callbacks": False}),
    Mutant("callbacks do not end, socket", {"ends_callbacks": False}, transport="socket"),
    Mutant("does not name who decided", {"names_decider": False}),
    Mutant("keeps refused answers to itself", {"reports_refused_answers": False}),
    Mutant("repeats refused answers", {"repeats_refused_answers": True}),
    Mutant("begins callbacks again after a cut", {"asks_again": True}, transport="socket"),
    Mutant("begins callbacks of decided requests", {"asks_decided": True}),
    Mutant("answers by itself", {"decides_by_itself": True}),
    Mutant("always approves", {"approves_always": True}),
    Mutant("answers what is left to others", {"leaves": False}),
    Mutant("asks for closed sessions", {"follows_closed": True}),
    Mutant("does not check files", {"checks_files": False}),
    Mutant("takes short bodies", {"checks_length": False}),
    Mutant("uses one address only", {"tries_next_address": False}),
    Mutant("stays at a dead address", {"moves_on": False}),
    Mutant("changes begin anew", {"resumes_changes": False}),
    Mutant("hides resets", {"reports_reset": False}),
    Mutant("does not withdraw", {"withdraws": False}),
    Mutant("forgets files", {"sends_files": False}),
    Mutant("reports failed turns as completed", {"reports_failed_turns": False}),
    Mutant("leaves refused turns open", {"ends_refused_turns": False}),
    Mutant("does not steer", {"steers": False}),
    Mutant("lists the first page only", {"pages": False}),
    Mutant("restarts for status 2", {"restarts_for_status_2": True}, transport="command"),
    Mutant("sends once on pipes", {"sends_again_on_pipes": False}, transport="socket"),
]
