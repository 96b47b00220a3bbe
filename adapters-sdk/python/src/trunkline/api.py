"""The answers of the daemon, made from its OpenAPI document by scripts/generate.py: do not edit.

In a member that may be absent null equals that. An enumerated member may hold values of later versions.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from .types import (
    AdapterMessage,
    AgentState as AgentState,
    Capabilities as Capabilities,
    Category as Category,
    ClosedReason as ClosedReason,
    CopiedContext as CopiedContext,
    HealthEntry as HealthEntry,
    Json as Json,
    Liveness as Liveness,
    LostEntries as LostEntries,
    Model as Model,
    RelayMessage,
    RequestId as RequestId,
    Role as Role,
    Severity as Severity,
    Status as Status,
    StopReason as StopReason,
    TurnId as TurnId,
)

# fmt: off
# ruff: noqa: E501


Entry: TypeAlias = 'AdapterMessage | RelayMessage'
Scope: TypeAlias = 'Literal["observe", "control", "admin"]'
SearchedText: TypeAlias = 'Literal["title", "input", "output"]'
SessionId: TypeAlias = 'str'
State: TypeAlias = 'Literal["idle", "running", "detached", "closed"]'
StreamedChange: TypeAlias = 'SessionChange | SnapshotChange | ResetChange'


class Agent(TypedDict):
    """An agent behind a relay ([relay.4])."""

    id: str
    capabilities: NotRequired[Capabilities]
    description: NotRequired[str]
    health: NotRequired[HealthEntry]
    models: NotRequired[list[Model]]
    name: NotRequired[str]
    profile: NotRequired[str]
    state: NotRequired[AgentState]


class Conversation(TypedDict):
    """A conversation that an agent itself keeps."""

    agent: str
    id: str
    native_session_id: str
    agent_id: NotRequired[str]
    created_at: NotRequired[str]
    cwd: NotRequired[str]
    message_count: NotRequired[int]
    session_id: NotRequired[str]
    title: NotRequired[str]
    updated_at: NotRequired[str]


class Decided(TypedDict):
    """A decided request."""

    id: RequestId
    request_id: RequestId
    always: NotRequired[str]
    approved: NotRequired[bool]
    by: NotRequired[str]
    cancelled: NotRequired[bool]
    name: NotRequired[str]
    option_id: NotRequired[str]
    reason: NotRequired[StopReason]
    rule: NotRequired[LastingRule]
    updated_input: NotRequired[Json]
    values: NotRequired[dict[str, Json]]


class EntryPage(TypedDict):
    """A page of a session's entries."""

    entries: list[Entry]
    last: int
    lost: list[LostEntries]
    next: int | None
    previous: int | None


class ForkedSession(TypedDict):
    """A session that a request has created as a copy."""

    agent: str
    copied: CopiedContext | None
    id: SessionId


class LastingRule(TypedDict):
    """A lasting rule, as it is stored and listed."""

    agent: str
    by: str
    created: int
    id: str
    pattern: str


class ListedSession(TypedDict):
    """A session in a list."""

    agent: str
    agent_id: str
    id: str
    session_id: str
    active: NotRequired[str]
    archived: NotRequired[bool]
    bytes: NotRequired[int]
    created: NotRequired[str]
    cwd: NotRequired[str]
    entries: NotRequired[int]
    host: NotRequired[str]
    open_requests: NotRequired[int]
    open_turns: NotRequired[int]
    state: NotRequired[State]
    title: NotRequired[str]


class Me(TypedDict):
    """Principal of a token."""

    agents: list[str] | None
    may_approve: bool
    name: str
    scope: Scope
    sees_all: bool
    version: str


class ResetChange(TypedDict):
    """An event of type `reset`."""

    reason: str
    type: Literal["reset"]


class SearchHit(TypedDict):
    """A text that contains the searched one."""

    agent: str
    archived: bool
    id: str
    kind: SearchedText
    seq: int | None
    snippet: str
    time: str
    title: str | None
    turn: str | None


class Session(TypedDict):
    """State of a session, as `session.attached` of the protocol."""

    agent: str
    agent_id: str
    epoch: int
    first_seq: int
    id: SessionId
    last_seq: int
    always_patterns: NotRequired[dict[str, str]]
    archived: NotRequired[bool]
    copied: NotRequired[CopiedContext]
    cwd: NotRequired[str]
    host: NotRequired[str]
    listener: NotRequired[str]
    queued: NotRequired[list[TurnId]]
    requests: NotRequired[list[RequestId]]
    role: NotRequired[Role]
    state: NotRequired[State]
    title: NotRequired[str]
    turn_id: NotRequired[TurnId]


class SessionChange(TypedDict):
    """A change of a session: ids, states and numbers, without the content of inputs and outputs. The publisher
    sets `agent` and `time`."""

    agent: str
    change: str
    seq: int
    session_id: str
    time: str
    type: Literal["session", "request", "turn"]
    approved: NotRequired[bool]
    archived: NotRequired[bool]
    by: NotRequired[str]
    cancelled: NotRequired[bool]
    category: NotRequired[Category]
    reason: NotRequired[ClosedReason]
    request: NotRequired[Literal["permission", "question"]]
    request_id: NotRequired[str]
    state: NotRequired[State]
    status: NotRequired[Status]
    title: NotRequired[str]
    turn_id: NotRequired[TurnId]


class SessionOverview(TypedDict):
    """A session in an overview."""

    agent: str
    id: str
    last_seq: int
    state: State
    archived: NotRequired[bool]
    requests: NotRequired[list[WaitingRequest]]
    title: NotRequired[str]
    turn_id: NotRequired[TurnId]


class SessionPage(TypedDict):
    """Page of the sessions of one host, or of all."""

    next: str | None
    sessions: list[ListedSession]
    missing: NotRequired[list[str]]


class SnapshotChange(TypedDict):
    """An event of type `snapshot`."""

    complete: bool
    sessions: list[SessionOverview]
    type: Literal["snapshot"]


class UsedInDay(TypedDict):
    """Usage of an agent's turns in one day."""

    agent: str
    cost_usd: float | None
    date: str
    is_estimated: bool
    tokens_in: int | None
    tokens_out: int | None
    turns: int


class WaitingRequest(TypedDict):
    """A request that waits for an answer."""

    id: str
    request: Literal["permission", "question"]
    since: NotRequired[str]
    turn_id: NotRequired[TurnId]
