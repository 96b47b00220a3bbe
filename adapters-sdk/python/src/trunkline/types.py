"""The messages of the protocol, made from its schemas by scripts/generate.py: do not edit.

In every member null equals absent. An enumerated member may hold values of later versions.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

# fmt: off
# ruff: noqa: E501


AgentOptionKind: TypeAlias = 'Literal["select", "boolean"]'
AgentState: TypeAlias = 'Literal["idle", "running", "failed"]'
AttachRefusal: TypeAlias = 'Literal["unknown", "gone", "forbidden", "ahead", "forked", "exists", "read_only", "unavailable", "unsupported"]'
Category: TypeAlias = 'Literal["timeout", "cancelled", "context_exhausted", "max_turns", "rate_limit", "usage_limit", "auth", "billing", "overloaded", "model_not_found", "session_not_found", "permission_denied", "tool_loop", "not_installed", "protocol", "process_exit", "host_restart", "file_refused", "oversize", "busy", "stop_unanswered", "other"]'
Channel: TypeAlias = 'str'
ClosedReason: TypeAlias = 'Literal["finished", "failed", "refused", "unknown_agent", "limit", "protocol", "shutdown"]'
CompactionTrigger: TypeAlias = 'Literal["auto", "manual"]'
Context: TypeAlias = 'Literal["kept", "lost"]'
CopiedContext: TypeAlias = 'Literal["agent", "transcript"]'
Delivered: TypeAlias = 'Literal["yes", "no", "unknown"]'
Fact: TypeAlias = 'Literal["opened", "process_ended", "resumed", "host_restarted", "moved", "forked_from", "stalled"]'
FieldKind: TypeAlias = 'Literal["text", "secret", "boolean", "number", "choice", "choices"]'
InputMode: TypeAlias = 'Literal["turn", "steer"]'
Json: TypeAlias = 'Any'
Liveness: TypeAlias = 'Literal["down", "starting", "alive", "answering", "progressing", "suspected"]'
LogStream: TypeAlias = 'Literal["raw", "stderr", "host", "meta"]'
MessageId: TypeAlias = 'str'
OnSlow: TypeAlias = 'Literal["wait", "skip"]'
OptionKind: TypeAlias = 'Literal["allow_once", "allow_always", "reject_once", "reject_always"]'
PlanStatus: TypeAlias = 'Literal["pending", "in_progress", "completed"]'
RequestId: TypeAlias = 'str'
Role: TypeAlias = 'Literal["control", "observe"]'
SessionActivity: TypeAlias = 'Literal["unstarted", "idle", "running", "stopping"]'
SessionState: TypeAlias = 'Literal["idle", "running", "detached", "closed"]'
Severity: TypeAlias = 'Literal["ok", "note", "warning", "error"]'
Sha256: TypeAlias = 'str'
Status: TypeAlias = 'Literal["completed", "stopped", "failed", "refused", "limit"]'
StopReason: TypeAlias = 'Literal["user", "timeout", "policy", "stopped", "shutdown"]'
SystemPromptMode: TypeAlias = 'Literal["append", "replace"]'
ToolCallId: TypeAlias = 'str'
TurnId: TypeAlias = 'str'
UsageScope: TypeAlias = 'Literal["turn", "session"]'


class Stored(TypedDict, total=False):
    """What a journal adds to a message that it holds, which makes it an entry ([journal.3])."""

    seq: int
    epoch: int
    time: str


class Output(Stored):
    """A piece of the answer: a delta ([turn.2])."""

    content: str
    session_id: str
    type: Literal["output"]
    _meta: NotRequired[dict[str, Any]]
    channel: NotRequired[Channel]
    history: NotRequired[bool]
    message_id: NotRequired[MessageId]
    parent_tool_call_id: NotRequired[ToolCallId]
    turn_id: NotRequired[str]


class TurnComplete(Stored):
    """Ends a turn: the one answer to its `user.input` ([turn.1]). Without fields it has completed."""

    session_id: str
    type: Literal["turn.complete"]
    _meta: NotRequired[dict[str, Any]]
    artifacts: NotRequired[Json]
    cause: NotRequired[str]
    clear_session: NotRequired[bool]
    delivered: NotRequired[Delivered]
    duration_ms: NotRequired[int]
    error: NotRequired[Failure]
    exit_code: NotRequired[int]
    large: NotRequired[dict[str, LargeMember]]
    model: NotRequired[str]
    native_session_id: NotRequired[str]
    num_turns: NotRequired[int]
    provider: NotRequired[str]
    result: NotRequired[Json]
    session_params: NotRequired[Json]
    signal: NotRequired[int]
    status: NotRequired[Status]
    stop_reason: NotRequired[str]
    summary: NotRequired[str]
    truncated: NotRequired[bool]
    turn_id: NotRequired[str]
    usage: NotRequired[Usage]


class FileOutput(Stored):
    """A file for the user ([file.3])."""

    file_path: str
    session_id: str
    type: Literal["file.output"]
    _meta: NotRequired[dict[str, Any]]
    file_mime_type: NotRequired[str]
    file_name: NotRequired[str]
    sha256: NotRequired[Sha256]
    size: NotRequired[int]
    turn_id: NotRequired[str]


class PermissionRequest(Stored):
    """Asks whether an action may happen ([permission.1])."""

    description: str
    request_id: RequestId
    resource: str
    session_id: str
    tool: str
    type: Literal["permission.request"]
    _meta: NotRequired[dict[str, Any]]
    diffs: NotRequired[list[Diff]]
    expires_at: NotRequired[str]
    history: NotRequired[bool]
    input: NotRequired[Json]
    message_id: NotRequired[MessageId]
    options: NotRequired[list[PermissionOption]]
    parent_tool_call_id: NotRequired[ToolCallId]
    title: NotRequired[str]
    tool_call_id: NotRequired[ToolCallId]
    truncated: NotRequired[bool]
    turn_id: NotRequired[str]


class SessionReady(Stored):
    """The adapter's first message of a session, if it uses any extension ([ext.2])."""

    session_id: str
    type: Literal["session.ready"]
    _meta: NotRequired[dict[str, Any]]
    adapter: NotRequired[AdapterInfo]
    allowed_tools: NotRequired[list[str]]
    capabilities: NotRequired[Capabilities]
    commands: NotRequired[list[Command]]
    context: NotRequired[Context]
    denied_tools: NotRequired[list[str]]
    display_id: NotRequired[str]
    extensions: NotRequired[list[str]]
    input_modes: NotRequired[list[str]]
    max_line: NotRequired[int]
    mode: NotRequired[str]
    model: NotRequired[str]
    models: NotRequired[list[Model]]
    modes: NotRequired[list[Mode]]
    native_session_id: NotRequired[str]
    options: NotRequired[list[AgentOption]]
    options_applied: NotRequired[list[str]]
    permission_mode: NotRequired[str]
    protocol: NotRequired[int]
    reasoning_effort: NotRequired[str]
    turn_id: NotRequired[str]


