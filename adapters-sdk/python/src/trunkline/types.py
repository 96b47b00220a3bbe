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


FIELDS: dict[str, frozenset[str]] = {
    "agents.list": frozenset(["_meta", "health", "request_id", "session_id", "sessions", "turn_id", "type"]),
    "agents.list.result": frozenset(["_meta", "agents", "request_id", "session_id", "sessions", "turn_id", "type"]),
    "compaction": frozenset(["_meta", "id", "pre_tokens", "session_id", "summary", "total_tokens", "trigger", "turn_id", "type"]),
    "context.usage": frozenset(["_meta", "session_id", "total_tokens", "turn_id", "type", "used_tokens"]),
    "custom": frozenset(["_meta", "data", "history", "large", "message_id", "name", "parent_tool_call_id", "session_id", "truncated", "turn_id", "type"]),
    "error": frozenset(["_meta", "category", "fatal", "history", "message", "message_id", "parent_tool_call_id", "session_id", "turn_id", "type"]),
    "file.delivered": frozenset(["_meta", "by", "file_mime_type", "file_name", "session_id", "sha256", "size", "turn_id", "type"]),
    "file.input": frozenset(["_meta", "file_mime_type", "file_name", "file_path", "session_id", "sha256", "size", "turn_id", "type"]),
    "file.output": frozenset(["_meta", "file_mime_type", "file_name", "file_path", "session_id", "sha256", "size", "turn_id", "type"]),
    "flow.pause": frozenset(["_meta", "session_id", "turn_id", "type"]),
    "flow.resume": frozenset(["_meta", "session_id", "turn_id", "type"]),
    "host.fact": frozenset(["_meta", "context", "deadline_ms", "exit_code", "fact", "message", "session_id", "signal", "silent_ms", "source", "turn_id", "type"]),
    "input.request": frozenset(["_meta", "expires_at", "fields", "prompt", "request_id", "session_id", "turn_id", "type"]),
    "input.response": frozenset(["_meta", "cancelled", "request_id", "session_id", "turn_id", "type", "values"]),
    "input.result": frozenset(["_meta", "duplicate", "message_id", "seq", "session_id", "turn_id", "type"]),
    "input.steered": frozenset(["_meta", "by", "content", "files", "message_id", "session_id", "turn_id", "type"]),
    "lag": frozenset(["_meta", "from", "session_id", "to", "turn_id", "type"]),
    "log": frozenset(["_meta", "content", "history", "large", "message_id", "parent_tool_call_id", "session_id", "stream", "truncated", "turn_id", "type"]),
    "message": frozenset(["_meta", "content", "history", "large", "message_id", "parent_tool_call_id", "role", "session_id", "truncated", "turn_id", "type"]),
    "output": frozenset(["_meta", "channel", "content", "history", "message_id", "parent_tool_call_id", "session_id", "turn_id", "type"]),
    "permission.cancel": frozenset(["_meta", "reason", "request_id", "session_id", "turn_id", "type"]),
    "permission.request": frozenset(["_meta", "description", "diffs", "expires_at", "history", "input", "message_id", "options", "parent_tool_call_id", "request_id", "resource", "session_id", "title", "tool", "tool_call_id", "truncated", "turn_id", "type"]),
    "permission.response": frozenset(["_meta", "always_allow", "approved", "end_turn", "message", "option_id", "reason", "request_id", "session_id", "turn_id", "type", "updated_input"]),
    "ping": frozenset(["_meta", "nonce", "session_id", "turn_id", "type"]),
    "plan": frozenset(["_meta", "entries", "history", "message_id", "parent_tool_call_id", "session_id", "turn_id", "type"]),
    "pong": frozenset(["_meta", "nonce", "session_id", "turn_id", "type"]),
    "progress": frozenset(["_meta", "history", "message", "message_id", "parent_tool_call_id", "session_id", "turn_id", "type"]),
    "rate_limit": frozenset(["_meta", "resets_at", "session_id", "status", "turn_id", "type", "utilization", "window"]),
    "request.decided": frozenset(["_meta", "always", "approved", "by", "cancelled", "name", "option_id", "reason", "request_id", "session_id", "turn_id", "type", "updated_input", "values"]),
    "session.attach": frozenset(["_meta", "after", "env", "epoch", "extensions", "mcp_servers", "on_slow", "protocol", "role", "session_id", "turn_id", "type"]),
    "session.attached": frozenset(["_meta", "agent_id", "archived", "copied", "cwd", "epoch", "first_seq", "last_seq", "listener", "queued", "requests", "role", "session_id", "state", "title", "turn_id", "type"]),
    "session.close": frozenset(["_meta", "session_id", "turn_id", "type"]),
    "session.closed": frozenset(["_meta", "cause", "error", "reason", "session_id", "turn_id", "type"]),
    "session.detach": frozenset(["_meta", "release", "session_id", "turn_id", "type"]),
    "session.edit": frozenset(["_meta", "archived", "request_id", "session_id", "title", "turn_id", "type"]),
    "session.edit.result": frozenset(["_meta", "error", "request_id", "session_id", "turn_id", "type"]),
    "session.edited": frozenset(["_meta", "archived", "by", "session_id", "title", "turn_id", "type"]),
    "session.fork": frozenset(["_meta", "after", "env", "extensions", "mcp_servers", "protocol", "seq", "session_id", "source", "turn_id", "type"]),
    "session.history": frozenset(["_meta", "from", "request_id", "session_id", "to", "turn_id", "type"]),
    "session.history.result": frozenset(["_meta", "entries", "error", "next", "request_id", "session_id", "turn_id", "type"]),
    "session.info": frozenset(["_meta", "adapter", "allowed_tools", "capabilities", "commands", "context", "denied_tools", "display_id", "input_modes", "mode", "model", "models", "modes", "native_session_id", "options", "options_applied", "permission_mode", "reasoning_effort", "session_id", "turn_id", "type"]),
    "session.ready": frozenset(["_meta", "adapter", "allowed_tools", "capabilities", "commands", "context", "denied_tools", "display_id", "extensions", "input_modes", "max_line", "mode", "model", "models", "modes", "native_session_id", "options", "options_applied", "permission_mode", "protocol", "reasoning_effort", "session_id", "turn_id", "type"]),
    "session.refused": frozenset(["_meta", "last_seq", "message", "reason", "session_id", "turn_id", "type"]),
    "session.start": frozenset(["_meta", "add_dirs", "agent_id", "allowed_domains", "allowed_tools", "cwd", "denied_tools", "env", "exchange_dir", "extensions", "extra_args", "inactivity_timeout_ms", "iteration", "max_cost_usd", "max_line", "max_tokens", "max_turns", "mcp_servers", "mode", "model", "output_schema", "permission_mode", "protocol", "reasoning_effort", "resume", "role", "run_id", "session_id", "skills", "system_prompt", "system_prompt_mode", "task_id", "temperature", "turn_id", "turn_timeout_ms", "type", "user_id", "variables"]),
    "session.update": frozenset(["_meta", "allowed_tools", "denied_tools", "mode", "model", "options", "permission_mode", "reasoning_effort", "session_id", "turn_id", "type"]),
    "sessions.list": frozenset(["_meta", "agent_id", "archived", "cursor", "cwd", "extensions", "id", "limit", "request_id", "session_id", "state", "text", "turn_id", "type"]),
    "sessions.list.result": frozenset(["_meta", "entries", "error", "missing", "next", "request_id", "session_id", "sessions", "turn_id", "type"]),
    "steer.result": frozenset(["_meta", "delivered", "message_id", "reason", "session_id", "turn_id", "type"]),
    "stop": frozenset(["_meta", "reason", "session_id", "turn_id", "type"]),
    "stop.requested": frozenset(["_meta", "by", "reason", "session_id", "turn_id", "type"]),
    "thinking": frozenset(["_meta", "content", "history", "message_id", "parent_tool_call_id", "session_id", "turn_id", "type"]),
    "tool.end": frozenset(["_meta", "content", "data", "diffs", "duration_ms", "history", "is_error", "large", "message_id", "parent_tool_call_id", "session_id", "tool_call_id", "truncated", "turn_id", "type"]),
    "tool.start": frozenset(["_meta", "history", "input", "kind", "large", "locations", "message_id", "parent_tool_call_id", "session_id", "title", "tool", "tool_call_id", "truncated", "turn_id", "type"]),
    "tool.update": frozenset(["_meta", "content", "data", "history", "input", "large", "locations", "message_id", "parent_tool_call_id", "session_id", "stream", "title", "tool_call_id", "truncated", "turn_id", "type"]),
    "turn.begin": frozenset(["_meta", "by", "content", "files", "message_id", "queued", "session_id", "turn_id", "type"]),
    "turn.complete": frozenset(["_meta", "artifacts", "cause", "clear_session", "delivered", "duration_ms", "error", "exit_code", "large", "model", "native_session_id", "num_turns", "provider", "result", "session_id", "session_params", "signal", "status", "stop_reason", "summary", "truncated", "turn_id", "type", "usage"]),
    "usage": frozenset(["_meta", "cache_read_tokens", "cache_write_tokens", "cost_usd", "estimated", "input_tokens", "model", "models", "output_tokens", "provider", "reasoning_tokens", "scope", "session_id", "total_tokens", "turn_id", "type"]),
    "user.input": frozenset(["_meta", "content", "large", "limits", "message_id", "mode", "session_id", "turn_id", "type"]),
    "working": frozenset(["_meta", "session_id", "turn_id", "type"]),
}
"""The members of each message."""