class SessionInfo(Stored):
    """News of a session after `session.ready` ([ext.2]), and the answer to `session.update`."""

    session_id: str
    type: Literal["session.info"]
    _meta: NotRequired[dict[str, Any]]
    adapter: NotRequired[AdapterInfo]
    allowed_tools: NotRequired[list[str]]
    capabilities: NotRequired[Capabilities]
    commands: NotRequired[list[Command]]
    context: NotRequired[Context]
    denied_tools: NotRequired[list[str]]
    display_id: NotRequired[str]
    input_modes: NotRequired[list[str]]
    mode: NotRequired[str]
    model: NotRequired[str]
    models: NotRequired[list[Model]]
    modes: NotRequired[list[Mode]]
    native_session_id: NotRequired[str]
    options: NotRequired[list[AgentOption]]
    options_applied: NotRequired[list[str]]
    permission_mode: NotRequired[str]
    reasoning_effort: NotRequired[str]
    turn_id: NotRequired[str]


class SteerResult(Stored):
    """The answer to a steer: did it reach the running turn? ([turn.10])."""

    delivered: bool
    session_id: str
    type: Literal["steer.result"]
    _meta: NotRequired[dict[str, Any]]
    message_id: NotRequired[MessageId]
    reason: NotRequired[str]
    turn_id: NotRequired[str]


class Thinking(Stored):
    """A piece of what the model thinks: a delta."""

    content: str
    session_id: str
    type: Literal["thinking"]
    _meta: NotRequired[dict[str, Any]]
    history: NotRequired[bool]
    message_id: NotRequired[MessageId]
    parent_tool_call_id: NotRequired[ToolCallId]
    turn_id: NotRequired[str]


class Message(Stored):
    """A whole message of the conversation."""

    content: str
    role: str
    session_id: str
    type: Literal["message"]
    _meta: NotRequired[dict[str, Any]]
    history: NotRequired[bool]
    large: NotRequired[dict[str, LargeMember]]
    message_id: NotRequired[MessageId]
    parent_tool_call_id: NotRequired[ToolCallId]
    truncated: NotRequired[bool]
    turn_id: NotRequired[str]


class ToolStart(Stored):
    """A tool call begins."""

    session_id: str
    tool: str
    tool_call_id: ToolCallId
    type: Literal["tool.start"]
    _meta: NotRequired[dict[str, Any]]
    history: NotRequired[bool]
    input: NotRequired[Json]
    kind: NotRequired[str]
    large: NotRequired[dict[str, LargeMember]]
    locations: NotRequired[Json]
    message_id: NotRequired[MessageId]
    parent_tool_call_id: NotRequired[ToolCallId]
    title: NotRequired[str]
    truncated: NotRequired[bool]
    turn_id: NotRequired[str]


class ToolUpdate(Stored):
    """A tool call continues."""

    session_id: str
    tool_call_id: ToolCallId
    type: Literal["tool.update"]
    _meta: NotRequired[dict[str, Any]]
    content: NotRequired[str]
    data: NotRequired[Json]
    history: NotRequired[bool]
    input: NotRequired[Json]
    large: NotRequired[dict[str, LargeMember]]
    locations: NotRequired[Json]
    message_id: NotRequired[MessageId]
    parent_tool_call_id: NotRequired[ToolCallId]
    stream: NotRequired[str]
    title: NotRequired[str]
    truncated: NotRequired[bool]
    turn_id: NotRequired[str]


class ToolEnd(Stored):
    """A tool call has ended. Each start has one end."""

    session_id: str
    tool_call_id: ToolCallId
    type: Literal["tool.end"]
    _meta: NotRequired[dict[str, Any]]
    content: NotRequired[str]
    data: NotRequired[Json]
    diffs: NotRequired[list[Diff]]
    duration_ms: NotRequired[int]
    history: NotRequired[bool]
    is_error: NotRequired[bool]
    large: NotRequired[dict[str, LargeMember]]
    message_id: NotRequired[MessageId]
    parent_tool_call_id: NotRequired[ToolCallId]
    truncated: NotRequired[bool]
    turn_id: NotRequired[str]


class Plan(Stored):
    """The plan, whole each time."""

    entries: list[PlanEntry]
    session_id: str
    type: Literal["plan"]
    _meta: NotRequired[dict[str, Any]]
    history: NotRequired[bool]
    message_id: NotRequired[MessageId]
    parent_tool_call_id: NotRequired[ToolCallId]
    turn_id: NotRequired[str]


class Progress(Stored):
    """A line on how the work goes."""

    message: str
    session_id: str
    type: Literal["progress"]
    _meta: NotRequired[dict[str, Any]]
    history: NotRequired[bool]
    message_id: NotRequired[MessageId]
    parent_tool_call_id: NotRequired[ToolCallId]
    turn_id: NotRequired[str]


class Log(Stored):
    """A line for a log."""

    content: str
    session_id: str
    type: Literal["log"]
    _meta: NotRequired[dict[str, Any]]
    history: NotRequired[bool]
    large: NotRequired[dict[str, LargeMember]]
    message_id: NotRequired[MessageId]
    parent_tool_call_id: NotRequired[ToolCallId]
    stream: NotRequired[LogStream]
    truncated: NotRequired[bool]
    turn_id: NotRequired[str]


class Error(Stored):
    """Something went wrong. It ends nothing by itself."""

    message: str
    session_id: str
    type: Literal["error"]
    _meta: NotRequired[dict[str, Any]]
    category: NotRequired[Category]
    fatal: NotRequired[bool]
    history: NotRequired[bool]
    message_id: NotRequired[MessageId]
    parent_tool_call_id: NotRequired[ToolCallId]
    turn_id: NotRequired[str]


class Custom(Stored):
    """Any other event of the agent."""

    name: str
    session_id: str
    type: Literal["custom"]
    _meta: NotRequired[dict[str, Any]]
    data: NotRequired[Json]
    history: NotRequired[bool]
    large: NotRequired[dict[str, LargeMember]]
    message_id: NotRequired[MessageId]
    parent_tool_call_id: NotRequired[ToolCallId]
    truncated: NotRequired[bool]
    turn_id: NotRequired[str]


class Usage(Stored):
    """Tokens and cost of a turn or of a session."""

    session_id: str
    type: Literal["usage"]
    _meta: NotRequired[dict[str, Any]]
    cache_read_tokens: NotRequired[int]
    cache_write_tokens: NotRequired[int]
    cost_usd: NotRequired[float]
    estimated: NotRequired[bool]
    input_tokens: NotRequired[int]
    model: NotRequired[str]
    models: NotRequired[dict[str, ModelUsage]]
    output_tokens: NotRequired[int]
    provider: NotRequired[str]
    reasoning_tokens: NotRequired[int]
    scope: NotRequired[UsageScope]
    total_tokens: NotRequired[int]
    turn_id: NotRequired[str]


class ContextUsage(Stored):
    """The use of the model's context."""

    session_id: str
    type: Literal["context.usage"]
    _meta: NotRequired[dict[str, Any]]
    total_tokens: NotRequired[int]
    turn_id: NotRequired[str]
    used_tokens: NotRequired[int]


class Compaction(Stored):
    """The agent shortened its context."""

    session_id: str
    type: Literal["compaction"]
    _meta: NotRequired[dict[str, Any]]
    id: NotRequired[str]
    pre_tokens: NotRequired[int]
    summary: NotRequired[str]
    total_tokens: NotRequired[int]
    trigger: NotRequired[CompactionTrigger]
    turn_id: NotRequired[str]


class RateLimit(Stored):
    """The use of a provider's limit."""

    session_id: str
    type: Literal["rate_limit"]
    _meta: NotRequired[dict[str, Any]]
    resets_at: NotRequired[str]
    status: NotRequired[str]
    turn_id: NotRequired[str]
    utilization: NotRequired[float]
    window: NotRequired[str]


class SessionsListResult(Stored):
    """The answer to `sessions.list`."""

    request_id: RequestId
    session_id: Literal[""]
    type: Literal["sessions.list.result"]
    _meta: NotRequired[dict[str, Any]]
    entries: NotRequired[list[SessionEntry]]
    error: NotRequired[str]
    missing: NotRequired[list[str]]
    next: NotRequired[str]
    sessions: NotRequired[list[ListedSession]]
    turn_id: NotRequired[str]


class InputRequest(Stored):
    """Asks the user (`questions`)."""

    prompt: str
    request_id: RequestId
    session_id: str
    type: Literal["input.request"]
    _meta: NotRequired[dict[str, Any]]
    expires_at: NotRequired[str]
    fields: NotRequired[list[QuestionField]]
    turn_id: NotRequired[str]


class Working(Stored):
    """Alive; quiet work continues (`control`)."""

    session_id: str
    type: Literal["working"]
    _meta: NotRequired[dict[str, Any]]
    turn_id: NotRequired[str]


class Pong(Stored):
    """The answer to `ping` (`control`)."""

    session_id: Literal[""]
    type: Literal["pong"]
    _meta: NotRequired[dict[str, Any]]
    nonce: NotRequired[Json]
    turn_id: NotRequired[str]


class SessionClosed(Stored):
    """The adapter ends the session; its last message of the id ([session.8])."""

    session_id: str
    type: Literal["session.closed"]
    _meta: NotRequired[dict[str, Any]]
    cause: NotRequired[str]
    error: NotRequired[Failure]
    reason: NotRequired[ClosedReason]
    turn_id: NotRequired[str]


class PermissionCancel(Stored):
    """Withdraws a permission request or a question (`control`)."""

    request_id: RequestId
    session_id: str
    type: Literal["permission.cancel"]
    _meta: NotRequired[dict[str, Any]]
    reason: NotRequired[StopReason]
    turn_id: NotRequired[str]


class AgentsListResult(Stored):
    """The answer to `agents.list` ([relay.4])."""

    agents: list[AgentEntry]
    request_id: RequestId
    session_id: Literal[""]
    type: Literal["agents.list.result"]
    _meta: NotRequired[dict[str, Any]]
    sessions: NotRequired[list[OpenSession]]
    turn_id: NotRequired[str]


class SessionStart(TypedDict):
    """Opens a session; the first message of its id ([session.1]). Everything in it is an extension."""

    session_id: str
    type: Literal["session.start"]
    _meta: NotRequired[dict[str, Any]]
    add_dirs: NotRequired[list[str]]
    agent_id: NotRequired[str]
    allowed_domains: NotRequired[list[str]]
    allowed_tools: NotRequired[list[str]]
    cwd: NotRequired[str]
    denied_tools: NotRequired[list[str]]
    env: NotRequired[dict[str, str]]
    exchange_dir: NotRequired[str]
    extensions: NotRequired[list[str]]
    extra_args: NotRequired[list[str]]
    inactivity_timeout_ms: NotRequired[int]
    iteration: NotRequired[int]
    max_cost_usd: NotRequired[float]
    max_line: NotRequired[int]
    max_tokens: NotRequired[int]
    max_turns: NotRequired[int]
    mcp_servers: NotRequired[Json]
    mode: NotRequired[str]
    model: NotRequired[str]
    output_schema: NotRequired[Json]
    permission_mode: NotRequired[str]
    protocol: NotRequired[int]
    reasoning_effort: NotRequired[str]
    resume: NotRequired[Resume]
    role: NotRequired[str]
    run_id: NotRequired[str]
    skills: NotRequired[Json]
    system_prompt: NotRequired[str]
    system_prompt_mode: NotRequired[SystemPromptMode]
    task_id: NotRequired[str]
    temperature: NotRequired[float]
    turn_id: NotRequired[str]
    turn_timeout_ms: NotRequired[int]
    user_id: NotRequired[str]
    variables: NotRequired[dict[str, str]]


class UserInput(TypedDict):
    """The user's input: begins a turn, or adds to the running one ([turn.1], [turn.10])."""

    session_id: str
    type: Literal["user.input"]
    _meta: NotRequired[dict[str, Any]]
    content: NotRequired[str]
    large: NotRequired[dict[str, LargeMember]]
    limits: NotRequired[InputLimits]
    message_id: NotRequired[MessageId]
    mode: NotRequired[InputMode]
    turn_id: NotRequired[str]


class FileInput(TypedDict):
    """Announces a file to the adapter ([file.2])."""

    file_path: str
    session_id: str
    type: Literal["file.input"]
    _meta: NotRequired[dict[str, Any]]
    file_mime_type: NotRequired[str]
    file_name: NotRequired[str]
    sha256: NotRequired[Sha256]
    size: NotRequired[int]
    turn_id: NotRequired[str]


class PermissionResponse(TypedDict):
    """Answers a `permission.request` ([permission.2])."""

    request_id: RequestId
    session_id: str
    type: Literal["permission.response"]
    _meta: NotRequired[dict[str, Any]]
    always_allow: NotRequired[bool]
    approved: NotRequired[bool]
    end_turn: NotRequired[bool]
    message: NotRequired[str]
    option_id: NotRequired[str]
    reason: NotRequired[StopReason]
    turn_id: NotRequired[str]
    updated_input: NotRequired[Json]


class Stop(TypedDict):
    """Ends the running turn, or removes the queued one of this `turn_id` ([turn.4], [turn.9])."""

    session_id: str
    type: Literal["stop"]
    _meta: NotRequired[dict[str, Any]]
    reason: NotRequired[StopReason]
    turn_id: NotRequired[str]


class SessionClose(TypedDict):
    """Ends the session; the last message of its id ([session.4])."""

    session_id: str
    type: Literal["session.close"]
    _meta: NotRequired[dict[str, Any]]
    turn_id: NotRequired[str]


class SessionUpdate(TypedDict):
    """Changes options of a live session; answered by one `session.info` (`options`)."""

    session_id: str
    type: Literal["session.update"]
    _meta: NotRequired[dict[str, Any]]
    allowed_tools: NotRequired[list[str]]
    denied_tools: NotRequired[list[str]]
    mode: NotRequired[str]
    model: NotRequired[str]
    options: NotRequired[dict[str, Json]]
    permission_mode: NotRequired[str]
    reasoning_effort: NotRequired[str]
    turn_id: NotRequired[str]


class InputResponse(TypedDict):
    """Answers an `input.request` (`questions`)."""

    request_id: RequestId
    session_id: str
    type: Literal["input.response"]
    _meta: NotRequired[dict[str, Any]]
    cancelled: NotRequired[bool]
    turn_id: NotRequired[str]
    values: NotRequired[dict[str, Json]]


class FlowPause(TypedDict):
    """Holds back every message of the session ([flow.1])."""

    session_id: str
    type: Literal["flow.pause"]
    _meta: NotRequired[dict[str, Any]]
    turn_id: NotRequired[str]


class FlowResume(TypedDict):
    """Lets them go in order ([flow.1])."""

    session_id: str
    type: Literal["flow.resume"]
    _meta: NotRequired[dict[str, Any]]
    turn_id: NotRequired[str]


class Ping(TypedDict):
    """Asks for a sign of life; answered by `pong` (`control`)."""

    session_id: Literal[""]
    type: Literal["ping"]
    _meta: NotRequired[dict[str, Any]]
    nonce: NotRequired[Json]
    turn_id: NotRequired[str]


class SessionsList(TypedDict):
    """Requests the sessions that can be resumed (`resume`); from a relay, the sessions of its journal
    ([journal.12]) or an agent's own ([relay.10])."""

    request_id: RequestId
    session_id: Literal[""]
    type: Literal["sessions.list"]
    _meta: NotRequired[dict[str, Any]]
    agent_id: NotRequired[str]
    archived: NotRequired[bool]
    cursor: NotRequired[str]
    cwd: NotRequired[str]
    extensions: NotRequired[list[str]]
    id: NotRequired[str]
    limit: NotRequired[int]
    state: NotRequired[SessionState]
    text: NotRequired[str]
    turn_id: NotRequired[str]


class AgentsList(TypedDict):
    """Asks a relay for its agents ([relay.4])."""

    request_id: RequestId
    session_id: Literal[""]
    type: Literal["agents.list"]
    _meta: NotRequired[dict[str, Any]]
    health: NotRequired[bool]
    sessions: NotRequired[int]
    turn_id: NotRequired[str]


class SessionAttach(TypedDict):
    """Opens a session of the journal on this pipe: the entries that there are come again, then new ones
    ([journal.5])."""

    after: int
    session_id: str
    type: Literal["session.attach"]
    _meta: NotRequired[dict[str, Any]]
    env: NotRequired[dict[str, str]]
    epoch: NotRequired[int]
    extensions: NotRequired[list[str]]
    mcp_servers: NotRequired[Json]
    on_slow: NotRequired[OnSlow]
    protocol: NotRequired[int]
    role: NotRequired[Role]
    turn_id: NotRequired[str]


class SessionDetach(TypedDict):
    """Leaves the session on this pipe; the session continues ([journal.6])."""

    session_id: str
    type: Literal["session.detach"]
    _meta: NotRequired[dict[str, Any]]
    release: NotRequired[bool]
    turn_id: NotRequired[str]


SessionHistory = TypedDict("SessionHistory", {
    "_meta": NotRequired['dict[str, Any]'],
    "from": NotRequired['int'],
    "request_id": "RequestId",
    "session_id": "str",
    "to": NotRequired['int'],
    "turn_id": NotRequired['str'],
    "type": "Literal[\"session.history\"]",
})


class SessionEdit(TypedDict):
    """Changes the title of a session, or archives it ([journal.13]). The session need not be attached."""

    request_id: RequestId
    session_id: str
    type: Literal["session.edit"]
    _meta: NotRequired[dict[str, Any]]
    archived: NotRequired[bool]
    title: NotRequired[str]
    turn_id: NotRequired[str]


class SessionFork(TypedDict):
    """Opens a session of the journal as a copy of another, and attaches to it ([journal.14]). The message's own
    id is the id of the new session."""

    session_id: str
    source: str
    type: Literal["session.fork"]
    _meta: NotRequired[dict[str, Any]]
    after: NotRequired[int]
    env: NotRequired[dict[str, str]]
    extensions: NotRequired[list[str]]
    mcp_servers: NotRequired[Json]
    protocol: NotRequired[int]
    seq: NotRequired[int]
    turn_id: NotRequired[str]


class SessionAttached(TypedDict):
    """The answer to `session.attach` or `session.fork`; the entries follow."""

    agent_id: str
    epoch: int
    first_seq: int
    last_seq: int
    session_id: str
    type: Literal["session.attached"]
    _meta: NotRequired[dict[str, Any]]
    archived: NotRequired[bool]
    copied: NotRequired[CopiedContext]
    cwd: NotRequired[str]
    listener: NotRequired[str]
    queued: NotRequired[list[TurnId]]
    requests: NotRequired[list[RequestId]]
    role: NotRequired[Role]
    state: NotRequired[SessionState]
    title: NotRequired[str]
    turn_id: NotRequired[TurnId]


class SessionRefused(Stored):
    """The session was not attached, opened or forked."""

    session_id: str
    type: Literal["session.refused"]
    _meta: NotRequired[dict[str, Any]]
    last_seq: NotRequired[int]
    message: NotRequired[str]
    reason: NotRequired[AttachRefusal]
    turn_id: NotRequired[str]


class InputResult(TypedDict):
    """The answer to an input of a hub with `journal`: only to this hub, and not an entry."""

    seq: int
    session_id: str
    type: Literal["input.result"]
    _meta: NotRequired[dict[str, Any]]
    duplicate: NotRequired[bool]
    message_id: NotRequired[MessageId]
    turn_id: NotRequired[str]


class SessionHistoryResult(Stored):
    """The answer to `session.history`: at most 1 MiB, or one entry."""

    request_id: RequestId
    session_id: str
    type: Literal["session.history.result"]
    _meta: NotRequired[dict[str, Any]]
    entries: NotRequired[list[Json]]
    error: NotRequired[str]
    lost: NotRequired[list[LostEntries]]
    next: NotRequired[int]
    turn_id: NotRequired[str]


class SessionEditResult(Stored):
    """The answer to `session.edit`: only to this hub, and not an entry."""

    request_id: RequestId
    session_id: str
    type: Literal["session.edit.result"]
    _meta: NotRequired[dict[str, Any]]
    error: NotRequired[str]
    turn_id: NotRequired[str]


Lag = TypedDict("Lag", {
    "_meta": NotRequired['dict[str, Any]'],
    "from": "int",
    "session_id": "str",
    "to": "int",
    "turn_id": NotRequired['str'],
    "type": "Literal[\"lag\"]",
})


class HostFact(Stored):
    """Entry: an event of the session that no adapter reports."""

    session_id: str
    type: Literal["host.fact"]
    _meta: NotRequired[dict[str, Any]]
    context: NotRequired[Context]
    deadline_ms: NotRequired[int]
    exit_code: NotRequired[int]
    fact: NotRequired[Fact]
    message: NotRequired[str]
    signal: NotRequired[int]
    silent_ms: NotRequired[int]
    source: NotRequired[str]
    turn_id: NotRequired[str]


class SessionEdited(Stored):
    """Entry: the title was changed, or the session was archived ([journal.13])."""

    session_id: str
    type: Literal["session.edited"]
    _meta: NotRequired[dict[str, Any]]
    archived: NotRequired[bool]
    by: NotRequired[str]
    title: NotRequired[str]
    turn_id: NotRequired[str]


class TurnBegin(Stored):
    """Entry: an input was accepted, and begins a turn or waits for one."""

    content: str
    session_id: str
    type: Literal["turn.begin"]
    _meta: NotRequired[dict[str, Any]]
    by: NotRequired[str]
    files: NotRequired[list[str]]
    message_id: NotRequired[MessageId]
    queued: NotRequired[bool]
    turn_id: NotRequired[str]


class InputSteered(Stored):
    """Entry: an input was accepted for the running turn."""

    content: str
    session_id: str
    type: Literal["input.steered"]
    _meta: NotRequired[dict[str, Any]]
    by: NotRequired[str]
    files: NotRequired[list[str]]
    message_id: NotRequired[MessageId]
    turn_id: NotRequired[str]


class FileDelivered(Stored):
    """Entry: a file was handed to the agent."""

    session_id: str
    type: Literal["file.delivered"]
    _meta: NotRequired[dict[str, Any]]
    by: NotRequired[str]
    file_mime_type: NotRequired[str]
    file_name: NotRequired[str]
    sha256: NotRequired[str]
    size: NotRequired[int]
    turn_id: NotRequired[str]


class RequestDecided(Stored):
    """Entry: a permission or a question is settled."""

    request_id: RequestId
    session_id: str
    type: Literal["request.decided"]
    _meta: NotRequired[dict[str, Any]]
    always: NotRequired[str]
    approved: NotRequired[bool]
    by: NotRequired[str]
    cancelled: NotRequired[bool]
    name: NotRequired[str]
    option_id: NotRequired[str]
    reason: NotRequired[StopReason]
    turn_id: NotRequired[str]
    updated_input: NotRequired[Json]
    values: NotRequired[dict[str, Json]]


class StopRequested(Stored):
    """Entry: a stop of the running turn, or of the one named, was requested."""

    session_id: str
    type: Literal["stop.requested"]
    _meta: NotRequired[dict[str, Any]]
    by: NotRequired[str]
    reason: NotRequired[StopReason]
    turn_id: NotRequired[str]


class AdapterInfo(TypedDict):
    """The program behind the pipe."""

    name: str
    version: NotRequired[str]


class AgentEntry(TypedDict):
    """An agent behind a relay ([relay.4])."""

    id: str
    capabilities: NotRequired[Capabilities]
    description: NotRequired[str]
    health: NotRequired[HealthEntry]
    models: NotRequired[list[Model]]
    name: NotRequired[str]
    profile: NotRequired[str]
    state: NotRequired[AgentState]


class AgentOption(TypedDict):
    """An option of the agent's own, which `session.update` sets."""

    id: str
    category: NotRequired[str]
    choices: NotRequired[list[Choice]]
    description: NotRequired[str]
    kind: NotRequired[AgentOptionKind]
    label: NotRequired[str]
    value: NotRequired[Json]


class Capabilities(TypedDict):
    """The capabilities of an adapter."""

    exec_model: NotRequired[str]
    forks_sessions: NotRequired[bool]
    lists_choices: NotRequired[bool]
    lists_sessions: NotRequired[bool]
    max_sessions: NotRequired[int]
    native_session_ids: NotRequired[bool]
    resume_attach: NotRequired[bool]
    turn_completion: NotRequired[bool]
    updated_input: NotRequired[bool]


class Choice(TypedDict):
    """A choice of a field."""

    id: str
    description: NotRequired[str]
    label: NotRequired[str]


class Command(TypedDict):
    """A command that the agent understands in its input."""

    name: str
    description: NotRequired[str]
    hint: NotRequired[str]
    text: NotRequired[str]


class Diff(TypedDict):
    """A change of one file: both texts, or a patch."""

    path: str
    new_text: NotRequired[str]
    old_text: NotRequired[str]
    patch: NotRequired[str]


class Failure(TypedDict):
    """The failure."""

    category: NotRequired[Category]
    code: NotRequired[str]
    message: NotRequired[str]
    retry_at: NotRequired[str]
    stderr: NotRequired[list[str]]


class HealthEntry(TypedDict):
    """Health of an agent and its process ([relay.4]). Times are in milliseconds; rates cover the last seconds."""

    age_ms: NotRequired[int]
    bytes_in_rate: NotRequired[int]
    bytes_out_rate: NotRequired[int]
    counters: NotRequired[dict[str, int]]
    last_end: NotRequired[str]
    lines_rate: NotRequired[int]
    liveness: NotRequired[Liveness]
    pid: NotRequired[int]
    queued_bytes: NotRequired[int]
    requests: NotRequired[int]
    restart_in_ms: NotRequired[int]
    sessions: NotRequired[int]
    severity: NotRequired[Severity]
    silent_ms: NotRequired[int]
    stderr: NotRequired[str]
    turns: NotRequired[int]
    verdict: NotRequired[str]


class InputLimits(TypedDict):
    """Limits of an input's turn, which narrow the limits of its session ([ext.7])."""

    inactivity_timeout_ms: NotRequired[int]
    max_tokens: NotRequired[int]
    turn_timeout_ms: NotRequired[int]


class LargeMember(TypedDict):
    """File with the JSON of a member."""

    file_path: str
    sha256: Sha256
    size: int


class ListedSession(TypedDict):
    """A session in the answer to `sessions.list` ([journal.12]). Times are RFC 3339."""

    agent_id: str
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
    state: NotRequired[SessionState]
    title: NotRequired[str]


LostEntries = TypedDict("LostEntries", {
    "from": "int",
    "to": "int",
})


class Mode(TypedDict):
    """A mode that may be chosen."""

    id: str
    description: NotRequired[str]
    name: NotRequired[str]


class Model(TypedDict):
    """A model that may be chosen."""

    id: str
    description: NotRequired[str]
    label: NotRequired[str]


class ModelUsage(TypedDict):
    """Tokens and cost of one model."""

    cache_read_tokens: NotRequired[int]
    cache_write_tokens: NotRequired[int]
    cost_usd: NotRequired[float]
    input_tokens: NotRequired[int]
    output_tokens: NotRequired[int]
    provider: NotRequired[str]
    reasoning_tokens: NotRequired[int]
    total_tokens: NotRequired[int]


class OpenSession(TypedDict):
    """Activity and use of an open session ([relay.4]). Times are in milliseconds."""

    agent_id: str
    id: str
    age_ms: NotRequired[int]
    bytes_in: NotRequired[int]
    bytes_out: NotRequired[int]
    queued_inputs: NotRequired[int]
    requests: NotRequired[int]
    silent_ms: NotRequired[int]
    state: NotRequired[SessionActivity]
    turn_ms: NotRequired[int]
    unread_bytes: NotRequired[int]


class PermissionOption(TypedDict):
    """A way to answer a permission request."""

    id: str
    kind: NotRequired[OptionKind]
    label: NotRequired[str]


class PlanEntry(TypedDict):
    """An entry of a plan."""

    content: str
    priority: NotRequired[str]
    status: NotRequired[PlanStatus]


class QuestionField(TypedDict):
    """A question's field."""

    id: str
    choices: NotRequired[list[Choice]]
    default: NotRequired[Json]
    kind: NotRequired[FieldKind]
    label: NotRequired[str]
    required: NotRequired[bool]


class Resume(TypedDict):
    """The conversation that a session resumes (`resume`)."""

    fork: NotRequired[bool]
    history: NotRequired[bool]
    native_session_id: NotRequired[str]
    params: NotRequired[Json]


class SessionEntry(TypedDict):
    """A session that can be resumed."""

    native_session_id: str
    agent_id: NotRequired[str]
    created_at: NotRequired[str]
    cwd: NotRequired[str]
    message_count: NotRequired[int]
    session_id: NotRequired[str]
    title: NotRequired[str]
    updated_at: NotRequired[str]


AdapterMessage = Output | TurnComplete | FileOutput | PermissionRequest | SessionReady | SessionInfo | SteerResult | Thinking | Message | ToolStart | ToolUpdate | ToolEnd | Plan | Progress | Log | Error | Custom | Usage | ContextUsage | Compaction | RateLimit | SessionsListResult | InputRequest | Working | Pong | SessionClosed | PermissionCancel | AgentsListResult
HostMessage = SessionStart | UserInput | FileInput | PermissionResponse | Stop | SessionClose | SessionUpdate | InputResponse | FlowPause | FlowResume | Ping | SessionsList | AgentsList
HubMessage = SessionAttach | SessionDetach | SessionHistory | SessionEdit | SessionFork
RelayMessage = SessionAttached | SessionRefused | InputResult | SessionHistoryResult | SessionEditResult | Lag | HostFact | SessionEdited | TurnBegin | InputSteered | FileDelivered | RequestDecided | StopRequested


FIELDS: dict[str, dict[str, str]] = {
    "agents.list": {"_meta": "object", "health": "boolean", "request_id": "string", "session_id": "string", "sessions": "integer", "turn_id": "string", "type": "string"},
    "agents.list.result": {"_meta": "object", "agents": "array", "request_id": "string", "session_id": "string", "sessions": "array", "turn_id": "string", "type": "string"},
    "compaction": {"_meta": "object", "id": "string", "pre_tokens": "integer", "session_id": "string", "summary": "string", "total_tokens": "integer", "trigger": "string", "turn_id": "string", "type": "string"},
    "context.usage": {"_meta": "object", "session_id": "string", "total_tokens": "integer", "turn_id": "string", "type": "string", "used_tokens": "integer"},
    "custom": {"_meta": "object", "data": "any", "history": "boolean", "large": "object", "message_id": "string", "name": "string", "parent_tool_call_id": "string", "session_id": "string", "truncated": "boolean", "turn_id": "string", "type": "string"},
    "error": {"_meta": "object", "category": "string", "fatal": "boolean", "history": "boolean", "message": "string", "message_id": "string", "parent_tool_call_id": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "file.delivered": {"_meta": "object", "by": "string", "file_mime_type": "string", "file_name": "string", "session_id": "string", "sha256": "string", "size": "integer", "turn_id": "string", "type": "string"},
    "file.input": {"_meta": "object", "file_mime_type": "string", "file_name": "string", "file_path": "string", "session_id": "string", "sha256": "string", "size": "integer", "turn_id": "string", "type": "string"},
    "file.output": {"_meta": "object", "file_mime_type": "string", "file_name": "string", "file_path": "string", "session_id": "string", "sha256": "string", "size": "integer", "turn_id": "string", "type": "string"},
    "flow.pause": {"_meta": "object", "session_id": "string", "turn_id": "string", "type": "string"},
    "flow.resume": {"_meta": "object", "session_id": "string", "turn_id": "string", "type": "string"},
    "host.fact": {"_meta": "object", "context": "string", "deadline_ms": "integer", "exit_code": "integer", "fact": "string", "message": "string", "session_id": "string", "signal": "integer", "silent_ms": "integer", "source": "string", "turn_id": "string", "type": "string"},
    "input.request": {"_meta": "object", "expires_at": "string", "fields": "array", "prompt": "string", "request_id": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "input.response": {"_meta": "object", "cancelled": "boolean", "request_id": "string", "session_id": "string", "turn_id": "string", "type": "string", "values": "object"},
    "input.result": {"_meta": "object", "duplicate": "boolean", "message_id": "string", "seq": "integer", "session_id": "string", "turn_id": "string", "type": "string"},
    "input.steered": {"_meta": "object", "by": "string", "content": "string", "files": "array", "message_id": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "lag": {"_meta": "object", "from": "integer", "session_id": "string", "to": "integer", "turn_id": "string", "type": "string"},
    "log": {"_meta": "object", "content": "string", "history": "boolean", "large": "object", "message_id": "string", "parent_tool_call_id": "string", "session_id": "string", "stream": "string", "truncated": "boolean", "turn_id": "string", "type": "string"},
    "message": {"_meta": "object", "content": "string", "history": "boolean", "large": "object", "message_id": "string", "parent_tool_call_id": "string", "role": "string", "session_id": "string", "truncated": "boolean", "turn_id": "string", "type": "string"},
    "output": {"_meta": "object", "channel": "string", "content": "string", "history": "boolean", "message_id": "string", "parent_tool_call_id": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "permission.cancel": {"_meta": "object", "reason": "string", "request_id": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "permission.request": {"_meta": "object", "description": "string", "diffs": "array", "expires_at": "string", "history": "boolean", "input": "any", "message_id": "string", "options": "array", "parent_tool_call_id": "string", "request_id": "string", "resource": "string", "session_id": "string", "title": "string", "tool": "string", "tool_call_id": "string", "truncated": "boolean", "turn_id": "string", "type": "string"},
    "permission.response": {"_meta": "object", "always_allow": "boolean", "approved": "boolean", "end_turn": "boolean", "message": "string", "option_id": "string", "reason": "string", "request_id": "string", "session_id": "string", "turn_id": "string", "type": "string", "updated_input": "any"},
    "ping": {"_meta": "object", "nonce": "any", "session_id": "string", "turn_id": "string", "type": "string"},
    "plan": {"_meta": "object", "entries": "array", "history": "boolean", "message_id": "string", "parent_tool_call_id": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "pong": {"_meta": "object", "nonce": "any", "session_id": "string", "turn_id": "string", "type": "string"},
    "progress": {"_meta": "object", "history": "boolean", "message": "string", "message_id": "string", "parent_tool_call_id": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "rate_limit": {"_meta": "object", "resets_at": "string", "session_id": "string", "status": "string", "turn_id": "string", "type": "string", "utilization": "number", "window": "string"},
    "request.decided": {"_meta": "object", "always": "string", "approved": "boolean", "by": "string", "cancelled": "boolean", "name": "string", "option_id": "string", "reason": "string", "request_id": "string", "session_id": "string", "turn_id": "string", "type": "string", "updated_input": "any", "values": "object"},
    "session.attach": {"_meta": "object", "after": "integer", "env": "object", "epoch": "integer", "extensions": "array", "mcp_servers": "any", "on_slow": "string", "protocol": "integer", "role": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "session.attached": {"_meta": "object", "agent_id": "string", "archived": "boolean", "copied": "string", "cwd": "string", "epoch": "integer", "first_seq": "integer", "last_seq": "integer", "listener": "string", "queued": "array", "requests": "array", "role": "string", "session_id": "string", "state": "string", "title": "string", "turn_id": "string", "type": "string"},
    "session.close": {"_meta": "object", "session_id": "string", "turn_id": "string", "type": "string"},
    "session.closed": {"_meta": "object", "cause": "string", "error": "object", "reason": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "session.detach": {"_meta": "object", "release": "boolean", "session_id": "string", "turn_id": "string", "type": "string"},
    "session.edit": {"_meta": "object", "archived": "boolean", "request_id": "string", "session_id": "string", "title": "string", "turn_id": "string", "type": "string"},
    "session.edit.result": {"_meta": "object", "error": "string", "request_id": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "session.edited": {"_meta": "object", "archived": "boolean", "by": "string", "session_id": "string", "title": "string", "turn_id": "string", "type": "string"},
    "session.fork": {"_meta": "object", "after": "integer", "env": "object", "extensions": "array", "mcp_servers": "any", "protocol": "integer", "seq": "integer", "session_id": "string", "source": "string", "turn_id": "string", "type": "string"},
    "session.history": {"_meta": "object", "from": "integer", "request_id": "string", "session_id": "string", "to": "integer", "turn_id": "string", "type": "string"},
    "session.history.result": {"_meta": "object", "entries": "array", "error": "string", "lost": "array", "next": "integer", "request_id": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "session.info": {"_meta": "object", "adapter": "object", "allowed_tools": "array", "capabilities": "object", "commands": "array", "context": "string", "denied_tools": "array", "display_id": "string", "input_modes": "array", "mode": "string", "model": "string", "models": "array", "modes": "array", "native_session_id": "string", "options": "array", "options_applied": "array", "permission_mode": "string", "reasoning_effort": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "session.ready": {"_meta": "object", "adapter": "object", "allowed_tools": "array", "capabilities": "object", "commands": "array", "context": "string", "denied_tools": "array", "display_id": "string", "extensions": "array", "input_modes": "array", "max_line": "integer", "mode": "string", "model": "string", "models": "array", "modes": "array", "native_session_id": "string", "options": "array", "options_applied": "array", "permission_mode": "string", "protocol": "integer", "reasoning_effort": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "session.refused": {"_meta": "object", "last_seq": "integer", "message": "string", "reason": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "session.start": {"_meta": "object", "add_dirs": "array", "agent_id": "string", "allowed_domains": "array", "allowed_tools": "array", "cwd": "string", "denied_tools": "array", "env": "object", "exchange_dir": "string", "extensions": "array", "extra_args": "array", "inactivity_timeout_ms": "integer", "iteration": "integer", "max_cost_usd": "number", "max_line": "integer", "max_tokens": "integer", "max_turns": "integer", "mcp_servers": "any", "mode": "string", "model": "string", "output_schema": "any", "permission_mode": "string", "protocol": "integer", "reasoning_effort": "string", "resume": "object", "role": "string", "run_id": "string", "session_id": "string", "skills": "any", "system_prompt": "string", "system_prompt_mode": "string", "task_id": "string", "temperature": "number", "turn_id": "string", "turn_timeout_ms": "integer", "type": "string", "user_id": "string", "variables": "object"},
    "session.update": {"_meta": "object", "allowed_tools": "array", "denied_tools": "array", "mode": "string", "model": "string", "options": "object", "permission_mode": "string", "reasoning_effort": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "sessions.list": {"_meta": "object", "agent_id": "string", "archived": "boolean", "cursor": "string", "cwd": "string", "extensions": "array", "id": "string", "limit": "integer", "request_id": "string", "session_id": "string", "state": "string", "text": "string", "turn_id": "string", "type": "string"},
    "sessions.list.result": {"_meta": "object", "entries": "array", "error": "string", "missing": "array", "next": "string", "request_id": "string", "session_id": "string", "sessions": "array", "turn_id": "string", "type": "string"},
    "steer.result": {"_meta": "object", "delivered": "boolean", "message_id": "string", "reason": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "stop": {"_meta": "object", "reason": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "stop.requested": {"_meta": "object", "by": "string", "reason": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "thinking": {"_meta": "object", "content": "string", "history": "boolean", "message_id": "string", "parent_tool_call_id": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "tool.end": {"_meta": "object", "content": "string", "data": "any", "diffs": "array", "duration_ms": "integer", "history": "boolean", "is_error": "boolean", "large": "object", "message_id": "string", "parent_tool_call_id": "string", "session_id": "string", "tool_call_id": "string", "truncated": "boolean", "turn_id": "string", "type": "string"},
    "tool.start": {"_meta": "object", "history": "boolean", "input": "any", "kind": "string", "large": "object", "locations": "any", "message_id": "string", "parent_tool_call_id": "string", "session_id": "string", "title": "string", "tool": "string", "tool_call_id": "string", "truncated": "boolean", "turn_id": "string", "type": "string"},
    "tool.update": {"_meta": "object", "content": "string", "data": "any", "history": "boolean", "input": "any", "large": "object", "locations": "any", "message_id": "string", "parent_tool_call_id": "string", "session_id": "string", "stream": "string", "title": "string", "tool_call_id": "string", "truncated": "boolean", "turn_id": "string", "type": "string"},
    "turn.begin": {"_meta": "object", "by": "string", "content": "string", "files": "array", "message_id": "string", "queued": "boolean", "session_id": "string", "turn_id": "string", "type": "string"},
    "turn.complete": {"_meta": "object", "artifacts": "any", "cause": "string", "clear_session": "boolean", "delivered": "string", "duration_ms": "integer", "error": "object", "exit_code": "integer", "large": "object", "model": "string", "native_session_id": "string", "num_turns": "integer", "provider": "string", "result": "any", "session_id": "string", "session_params": "any", "signal": "integer", "status": "string", "stop_reason": "string", "summary": "string", "truncated": "boolean", "turn_id": "string", "type": "string", "usage": "object"},
    "usage": {"_meta": "object", "cache_read_tokens": "integer", "cache_write_tokens": "integer", "cost_usd": "number", "estimated": "boolean", "input_tokens": "integer", "model": "string", "models": "object", "output_tokens": "integer", "provider": "string", "reasoning_tokens": "integer", "scope": "string", "session_id": "string", "total_tokens": "integer", "turn_id": "string", "type": "string"},
    "user.input": {"_meta": "object", "content": "string", "large": "object", "limits": "object", "message_id": "string", "mode": "string", "session_id": "string", "turn_id": "string", "type": "string"},
    "working": {"_meta": "object", "session_id": "string", "turn_id": "string", "type": "string"},
}
"""The members of each message, and the JSON type of each; `any` if it may have several."""

REQUIRED: dict[str, frozenset[str]] = {
    "agents.list": frozenset(["request_id", "session_id", "type"]),
    "agents.list.result": frozenset(["agents", "request_id", "session_id", "type"]),
    "compaction": frozenset(["session_id", "type"]),
    "context.usage": frozenset(["session_id", "type"]),
    "custom": frozenset(["name", "session_id", "type"]),
    "error": frozenset(["message", "session_id", "type"]),
    "file.delivered": frozenset(["session_id", "type"]),
    "file.input": frozenset(["file_path", "session_id", "type"]),
    "file.output": frozenset(["file_path", "session_id", "type"]),
    "flow.pause": frozenset(["session_id", "type"]),
    "flow.resume": frozenset(["session_id", "type"]),
    "host.fact": frozenset(["session_id", "type"]),
    "input.request": frozenset(["prompt", "request_id", "session_id", "type"]),
    "input.response": frozenset(["request_id", "session_id", "type"]),
    "input.result": frozenset(["seq", "session_id", "type"]),
    "input.steered": frozenset(["content", "session_id", "type"]),
    "lag": frozenset(["from", "session_id", "to", "type"]),
    "log": frozenset(["content", "session_id", "type"]),
    "message": frozenset(["content", "role", "session_id", "type"]),
    "output": frozenset(["content", "session_id", "type"]),
    "permission.cancel": frozenset(["request_id", "session_id", "type"]),
    "permission.request": frozenset(["description", "request_id", "resource", "session_id", "tool", "type"]),
    "permission.response": frozenset(["request_id", "session_id", "type"]),
    "ping": frozenset(["session_id", "type"]),
    "plan": frozenset(["entries", "session_id", "type"]),
    "pong": frozenset(["session_id", "type"]),
    "progress": frozenset(["message", "session_id", "type"]),
    "rate_limit": frozenset(["session_id", "type"]),
    "request.decided": frozenset(["request_id", "session_id", "type"]),
    "session.attach": frozenset(["after", "session_id", "type"]),
    "session.attached": frozenset(["agent_id", "epoch", "first_seq", "last_seq", "session_id", "type"]),
    "session.close": frozenset(["session_id", "type"]),
    "session.closed": frozenset(["session_id", "type"]),
    "session.detach": frozenset(["session_id", "type"]),
    "session.edit": frozenset(["request_id", "session_id", "type"]),
    "session.edit.result": frozenset(["request_id", "session_id", "type"]),
    "session.edited": frozenset(["session_id", "type"]),
    "session.fork": frozenset(["session_id", "source", "type"]),
    "session.history": frozenset(["request_id", "session_id", "type"]),
    "session.history.result": frozenset(["request_id", "session_id", "type"]),
    "session.info": frozenset(["session_id", "type"]),
    "session.ready": frozenset(["session_id", "type"]),
    "session.refused": frozenset(["session_id", "type"]),
    "session.start": frozenset(["session_id", "type"]),
    "session.update": frozenset(["session_id", "type"]),
    "sessions.list": frozenset(["request_id", "session_id", "type"]),
    "sessions.list.result": frozenset(["request_id", "session_id", "type"]),
    "steer.result": frozenset(["delivered", "session_id", "type"]),
    "stop": frozenset(["session_id", "type"]),
    "stop.requested": frozenset(["session_id", "type"]),
    "thinking": frozenset(["content", "session_id", "type"]),
    "tool.end": frozenset(["session_id", "tool_call_id", "type"]),
    "tool.start": frozenset(["session_id", "tool", "tool_call_id", "type"]),
    "tool.update": frozenset(["session_id", "tool_call_id", "type"]),
    "turn.begin": frozenset(["content", "session_id", "type"]),
    "turn.complete": frozenset(["session_id", "type"]),
    "usage": frozenset(["session_id", "type"]),
    "user.input": frozenset(["session_id", "type"]),
    "working": frozenset(["session_id", "type"]),
}
"""The members without which a message is ignored."""
