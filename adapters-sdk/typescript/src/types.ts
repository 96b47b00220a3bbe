// The messages of the protocol, made from its schemas by scripts/types.mjs: do not edit.
//
// In every member null equals absent. An enumerated member may hold values of later versions.

/** A piece of the answer: a delta ([turn.2]). */
export interface OutputMessage {
  /** The text. */
  content: string;
  session_id: string;
  type: "output";
  _meta?: { [name: string]: unknown };
  /** The channel; absent: stdout. */
  channel?: Channel;
  /** True if it is a replay of an earlier event: it belongs to no turn (`events`). */
  history?: boolean;
  /** The message whose deltas belong together (`events`). */
  message_id?: MessageId;
  /** The tool call of the sub-agent that speaks (`events`). */
  parent_tool_call_id?: ToolCallId;
  turn_id?: string;
}

/** Ends a turn: the one answer to its `user.input` ([turn.1]). Without fields it has completed. */
export interface TurnCompleteMessage {
  session_id: string;
  type: "turn.complete";
  _meta?: { [name: string]: unknown };
  /** The results, as the agent names them (`turns`). */
  artifacts?: Json;
  /** The cause of an end that the host made, such as `turn_timeout`; absent: the adapter ended the turn (`turns`). Later versions add names. */
  cause?: string;
  /** True if the state to resume from is no longer valid (`resume`). */
  clear_session?: boolean;
  /** The delivery of the input to the agent (`turns`). */
  delivered?: Delivered;
  /** The time that it took, in milliseconds (`turns`). */
  duration_ms?: number;
  /** The failure (`turns`). */
  error?: Failure;
  /** The exit code of a process that ended the turn by ending (`turns`). */
  exit_code?: number;
  large?: { [name: string]: LargeMember };
  /** The model (`turns`). */
  model?: string;
  /** The agent's own id of the session (`resume`). */
  native_session_id?: string;
  /** The number of requests to the model (`turns`). */
  num_turns?: number;
  /** Provider of the model (`turns`). */
  provider?: string;
  /** The answer as data (`turns`). */
  result?: Json;
  /** The `resume.params` to resume from here (`resume`). */
  session_params?: Json;
  /** The signal that ended it (`turns`). */
  signal?: number;
  /** The status; absent: completed (`turns`). */
  status?: Status;
  /** Reason in the agent's words, or the reason of the `stop` (`turns`). */
  stop_reason?: string;
  /** A summary of the work, in a few words (`turns`). */
  summary?: string;
  /** True if members were cut or left out, since a line has a longest length ([frame.11]). */
  truncated?: boolean;
  turn_id?: string;
  /** The usage, with scope `turn` (`usage`). */
  usage?: Usage;
}

/** A file for the user ([file.3]). */
export interface FileOutputMessage {
  /** The absolute path of the file. The host checks it ([file.4]). */
  file_path: string;
  session_id: string;
  type: "file.output";
  _meta?: { [name: string]: unknown };
  /** The MIME type. Absent: `application/octet-stream` ([file.5]). */
  file_mime_type?: string;
  /** A label, never a path. Absent: the base name of the path ([file.5]). */
  file_name?: string;
  /** The digest of its bytes (`large`). */
  sha256?: Sha256;
  /** The file's size, in bytes (`large`). */
  size?: number;
  turn_id?: string;
}

/** Asks whether an action may happen ([permission.1]). */
export interface PermissionRequestMessage {
  /** The text for a person. Always written; a host supplies one where an adapter did not ([permission.6]). */
  description: string;
  /** Names the request within its session. */
  request_id: RequestId;
  /** The object of the tool: a command, a path, an address. Always written; a host supplies the empty text where an adapter did not, and then no rule approves ([permission.6]). */
  resource: string;
  session_id: string;
  /** The tool. */
  tool: string;
  type: "permission.request";
  _meta?: { [name: string]: unknown };
  /** The changes that the action would make to files (`control`). */
  diffs?: Diff[];
  /** When the agent gives up, RFC 3339 (`control`). */
  expires_at?: string;
  /** True if it is replayed (`events`): no answer is wanted. */
  history?: boolean;
  /** The tool's input (`control`). */
  input?: Json;
  /** The message that it belongs to (`events`). */
  message_id?: MessageId;
  /** The ways to answer (`control`). */
  options?: PermissionOption[];
  /** The tool call of the sub-agent that asks (`events`). */
  parent_tool_call_id?: ToolCallId;
  /** A headline (`control`). */
  title?: string;
  /** The tool call that waits (`control`). */
  tool_call_id?: ToolCallId;
  /** True if members were cut or left out, since a line has a longest length (`control`, [frame.11]). */
  truncated?: boolean;
  turn_id?: string;
}

/** The adapter's first message of a session, if it uses any extension ([ext.2]). */
export interface SessionReadyMessage {
  session_id: string;
  type: "session.ready";
  _meta?: { [name: string]: unknown };
  /** The program behind the pipe. */
  adapter?: AdapterInfo;
  /** The tools allowed. */
  allowed_tools?: string[];
  /** Capabilities of the adapter. */
  capabilities?: Capabilities;
  /** The commands that the agent understands. */
  commands?: Command[];
  /** The context of a resumed session: kept or lost (`resume`). */
  context?: Context;
  /** The tools denied. */
  denied_tools?: string[];
  /** The id that a person reads (`resume`). */
  display_id?: string;
  /** The extensions of the offer that it uses. */
  extensions?: string[];
  /** `queue` and `steer`, if it supports them ([turn.3], [turn.10]). */
  input_modes?: string[];
  /** The longest line that the adapter reads, in bytes without its LF ([frame.11]). */
  max_line?: number;
  /** The mode in force. */
  mode?: string;
  /** The model in force. */
  model?: string;
  /** The models that may be chosen. */
  models?: Model[];
  /** The modes that may be chosen. */
  modes?: Mode[];
  /** The agent's own id of the session (`resume`). */
  native_session_id?: string;
  /** The agent's own options, whole each time. */
  options?: AgentOption[];
  /** The options of `session.start` that it honours ([ext.7]). */
  options_applied?: string[];
  /** The permission mode in force. */
  permission_mode?: string;
  /** The lower of both sides' versions. */
  protocol?: number;
  /** The reasoning effort in force. */
  reasoning_effort?: string;
  turn_id?: string;
}

/** News of a session after `session.ready` ([ext.2]), and the answer to `session.update`. */
export interface SessionInfoMessage {
  session_id: string;
  type: "session.info";
  _meta?: { [name: string]: unknown };
  /** The program behind the pipe. */
  adapter?: AdapterInfo;
  /** The tools allowed. */
  allowed_tools?: string[];
  /** Capabilities of the adapter. */
  capabilities?: Capabilities;
  /** The commands that the agent understands. */
  commands?: Command[];
  /** The context of a resumed session: kept or lost (`resume`). */
  context?: Context;
  /** The tools denied. */
  denied_tools?: string[];
  /** The id that a person reads (`resume`). */
  display_id?: string;
  /** `queue` and `steer`, if it supports them ([turn.3], [turn.10]). */
  input_modes?: string[];
  /** The mode in force. */
  mode?: string;
  /** The model in force. */
  model?: string;
  /** The models that may be chosen. */
  models?: Model[];
  /** The modes that may be chosen. */
  modes?: Mode[];
  /** The agent's own id of the session (`resume`). */
  native_session_id?: string;
  /** The agent's own options, whole each time. */
  options?: AgentOption[];
  /** The options of `session.start` that it honours ([ext.7]). */
  options_applied?: string[];
  /** The permission mode in force. */
  permission_mode?: string;
  /** The reasoning effort in force. */
  reasoning_effort?: string;
  turn_id?: string;
}

/** The answer to a steer: did it reach the running turn? ([turn.10]). */
export interface SteerResultMessage {
  /** True if it did. */
  delivered: boolean;
  session_id: string;
  type: "steer.result";
  _meta?: { [name: string]: unknown };
  /** The input that is meant. */
  message_id?: MessageId;
  /** Reason why not. */
  reason?: string;
  turn_id?: string;
}

/** A piece of what the model thinks: a delta. */
export interface ThinkingMessage {
  /** The text. */
  content: string;
  session_id: string;
  type: "thinking";
  _meta?: { [name: string]: unknown };
  /** True if it is replayed. */
  history?: boolean;
  /** The message whose deltas belong together. */
  message_id?: MessageId;
  /** The tool call of the sub-agent that thinks. */
  parent_tool_call_id?: ToolCallId;
  turn_id?: string;
}

/** A whole message of the conversation. */
export interface MessageMessage {
  /** The text. */
  content: string;
  /** Speaker: `user`, `assistant`, or a role of the agent's own. */
  role: string;
  session_id: string;
  type: "message";
  _meta?: { [name: string]: unknown };
  /** True if it is replayed. */
  history?: boolean;
  large?: { [name: string]: LargeMember };
  /** The message's id. */
  message_id?: MessageId;
  /** The tool call of the sub-agent that speaks. */
  parent_tool_call_id?: ToolCallId;
  /** True if members were cut or left out, since a line has a longest length ([frame.11]). */
  truncated?: boolean;
  turn_id?: string;
}

/** A tool call begins. */
export interface ToolStartMessage {
  session_id: string;
  /** The tool's name. */
  tool: string;
  /** The call. */
  tool_call_id: ToolCallId;
  type: "tool.start";
  _meta?: { [name: string]: unknown };
  /** True if it is replayed. */
  history?: boolean;
  /** The tool's input. */
  input?: Json;
  /** The kind of the tool, in the agent's words. */
  kind?: string;
  large?: { [name: string]: LargeMember };
  /** The files that it touches. */
  locations?: Json;
  /** The message that it belongs to. */
  message_id?: MessageId;
  /** The tool call of the sub-agent that calls. */
  parent_tool_call_id?: ToolCallId;
  /** The text for a person. */
  title?: string;
  /** True if members were cut or left out, since a line has a longest length ([frame.11]). */
  truncated?: boolean;
  turn_id?: string;
}

/** A tool call continues. */
export interface ToolUpdateMessage {
  session_id: string;
  /** The call. */
  tool_call_id: ToolCallId;
  type: "tool.update";
  _meta?: { [name: string]: unknown };
  /** The text that it printed since the last update: a delta. */
  content?: string;
  /** The agent's own data. */
  data?: Json;
  /** True if it is replayed. */
  history?: boolean;
  /** Input of the tool, as far as it is known. */
  input?: Json;
  large?: { [name: string]: LargeMember };
  /** The files that it touches, whole each time. */
  locations?: Json;
  /** The message that it belongs to. */
  message_id?: MessageId;
  /** The tool call of the sub-agent that calls. */
  parent_tool_call_id?: ToolCallId;
  /** The stream on which it printed it: `stdout`, `stderr`. */
  stream?: string;
  /** The text for a person from now on. */
  title?: string;
  /** True if members were cut or left out, since a line has a longest length ([frame.11]). */
  truncated?: boolean;
  turn_id?: string;
}

/** A tool call has ended. Each start has one end. */
export interface ToolEndMessage {
  session_id: string;
  /** The call. */
  tool_call_id: ToolCallId;
  type: "tool.end";
  _meta?: { [name: string]: unknown };
  /** Result of the call. */
  content?: string;
  /** The agent's own data. */
  data?: Json;
  /** The changes that it made to files. */
  diffs?: Diff[];
  /** The time that it took, in milliseconds. */
  duration_ms?: number;
  /** True if it is replayed. */
  history?: boolean;
  /** True if it failed. */
  is_error?: boolean;
  large?: { [name: string]: LargeMember };
  /** The message that it belongs to. */
  message_id?: MessageId;
  /** The tool call of the sub-agent that called. */
  parent_tool_call_id?: ToolCallId;
  /** True if the result was cut, by the tool, the agent or for the length of a line ([frame.11]). */
  truncated?: boolean;
  turn_id?: string;
}

/** The plan, whole each time. */
export interface PlanMessage {
  /** Entries in order. */
  entries: PlanEntry[];
  session_id: string;
  type: "plan";
  _meta?: { [name: string]: unknown };
  /** True if it is replayed. */
  history?: boolean;
  /** The message that it belongs to. */
  message_id?: MessageId;
  /** The tool call of the sub-agent that plans. */
  parent_tool_call_id?: ToolCallId;
  turn_id?: string;
}

/** A line on how the work goes. */
export interface ProgressMessage {
  /** The text. */
  message: string;
  session_id: string;
  type: "progress";
  _meta?: { [name: string]: unknown };
  /** True if it is replayed. */
  history?: boolean;
  /** The message that it belongs to. */
  message_id?: MessageId;
  /** The tool call of the sub-agent that it is about. */
  parent_tool_call_id?: ToolCallId;
  turn_id?: string;
}

/** A line for a log. */
export interface LogMessage {
  /** The text. */
  content: string;
  session_id: string;
  type: "log";
  _meta?: { [name: string]: unknown };
  /** True if it is replayed. */
  history?: boolean;
  large?: { [name: string]: LargeMember };
  /** The message that it belongs to. */
  message_id?: MessageId;
  /** The tool call of the sub-agent that it is about. */
  parent_tool_call_id?: ToolCallId;
  /** The source. */
  stream?: LogStream;
  /** True if members were cut or left out, since a line has a longest length ([frame.11]). */
  truncated?: boolean;
  turn_id?: string;
}

/** Something went wrong. It ends nothing by itself. */
export interface ErrorMessage {
  /** The text for a person. */
  message: string;
  session_id: string;
  type: "error";
  _meta?: { [name: string]: unknown };
  /** The kind of failure ([ext.6]). */
  category?: Category;
  /** True if the turn will fail for it. */
  fatal?: boolean;
  /** True if it is replayed. */
  history?: boolean;
  /** The message that it belongs to. */
  message_id?: MessageId;
  /** The tool call of the sub-agent that it is about. */
  parent_tool_call_id?: ToolCallId;
  turn_id?: string;
}

/** Any other event of the agent. */
export interface CustomMessage {
  /** The name, in the agent's words. */
  name: string;
  session_id: string;
  type: "custom";
  _meta?: { [name: string]: unknown };
  /** The agent's own data. */
  data?: Json;
  /** True if it is replayed. */
  history?: boolean;
  large?: { [name: string]: LargeMember };
  /** The message that it belongs to. */
  message_id?: MessageId;
  /** The tool call of the sub-agent that it is about. */
  parent_tool_call_id?: ToolCallId;
  /** True if members were cut or left out, since a line has a longest length ([frame.11]). */
  truncated?: boolean;
  turn_id?: string;
}

/** Tokens and cost of a turn or of a session. */
export interface UsageMessage {
  session_id: string;
  type: "usage";
  _meta?: { [name: string]: unknown };
  /** Input tokens that came from a cache. */
  cache_read_tokens?: number;
  /** Input tokens that were put into a cache. */
  cache_write_tokens?: number;
  /** The cost in USD. */
  cost_usd?: number;
  /** True if they are an estimate. */
  estimated?: boolean;
  /** Tokens that the model read, cached ones included. */
  input_tokens?: number;
  /** The model. */
  model?: string;
  /** The same per model. */
  models?: { [name: string]: ModelUsage };
  /** Tokens that it wrote. */
  output_tokens?: number;
  /** Provider of the model. */
  provider?: string;
  /** Output tokens that were spent on thinking. */
  reasoning_tokens?: number;
  /** The scope of the numbers. */
  scope?: UsageScope;
  /** Their sum, as the provider counts it. */
  total_tokens?: number;
  turn_id?: string;
}

/** The use of the model's context. */
export interface ContextUsageMessage {
  session_id: string;
  type: "context.usage";
  _meta?: { [name: string]: unknown };
  /** Tokens that fit. */
  total_tokens?: number;
  turn_id?: string;
  /** Tokens in use. */
  used_tokens?: number;
}

/** The agent shortened its context. */
export interface CompactionMessage {
  session_id: string;
  type: "compaction";
  _meta?: { [name: string]: unknown };
  /** The compaction's id. A later event with the same id replaces the earlier one. */
  id?: string;
  /** Tokens before. */
  pre_tokens?: number;
  /** The text that replaced what was left out. */
  summary?: string;
  /** Tokens that fit. */
  total_tokens?: number;
  /** The trigger. */
  trigger?: CompactionTrigger;
  turn_id?: string;
}

/** The use of a provider's limit. */
export interface RateLimitMessage {
  session_id: string;
  type: "rate_limit";
  _meta?: { [name: string]: unknown };
  /** When it begins anew, RFC 3339. */
  resets_at?: string;
  /** The status, in the provider's words. */
  status?: string;
  turn_id?: string;
  /** The part used, 0 to 1. */
  utilization?: number;
  /** The window, in the provider's words. */
  window?: string;
}

/** The answer to `sessions.list`. */
export interface SessionsListResultMessage {
  /** The request. */
  request_id: RequestId;
  session_id: "";
  type: "sessions.list.result";
  _meta?: { [name: string]: unknown };
  /** The sessions. */
  entries?: SessionEntry[];
  /** Reason why there are none. */
  error?: string;
  /** The hosts whose sessions are not among them, since they did not answer. */
  missing?: string[];
  /** Cursor for the next page, if there may be one. */
  next?: string;
  /** The sessions of the relay's journal, the last active first ([journal.12]). */
  sessions?: ListedSession[];
  turn_id?: string;
}

/** Asks the user (`questions`). */
export interface InputRequestMessage {
  /** The text for a person. */
  prompt: string;
  /** Names the question within its session. */
  request_id: RequestId;
  session_id: string;
  type: "input.request";
  _meta?: { [name: string]: unknown };
  /** When the agent gives up, RFC 3339. */
  expires_at?: string;
  /** The fields of the question; none: one text. */
  fields?: QuestionField[];
  turn_id?: string;
}

/** Alive; quiet work continues (`control`). */
export interface WorkingMessage {
  session_id: string;
  type: "working";
  _meta?: { [name: string]: unknown };
  turn_id?: string;
}

/** The answer to `ping` (`control`). */
export interface PongMessage {
  session_id: "";
  type: "pong";
  _meta?: { [name: string]: unknown };
  /** The nonce of the `ping`. */
  nonce?: Json;
  turn_id?: string;
}

/** The adapter ends the session; its last message of the id ([session.8]). */
export interface SessionClosedMessage {
  session_id: string;
  type: "session.closed";
  _meta?: { [name: string]: unknown };
  /** The cause of an end that the host made, as in `turn.complete`. */
  cause?: string;
  /** The failure. */
  error?: Failure;
  /** Reason. */
  reason?: ClosedReason;
  turn_id?: string;
}

/** Withdraws a permission request or a question (`control`). */
export interface PermissionCancelMessage {
  /** The request. */
  request_id: RequestId;
  session_id: string;
  type: "permission.cancel";
  _meta?: { [name: string]: unknown };
  /** Reason. */
  reason?: StopReason;
  turn_id?: string;
}

/** The answer to `agents.list` ([relay.4]). */
export interface AgentsListResultMessage {
  /** The agents. */
  agents: AgentEntry[];
  /** The request. */
  request_id: RequestId;
  session_id: "";
  type: "agents.list.result";
  _meta?: { [name: string]: unknown };
  /** Open sessions, if requested: first those with a running turn, then the youngest. */
  sessions?: OpenSession[];
  turn_id?: string;
}

/** Opens a session; the first message of its id ([session.1]). Everything in it is an extension. */
export interface SessionStartMessage {
  session_id: string;
  type: "session.start";
  _meta?: { [name: string]: unknown };
  /** More directories that the agent may work in, absolute. */
  add_dirs?: string[];
  /** Picks the agent behind a relay ([relay.1]). */
  agent_id?: string;
  /** The only domains that are reached. */
  allowed_domains?: string[];
  /** The only tools that run, as `Tool` or `Tool(pattern)`. */
  allowed_tools?: string[];
  /** The session's working directory, absolute. */
  cwd?: string;
  /** Tools that never run. */
  denied_tools?: string[];
  /** Environment of what the adapter starts for this session. */
  env?: { [name: string]: string };
  /** The folder in which files are exchanged, absolute ([file.6]). */
  exchange_dir?: string;
  /** Extensions that the host understands ([ext.1]). Absent: only the core. */
  extensions?: string[];
  /** Further arguments for the agent's command. */
  extra_args?: string[];
  /** Timeout for the silence of a running turn, in milliseconds. */
  inactivity_timeout_ms?: number;
  /** Number of the attempt at the task, as counted by the hub. */
  iteration?: number;
  /** The most that the session may cost, in USD. */
  max_cost_usd?: number;
  /** The longest line that the host reads, in bytes without its LF ([frame.11]). */
  max_line?: number;
  /** The most tokens that the session may use. */
  max_tokens?: number;
  /** The most turns of the model within one turn. */
  max_turns?: number;
  /** MCP servers, as the agent takes them. */
  mcp_servers?: Json;
  /** The agent's mode, by its id. */
  mode?: string;
  /** The model. */
  model?: string;
  /** JSON Schema of the answer of each turn. */
  output_schema?: Json;
  /** The mode in which tools are permitted. */
  permission_mode?: string;
  /** The protocol's version that the host speaks ([ext.1]). */
  protocol?: number;
  /** The effort of the model's reasoning, in its own words. */
  reasoning_effort?: string;
  /** The conversation to resume (`resume`). */
  resume?: Resume;
  /** The agent's role in the hub's work. */
  role?: string;
  /** The hub's name for this run of the task. */
  run_id?: string;
  /** Skills, as the agent takes them. */
  skills?: Json;
  /** Instructions for the model. */
  system_prompt?: string;
  /** The place of the instructions: after the agent's own, or instead of them. */
  system_prompt_mode?: SystemPromptMode;
  /** The hub's name for the task. */
  task_id?: string;
  /** The sampling temperature. */
  temperature?: number;
  turn_id?: string;
  /** Timeout for each turn, in milliseconds. */
  turn_timeout_ms?: number;
  /** The hub's name for its user. */
  user_id?: string;
  /** Context for prompts and for the environment of what the adapter starts. */
  variables?: { [name: string]: string };
}

/** The user's input: begins a turn, or adds to the running one ([turn.1], [turn.10]). */
export interface UserInputMessage {
  session_id: string;
  type: "user.input";
  _meta?: { [name: string]: unknown };
  /** The text. Absent and null mean the empty string ([msg.3]). */
  content?: string;
  large?: { [name: string]: LargeMember };
  /** The limits of its turn; a steer has none (`options`). */
  limits?: InputLimits;
  /** The input's own id (`turns`). */
  message_id?: MessageId;
  /** The effect: it begins a turn, the default, or adds to the running one (`turns`). */
  mode?: InputMode;
  turn_id?: string;
}

/** Announces a file to the adapter ([file.2]). */
export interface FileInputMessage {
  /** The absolute path of the file. */
  file_path: string;
  session_id: string;
  type: "file.input";
  _meta?: { [name: string]: unknown };
  /** The MIME type. Absent: `application/octet-stream` ([file.5]). */
  file_mime_type?: string;
  /** A label, never a path. Absent: the base name of the path ([file.5]). */
  file_name?: string;
  /** The digest of its bytes (`large`). */
  sha256?: Sha256;
  /** The file's size, in bytes (`large`). */
  size?: number;
  turn_id?: string;
}

/** Answers a `permission.request` ([permission.2]). */
export interface PermissionResponseMessage {
  /** The request that is answered. */
  request_id: RequestId;
  session_id: string;
  type: "permission.response";
  _meta?: { [name: string]: unknown };
  /** Short for the first option of kind `allow_always` (`control`). */
  always_allow?: boolean;
  /** True if the action may happen. Anything but `true` denies ([permission.4]). */
  approved?: boolean;
  /** True if the turn ends with this denial (`control`). */
  end_turn?: boolean;
  /** The message for the agent (`control`). */
  message?: string;
  /** The option that was chosen (`control`). */
  option_id?: string;
  /** Origin of the decision (`turns`). */
  reason?: StopReason;
  turn_id?: string;
  /** The tool's input as the user changed it (`control`). */
  updated_input?: Json;
}

/** Ends the running turn, or removes the queued one of this `turn_id` ([turn.4], [turn.9]). */
export interface StopMessage {
  session_id: string;
  type: "stop";
  _meta?: { [name: string]: unknown };
  /** Reason (`turns`). */
  reason?: StopReason;
  turn_id?: string;
}

/** Ends the session; the last message of its id ([session.4]). */
export interface SessionCloseMessage {
  session_id: string;
  type: "session.close";
  _meta?: { [name: string]: unknown };
  turn_id?: string;
}

/** Changes options of a live session; answered by one `session.info` (`options`). */
export interface SessionUpdateMessage {
  session_id: string;
  type: "session.update";
  _meta?: { [name: string]: unknown };
  /** The only tools that run. */
  allowed_tools?: string[];
  /** Tools that never run. */
  denied_tools?: string[];
  /** The agent's mode, by its id. */
  mode?: string;
  /** The model. */
  model?: string;
  /** Values of the agent's own options, by their ids. */
  options?: { [name: string]: Json };
  /** The mode in which tools are permitted. */
  permission_mode?: string;
  /** The effort of the model's reasoning. */
  reasoning_effort?: string;
  turn_id?: string;
}

/** Answers an `input.request` (`questions`). */
export interface InputResponseMessage {
  /** The question that is answered. */
  request_id: RequestId;
  session_id: string;
  type: "input.response";
  _meta?: { [name: string]: unknown };
  /** True if there is no answer. */
  cancelled?: boolean;
  turn_id?: string;
  /** The values by field id. */
  values?: { [name: string]: Json };
}

/** Holds back every message of the session ([flow.1]). */
export interface FlowPauseMessage {
  session_id: string;
  type: "flow.pause";
  _meta?: { [name: string]: unknown };
  turn_id?: string;
}

/** Lets them go in order ([flow.1]). */
export interface FlowResumeMessage {
  session_id: string;
  type: "flow.resume";
  _meta?: { [name: string]: unknown };
  turn_id?: string;
}

/** Asks for a sign of life; answered by `pong` (`control`). */
export interface PingMessage {
  session_id: "";
  type: "ping";
  _meta?: { [name: string]: unknown };
  /** Copied into the answer. */
  nonce?: Json;
  turn_id?: string;
}

/** Requests the sessions that can be resumed (`resume`); from a relay, the sessions of its journal ([journal.12]) or an agent's own ([relay.10]). */
export interface SessionsListMessage {
  /** Copied into the answer. */
  request_id: RequestId;
  session_id: "";
  type: "sessions.list";
  _meta?: { [name: string]: unknown };
  /** Only sessions of this agent; without `journal` the agent itself is asked ([relay.10]). */
  agent_id?: string;
  /** True: only the archived ones. Otherwise only the others. */
  archived?: boolean;
  /** The `next` of the answer before: only what comes behind that. */
  cursor?: string;
  /** Only sessions of this working directory. */
  cwd?: string;
  /** With `journal` among them a relay answers with the sessions of its journal. */
  extensions?: string[];
  /** Only the session of this id. */
  id?: string;
  /** At most so many. */
  limit?: number;
  /** Only those that do this. */
  state?: SessionState;
  /** Only those with this text in title or id, without regard of case. */
  text?: string;
  turn_id?: string;
}

/** Asks a relay for its agents ([relay.4]). */
export interface AgentsListMessage {
  /** Copied into the answer. */
  request_id: RequestId;
  session_id: "";
  type: "agents.list";
  _meta?: { [name: string]: unknown };
  /** True if the health of each is asked for, too. */
  health?: boolean;
  /** Number of open sessions to include. */
  sessions?: number;
  turn_id?: string;
}

/** Opens a session of the journal on this pipe: the entries that there are come again, then new ones ([journal.5]). */
export interface SessionAttachMessage {
  /** The last entry that the hub has; 0 for none. */
  after: number;
  session_id: string;
  type: "session.attach";
  _meta?: { [name: string]: unknown };
  /** As in `session.start`; not stored. */
  env?: { [name: string]: string };
  /** The epoch of that entry. */
  epoch?: number;
  /** The extensions that it understands. */
  extensions?: string[];
  /** As in `session.start`; not stored. */
  mcp_servers?: Json;
  /** Behavior when the hub reads more slowly than the session writes; absent: `wait`. */
  on_slow?: OnSlow;
  /** The version that the hub speaks. */
  protocol?: number;
  /** Rights of the hub; absent: `control`. */
  role?: Role;
  turn_id?: string;
}

/** Leaves the session on this pipe; the session continues ([journal.6]). */
export interface SessionDetachMessage {
  session_id: string;
  type: "session.detach";
  _meta?: { [name: string]: unknown };
  /** True to close the session at its agent when nothing is open in it and no hub is attached; the next input opens it again ([journal.6]). */
  release?: boolean;
  turn_id?: string;
}

/** Asks for entries of a session that need not be attached ([journal.8]). */
export interface SessionHistoryMessage {
  /** Copied into the answer. */
  request_id: RequestId;
  session_id: string;
  type: "session.history";
  _meta?: { [name: string]: unknown };
  /** The first entry; absent: the first there is. */
  from?: number;
  /** The last entry; absent: the last there is. */
  to?: number;
  turn_id?: string;
}

/** Changes the title of a session, or archives it ([journal.13]). The session need not be attached. */
export interface SessionEditMessage {
  /** Copied into the answer. */
  request_id: RequestId;
  session_id: string;
  type: "session.edit";
  _meta?: { [name: string]: unknown };
  /** True to archive the session, false to undo that. Absent: it stays. */
  archived?: boolean;
  /** The title, of at most 200 bytes; the empty text removes it. Absent: it stays. */
  title?: string;
  turn_id?: string;
}

/** Opens a session of the journal as a copy of another, and attaches to it ([journal.14]). The message's own id is the id of the new session. */
export interface SessionForkMessage {
  session_id: string;
  /** The session that is copied. */
  source: string;
  type: "session.fork";
  _meta?: { [name: string]: unknown };
  /** The last entry that the hub has, as in `session.attach`; absent: 0. */
  after?: number;
  /** As in `session.start`; not stored. */
  env?: { [name: string]: string };
  /** The extensions that it understands. */
  extensions?: string[];
  /** As in `session.start`; not stored. */
  mcp_servers?: Json;
  /** The version that the hub speaks. */
  protocol?: number;
  /** The last entry of the copy; absent: all of them. */
  seq?: number;
  turn_id?: string;
}

/** The answer to `session.attach` or `session.fork`; the entries follow. */
export interface SessionAttachedMessage {
  /** The agent. */
  agent_id: string;
  /** The epoch in which the relay writes now. */
  epoch: number;
  /** The first entry that the journal still has. */
  first_seq: number;
  /** The last one; 0 before the first. */
  last_seq: number;
  session_id: string;
  type: "session.attached";
  _meta?: { [name: string]: unknown };
  /** True if it is archived ([journal.13]). */
  archived?: boolean;
  /** The way in which the agent of a copy gets the conversation ([journal.14]). Absent: it is no copy, or its agent has begun its own conversation. */
  copied?: CopiedContext;
  /** Working directory. */
  cwd?: string;
  /** Name of this listener in `by`. */
  listener?: string;
  /** The turns whose inputs wait. */
  queued?: TurnId[];
  /** The permissions and questions that wait for an answer. */
  requests?: RequestId[];
  /** Rights of this hub. */
  role?: Role;
  /** State of the session. */
  state?: SessionState;
  /** A headline. */
  title?: string;
  /** The running turn. */
  turn_id?: TurnId;
}

/** The session was not attached, opened or forked. */
export interface SessionRefusedMessage {
  session_id: string;
  type: "session.refused";
  _meta?: { [name: string]: unknown };
  /** The last entry that both have, for `forked`; the last that the journal has, for `ahead`. */
  last_seq?: number;
  /** The text for a person. */
  message?: string;
  /** Reason. */
  reason?: AttachRefusal;
  turn_id?: string;
}

/** The answer to an input of a hub with `journal`: only to this hub, and not an entry. */
export interface InputResultMessage {
  /** The number of its `turn.begin`, or of its `input.steered`. */
  seq: number;
  session_id: string;
  type: "input.result";
  _meta?: { [name: string]: unknown };
  /** True if the journal had the input already, and nothing new happens. */
  duplicate?: boolean;
  /** Id of the input. */
  message_id?: MessageId;
  turn_id?: string;
}

/** The answer to `session.history`: at most 1 MiB, or one entry. */
export interface SessionHistoryResultMessage {
  /** Id of the `session.history`. */
  request_id: RequestId;
  session_id: string;
  type: "session.history.result";
  _meta?: { [name: string]: unknown };
  /** The entries. */
  entries?: Json[];
  /** Reason why there are none. */
  error?: string;
  /** The entries among them that the journal has lost. */
  lost?: LostEntries[];
  /** Sequence number of the next entry, if there are more. */
  next?: number;
  turn_id?: string;
}

/** The answer to `session.edit`: only to this hub, and not an entry. */
export interface SessionEditResultMessage {
  /** Id of the `session.edit`. */
  request_id: RequestId;
  session_id: string;
  type: "session.edit.result";
  _meta?: { [name: string]: unknown };
  /** Reason why nothing was changed; absent on success. */
  error?: string;
  turn_id?: string;
}

/** Entries that this hub does not get ([journal.7]). No entry itself. */
export interface LagMessage {
  /** The first of them. */
  from: number;
  session_id: string;
  /** The last of them. */
  to: number;
  type: "lag";
  _meta?: { [name: string]: unknown };
  turn_id?: string;
}

/** Entry: an event of the session that no adapter reports. */
export interface HostFactMessage {
  session_id: string;
  type: "host.fact";
  _meta?: { [name: string]: unknown };
  /** State of the conversation's context in the agent. */
  context?: Context;
  /** The time to the first deadline that ends the turn, in milliseconds, for `stalled`. Absent: it has none. */
  deadline_ms?: number;
  /** The exit code of the process. */
  exit_code?: number;
  /** The event. */
  fact?: Fact;
  /** The text for a person. */
  message?: string;
  /** The signal that ended it. */
  signal?: number;
  /** The time for which nothing has come, in milliseconds, for `stalled`. */
  silent_ms?: number;
  /** The session that was copied, for `forked_from`. */
  source?: string;
  turn_id?: string;
}

/** Entry: the title was changed, or the session was archived ([journal.13]). */
export interface SessionEditedMessage {
  session_id: string;
  type: "session.edited";
  _meta?: { [name: string]: unknown };
  /** True if the session is archived from now on. Absent: it stays. */
  archived?: boolean;
  /** The listener that changed it. */
  by?: string;
  /** The title; the empty text: it was removed. Absent: it stays. */
  title?: string;
  turn_id?: string;
}

/** Entry: an input was accepted, and begins a turn or waits for one. */
export interface TurnBeginMessage {
  /** Text of the user. */
  content: string;
  session_id: string;
  type: "turn.begin";
  _meta?: { [name: string]: unknown };
  /** Listener that sent it. */
  by?: string;
  /** The SHA-256, in hexadecimal, of each file that the input brings ([journal.7]). */
  files?: string[];
  /** The input's own id. */
  message_id?: MessageId;
  /** True if another turn runs. */
  queued?: boolean;
  turn_id?: string;
}

/** Entry: an input was accepted for the running turn. */
export interface InputSteeredMessage {
  /** Text of the user. */
  content: string;
  session_id: string;
  type: "input.steered";
  _meta?: { [name: string]: unknown };
  /** Listener that sent it. */
  by?: string;
  /** The SHA-256, in hexadecimal, of each file that the input brings ([journal.7]). */
  files?: string[];
  /** The input's own id. */
  message_id?: MessageId;
  turn_id?: string;
}

/** Entry: a file was handed to the agent. */
export interface FileDeliveredMessage {
  session_id: string;
  type: "file.delivered";
  _meta?: { [name: string]: unknown };
  /** The listener that gave it. */
  by?: string;
  /** Media type. */
  file_mime_type?: string;
  /** Name of the file. */
  file_name?: string;
  /** SHA-256, in hexadecimal. */
  sha256?: string;
  /** Size in bytes. */
  size?: number;
  turn_id?: string;
}

/** Entry: a permission or a question is settled. */
export interface RequestDecidedMessage {
  /** Id of the request. */
  request_id: RequestId;
  session_id: string;
  type: "request.decided";
  _meta?: { [name: string]: unknown };
  /** The pattern that approves such requests from now on. */
  always?: string;
  /** True if a permission was given. */
  approved?: boolean;
  /** The listener that answered. */
  by?: string;
  /** True if a question has no answer. */
  cancelled?: boolean;
  /** A name of the person who answered, as the listener gave it. No rights follow from it. */
  name?: string;
  /** The option that was chosen. */
  option_id?: string;
  /** Reason why it was settled; absent if it was answered. */
  reason?: StopReason;
  turn_id?: string;
  /** The tool's input as the user changed it, if the permission was given for that. */
  updated_input?: Json;
  /** The answers to a question; one that is secret is `{"redacted": true}`. */
  values?: { [name: string]: Json };
}

/** Entry: a stop of the running turn, or of the one named, was requested. */
export interface StopRequestedMessage {
  session_id: string;
  type: "stop.requested";
  _meta?: { [name: string]: unknown };
  /** The listener that asked for it. */
  by?: string;
  /** Reason. */
  reason?: StopReason;
  turn_id?: string;
}

/** The program behind the pipe. */
export interface AdapterInfo {
  /** Name of the agent. */
  name: string;
  /** Version of the agent. */
  version?: string;
}

/** An agent behind a relay ([relay.4]). */
export interface AgentEntry {
  /** The value of `agent_id`. */
  id: string;
  /** Capabilities of the agent. */
  capabilities?: Capabilities;
  /** The purpose. */
  description?: string;
  /** Health, if requested. */
  health?: HealthEntry;
  /** Models of the agent. */
  models?: Model[];
  /** The text for a person. */
  name?: string;
  /** The built-in adapter, or `external`. */
  profile?: string;
  /** The state. */
  state?: AgentState;
}

/** An option of the agent's own, which `session.update` sets. */
export interface AgentOption {
  /** The key of its value in `session.update`. */
  id: string;
  /** The category, in the agent's words. */
  category?: string;
  /** The choices, for `select`. */
  choices?: Choice[];
  /** The description. */
  description?: string;
  /** The kind of its value. */
  kind?: AgentOptionKind;
  /** The text for a person. */
  label?: string;
  /** The value in force: the id of a choice, or a boolean. */
  value?: Json;
}

/** The kind of value that an option of an agent has. */
export type AgentOptionKind = "select" | "boolean";

/** The state of an agent behind a relay. */
export type AgentState = "idle" | "running" | "failed";

/** Reason why a session was not attached, opened or forked. */
export type AttachRefusal = "unknown" | "gone" | "forbidden" | "ahead" | "forked" | "exists" | "read_only" | "unavailable" | "unsupported";

/** The capabilities of an adapter. */
export interface Capabilities {
  /** The way in which the agent runs: `interactive`, `run-to-completion`, `request-response`. */
  exec_model?: string;
  /** True if it can begin a session as a copy of an earlier one, by `resume.fork`. */
  forks_sessions?: boolean;
  /** True if it reports the models and modes of a session before the first turn, once its agent has started. */
  lists_choices?: boolean;
  /** True if it lists the agent's earlier sessions, by `sessions.list`. */
  lists_sessions?: boolean;
  /** The most sessions at a time. */
  max_sessions?: number;
  /** True if it reports the agent's own session ids. */
  native_session_ids?: boolean;
  /** True if it can resume an earlier session. */
  resume_attach?: boolean;
  /** True if the agent reports the end of a turn, rather than the adapter guessing it. */
  turn_completion?: boolean;
  /** True if an approval may change the tool's input, by `updated_input`. */
  updated_input?: boolean;
}

/** The kind of a failure ([ext.6]). */
export type Category = "timeout" | "cancelled" | "context_exhausted" | "max_turns" | "rate_limit" | "usage_limit" | "auth" | "billing" | "overloaded" | "model_not_found" | "session_not_found" | "permission_denied" | "tool_loop" | "not_installed" | "protocol" | "process_exit" | "host_restart" | "file_refused" | "oversize" | "busy" | "stop_unanswered" | "other";

export type Channel = string;

/** A choice of a field. */
export interface Choice {
  /** The value. */
  id: string;
  /** More of it. */
  description?: string;
  /** The text for a person. */
  label?: string;
}

/** Reason why an adapter ended a session. */
export type ClosedReason = "finished" | "failed" | "refused" | "unknown_agent" | "limit" | "protocol" | "shutdown";

/** A command that the agent understands in its input. */
export interface Command {
  /** Name of the field. */
  name: string;
  /** The description. */
  description?: string;
  /** The arguments that may follow it. */
  hint?: string;
  /** The text that an input carries to run it. */
  text?: string;
}

/** The trigger for an agent to shorten its context. */
export type CompactionTrigger = "auto" | "manual";

/** The context of a resumed session. */
export type Context = "kept" | "lost";

/** The way in which the agent of a copied session gets the conversation ([journal.14]). */
export type CopiedContext = "agent" | "transcript";

/** The delivery of an input to the agent. */
export type Delivered = "yes" | "no" | "unknown";

/** A change of one file: both texts, or a patch. */
export interface Diff {
  /** The file. */
  path: string;
  /** The text after. */
  new_text?: string;
  /** The text before; absent for a new file. */
  old_text?: string;
  /** The change as a unified diff. */
  patch?: string;
}

/** Event of a session. */
export type Fact = "opened" | "process_ended" | "resumed" | "host_restarted" | "moved" | "forked_from" | "stalled";

/** The failure. */
export interface Failure {
  /** The kind of failure ([ext.6]). */
  category?: Category;
  /** The agent's own code. */
  code?: string;
  /** The text for a person. */
  message?: string;
  /** When trying again makes sense, RFC 3339. */
  retry_at?: string;
  /** The last lines of the process's standard error, redacted: at most 32 of at most 1 KiB. */
  stderr?: string[];
}

/** The kind of answer that a question's field asks for. */
export type FieldKind = "text" | "secret" | "boolean" | "number" | "choice" | "choices";

/** Health of an agent and its process ([relay.4]). Times are in milliseconds; rates cover the last seconds. */
export interface HealthEntry {
  /** Running time of the process. */
  age_ms?: number;
  /** Bytes a second that it wrote. */
  bytes_in_rate?: number;
  /** Bytes a second that were written to it. */
  bytes_out_rate?: number;
  /** Counters, by name. */
  counters?: { [name: string]: number };
  /** The end of the process before. */
  last_end?: string;
  /** Lines a second that it wrote. */
  lines_rate?: number;
  /** Liveness of the process. */
  liveness?: Liveness;
  /** The number of its process. */
  pid?: number;
  /** Bytes that wait to be written to it. */
  queued_bytes?: number;
  /** Permissions and questions that wait for an answer. */
  requests?: number;
  /** Time until its process may be started again, if it waits for that. */
  restart_in_ms?: number;
  /** Open sessions. */
  sessions?: number;
  /** Severity of the problem. */
  severity?: Severity;
  /** Time since its last output. */
  silent_ms?: number;
  /** The end of its standard error, without secrets. */
  stderr?: string;
  /** Turns that run. */
  turns?: number;
  /** Problem and next step, as one sentence. */
  verdict?: string;
}

/** Limits of an input's turn, which narrow the limits of its session ([ext.7]). */
export interface InputLimits {
  /** Timeout for the turn's silence, in milliseconds. */
  inactivity_timeout_ms?: number;
  /** The most tokens that the turn may use. */
  max_tokens?: number;
  /** Timeout for the turn, in milliseconds. */
  turn_timeout_ms?: number;
}

/** The effect of an input. */
export type InputMode = "turn" | "steer";

export type Json = unknown;

/** File with the JSON of a member. */
export interface LargeMember {
  /** The absolute path of the file, within the session's exchange folder. */
  file_path: string;
  /** The digest of its bytes. */
  sha256: Sha256;
  /** The file's size, in bytes. */
  size: number;
}

/** A session in the answer to `sessions.list` ([journal.12]). Times are RFC 3339. */
export interface ListedSession {
  /** Agent of the session. */
  agent_id: string;
  /** Session id. */
  session_id: string;
  /** When something last happened in it. */
  active?: string;
  /** True if it is archived ([journal.13]). */
  archived?: boolean;
  /** Size in the journal, in bytes. */
  bytes?: number;
  /** When it was opened. */
  created?: string;
  /** Working directory, if the hub chose one. */
  cwd?: string;
  /** Number of entries. */
  entries?: number;
  /** Host of the session, if there are several hosts. */
  host?: string;
  /** Number of its requests that wait for an answer: permissions and questions. */
  open_requests?: number;
  /** Number of its turns without an end. */
  open_turns?: number;
  /** State of the session. */
  state?: SessionState;
  /** A headline: its first input, or what the agent calls it. */
  title?: string;
}

/** Liveness of a process. */
export type Liveness = "down" | "starting" | "alive" | "answering" | "progressing" | "suspected";

/** The source of a log line. */
export type LogStream = "raw" | "stderr" | "host" | "meta";

/** Consecutive entries that the journal has lost ([journal.9]). */
export interface LostEntries {
  /** The first of them. */
  from: number;
  /** The last of them. */
  to: number;
}

export type MessageId = string;

/** A mode that may be chosen. */
export interface Mode {
  /** The value of `mode`. */
  id: string;
  /** The description. */
  description?: string;
  /** The text for a person. */
  name?: string;
}

/** A model that may be chosen. */
export interface Model {
  /** The value of `model`. */
  id: string;
  /** The description. */
  description?: string;
  /** The text for a person. */
  label?: string;
}

/** Tokens and cost of one model. */
export interface ModelUsage {
  /** Input tokens from a cache. */
  cache_read_tokens?: number;
  /** Input tokens put into a cache. */
  cache_write_tokens?: number;
  /** The cost in USD. */
  cost_usd?: number;
  /** Tokens that the model read. */
  input_tokens?: number;
  /** Tokens that it wrote. */
  output_tokens?: number;
  /** Provider of the model. */
  provider?: string;
  /** Output tokens spent on thinking. */
  reasoning_tokens?: number;
  /** Their sum. */
  total_tokens?: number;
}

/** Behavior when a hub reads more slowly than the session writes. */
export type OnSlow = "wait" | "skip";

/** Activity and use of an open session ([relay.4]). Times are in milliseconds. */
export interface OpenSession {
  /** Agent of the session. */
  agent_id: string;
  /** The session. */
  id: string;
  /** Time since it was opened. */
  age_ms?: number;
  /** Bytes of the agent's messages for it. */
  bytes_in?: number;
  /** Bytes of the messages for it that were written to the agent. */
  bytes_out?: number;
  /** Inputs that wait. */
  queued_inputs?: number;
  /** Permissions and questions that wait for an answer. */
  requests?: number;
  /** Silence of its turn, if it counts. */
  silent_ms?: number;
  /** Activity. */
  state?: SessionActivity;
  /** Running time of its turn. */
  turn_ms?: number;
  /** Bytes of its events that wait to be read. */
  unread_bytes?: number;
}

/** The effect of a permission option. */
export type OptionKind = "allow_once" | "allow_always" | "reject_once" | "reject_always";

/** A way to answer a permission request. */
export interface PermissionOption {
  /** The value of `option_id`. */
  id: string;
  /** The effect. An option of unknown kind neither allows nor rejects by itself. */
  kind?: OptionKind;
  /** The text for a person. */
  label?: string;
}

/** An entry of a plan. */
export interface PlanEntry {
  /** The text of the step. */
  content: string;
  /** The importance, in the agent's words. */
  priority?: string;
  /** The state of the step. */
  status?: PlanStatus;
}

/** The state of a plan's entry. */
export type PlanStatus = "pending" | "in_progress" | "completed";

/** A question's field. */
export interface QuestionField {
  /** The key of its value in `input.response`. */
  id: string;
  /** The choices, for `choice` and `choices`. */
  choices?: Choice[];
  /** Value without an answer. */
  default?: Json;
  /** The kind of answer. */
  kind?: FieldKind;
  /** The text for a person. */
  label?: string;
  /** True if it must be answered. */
  required?: boolean;
}

export type RequestId = string;

/** The conversation that a session resumes (`resume`). */
export interface Resume {
  /** True to begin a copy of the conversation, which stays as it is. Only for an adapter with the capability `forks_sessions`. */
  fork?: boolean;
  /** True to replay earlier messages, marked as history. */
  history?: boolean;
  /** The agent's own id of the session. */
  native_session_id?: string;
  /** The adapter's `session_params`, untouched. */
  params?: Json;
}

/** Rights of a hub in a session. */
export type Role = "control" | "observe";

/** Activity of an open session. */
export type SessionActivity = "unstarted" | "idle" | "running" | "stopping";

/** A session that can be resumed. */
export interface SessionEntry {
  /** The value of `resume.native_session_id`. */
  native_session_id: string;
  /** The agent whose conversation it is, in the answer of a relay ([relay.10]). */
  agent_id?: string;
  /** When it began, RFC 3339. */
  created_at?: string;
  /** Working directory. */
  cwd?: string;
  /** The number of messages. */
  message_count?: number;
  /** The session of the relay's journal that continues it, if there is one ([relay.10]). */
  session_id?: string;
  /** The text for a person. */
  title?: string;
  /** When it last changed, RFC 3339. */
  updated_at?: string;
}

/** State of a session of the journal. */
export type SessionState = "idle" | "running" | "detached" | "closed";

/** Severity of a problem. */
export type Severity = "ok" | "note" | "warning" | "error";

export type Sha256 = string;

/** The status of a turn's end. */
export type Status = "completed" | "stopped" | "failed" | "refused" | "limit";

/** Reason why a turn was stopped or a request was settled. */
export type StopReason = "user" | "timeout" | "policy" | "stopped" | "shutdown";

/** The way in which a system prompt joins the agent's own. */
export type SystemPromptMode = "append" | "replace";

export type ToolCallId = string;

export type TurnId = string;

/** Tokens and cost of a turn or of a session. */
export interface Usage {
  /** Input tokens that came from a cache. */
  cache_read_tokens?: number;
  /** Input tokens that were put into a cache. */
  cache_write_tokens?: number;
  /** The cost in USD. */
  cost_usd?: number;
  /** True if they are an estimate. */
  estimated?: boolean;
  /** Tokens that the model read, cached ones included. */
  input_tokens?: number;
  /** The model. */
  model?: string;
  /** The same per model. */
  models?: { [name: string]: ModelUsage };
  /** Tokens that it wrote. */
  output_tokens?: number;
  /** Provider of the model. */
  provider?: string;
  /** Output tokens that were spent on thinking. */
  reasoning_tokens?: number;
  /** The scope of the numbers. */
  scope?: UsageScope;
  /** Their sum, as the provider counts it. */
  total_tokens?: number;
}

/** The scope of usage numbers. */
export type UsageScope = "turn" | "session";

/** One line, as it may be written; a reader tolerates more. Unknown members are ignored, and null counts as absent. */
export type AdapterMessage =
  | OutputMessage
  | TurnCompleteMessage
  | FileOutputMessage
  | PermissionRequestMessage
  | SessionReadyMessage
  | SessionInfoMessage
  | SteerResultMessage
  | ThinkingMessage
  | MessageMessage
  | ToolStartMessage
  | ToolUpdateMessage
  | ToolEndMessage
  | PlanMessage
  | ProgressMessage
  | LogMessage
  | ErrorMessage
  | CustomMessage
  | UsageMessage
  | ContextUsageMessage
  | CompactionMessage
  | RateLimitMessage
  | SessionsListResultMessage
  | InputRequestMessage
  | WorkingMessage
  | PongMessage
  | SessionClosedMessage
  | PermissionCancelMessage
  | AgentsListResultMessage;

/** One line, as it may be written; a reader tolerates more. Unknown members are ignored, and null counts as absent. */
export type HostMessage =
  | SessionStartMessage
  | UserInputMessage
  | FileInputMessage
  | PermissionResponseMessage
  | StopMessage
  | SessionCloseMessage
  | SessionUpdateMessage
  | InputResponseMessage
  | FlowPauseMessage
  | FlowResumeMessage
  | PingMessage
  | SessionsListMessage
  | AgentsListMessage;

/** One line, as it may be written; a reader tolerates more. Unknown members are ignored, and null counts as absent. */
export type HubMessage =
  | SessionAttachMessage
  | SessionDetachMessage
  | SessionHistoryMessage
  | SessionEditMessage
  | SessionForkMessage;

/** One line, as it may be written; a reader tolerates more. Unknown members are ignored, and null counts as absent. */
export type RelayMessage =
  | SessionAttachedMessage
  | SessionRefusedMessage
  | InputResultMessage
  | SessionHistoryResultMessage
  | SessionEditResultMessage
  | LagMessage
  | HostFactMessage
  | SessionEditedMessage
  | TurnBeginMessage
  | InputSteeredMessage
  | FileDeliveredMessage
  | RequestDecidedMessage
  | StopRequestedMessage;

/** The members of each message, by its type. */
export const FIELDS: ReadonlyMap<string, readonly string[]> = new Map([
  ["agents.list", ["_meta","health","request_id","session_id","sessions","turn_id","type"]],
  ["agents.list.result", ["_meta","agents","request_id","session_id","sessions","turn_id","type"]],
  ["compaction", ["_meta","id","pre_tokens","session_id","summary","total_tokens","trigger","turn_id","type"]],
  ["context.usage", ["_meta","session_id","total_tokens","turn_id","type","used_tokens"]],
  ["custom", ["_meta","data","history","large","message_id","name","parent_tool_call_id","session_id","truncated","turn_id","type"]],
  ["error", ["_meta","category","fatal","history","message","message_id","parent_tool_call_id","session_id","turn_id","type"]],
  ["file.delivered", ["_meta","by","file_mime_type","file_name","session_id","sha256","size","turn_id","type"]],
  ["file.input", ["_meta","file_mime_type","file_name","file_path","session_id","sha256","size","turn_id","type"]],
  ["file.output", ["_meta","file_mime_type","file_name","file_path","session_id","sha256","size","turn_id","type"]],
  ["flow.pause", ["_meta","session_id","turn_id","type"]],
  ["flow.resume", ["_meta","session_id","turn_id","type"]],
  ["host.fact", ["_meta","context","deadline_ms","exit_code","fact","message","session_id","signal","silent_ms","source","turn_id","type"]],
  ["input.request", ["_meta","expires_at","fields","prompt","request_id","session_id","turn_id","type"]],
  ["input.response", ["_meta","cancelled","request_id","session_id","turn_id","type","values"]],
  ["input.result", ["_meta","duplicate","message_id","seq","session_id","turn_id","type"]],
  ["input.steered", ["_meta","by","content","files","message_id","session_id","turn_id","type"]],
  ["lag", ["_meta","from","session_id","to","turn_id","type"]],
  ["log", ["_meta","content","history","large","message_id","parent_tool_call_id","session_id","stream","truncated","turn_id","type"]],
  ["message", ["_meta","content","history","large","message_id","parent_tool_call_id","role","session_id","truncated","turn_id","type"]],
  ["output", ["_meta","channel","content","history","message_id","parent_tool_call_id","session_id","turn_id","type"]],
  ["permission.cancel", ["_meta","reason","request_id","session_id","turn_id","type"]],
  ["permission.request", ["_meta","description","diffs","expires_at","history","input","message_id","options","parent_tool_call_id","request_id","resource","session_id","title","tool","tool_call_id","truncated","turn_id","type"]],
  ["permission.response", ["_meta","always_allow","approved","end_turn","message","option_id","reason","request_id","session_id","turn_id","type","updated_input"]],
  ["ping", ["_meta","nonce","session_id","turn_id","type"]],
  ["plan", ["_meta","entries","history","message_id","parent_tool_call_id","session_id","turn_id","type"]],
  ["pong", ["_meta","nonce","session_id","turn_id","type"]],
  ["progress", ["_meta","history","message","message_id","parent_tool_call_id","session_id","turn_id","type"]],
  ["rate_limit", ["_meta","resets_at","session_id","status","turn_id","type","utilization","window"]],
  ["request.decided", ["_meta","always","approved","by","cancelled","name","option_id","reason","request_id","session_id","turn_id","type","updated_input","values"]],
  ["session.attach", ["_meta","after","env","epoch","extensions","mcp_servers","on_slow","protocol","role","session_id","turn_id","type"]],
  ["session.attached", ["_meta","agent_id","archived","copied","cwd","epoch","first_seq","last_seq","listener","queued","requests","role","session_id","state","title","turn_id","type"]],
  ["session.close", ["_meta","session_id","turn_id","type"]],
  ["session.closed", ["_meta","cause","error","reason","session_id","turn_id","type"]],
  ["session.detach", ["_meta","release","session_id","turn_id","type"]],
  ["session.edit", ["_meta","archived","request_id","session_id","title","turn_id","type"]],
  ["session.edit.result", ["_meta","error","request_id","session_id","turn_id","type"]],
  ["session.edited", ["_meta","archived","by","session_id","title","turn_id","type"]],
  ["session.fork", ["_meta","after","env","extensions","mcp_servers","protocol","seq","session_id","source","turn_id","type"]],
  ["session.history", ["_meta","from","request_id","session_id","to","turn_id","type"]],
  ["session.history.result", ["_meta","entries","error","lost","next","request_id","session_id","turn_id","type"]],
  ["session.info", ["_meta","adapter","allowed_tools","capabilities","commands","context","denied_tools","display_id","input_modes","mode","model","models","modes","native_session_id","options","options_applied","permission_mode","reasoning_effort","session_id","turn_id","type"]],
  ["session.ready", ["_meta","adapter","allowed_tools","capabilities","commands","context","denied_tools","display_id","extensions","input_modes","max_line","mode","model","models","modes","native_session_id","options","options_applied","permission_mode","protocol","reasoning_effort","session_id","turn_id","type"]],
  ["session.refused", ["_meta","last_seq","message","reason","session_id","turn_id","type"]],
  ["session.start", ["_meta","add_dirs","agent_id","allowed_domains","allowed_tools","cwd","denied_tools","env","exchange_dir","extensions","extra_args","inactivity_timeout_ms","iteration","max_cost_usd","max_line","max_tokens","max_turns","mcp_servers","mode","model","output_schema","permission_mode","protocol","reasoning_effort","resume","role","run_id","session_id","skills","system_prompt","system_prompt_mode","task_id","temperature","turn_id","turn_timeout_ms","type","user_id","variables"]],
  ["session.update", ["_meta","allowed_tools","denied_tools","mode","model","options","permission_mode","reasoning_effort","session_id","turn_id","type"]],
  ["sessions.list", ["_meta","agent_id","archived","cursor","cwd","extensions","id","limit","request_id","session_id","state","text","turn_id","type"]],
  ["sessions.list.result", ["_meta","entries","error","missing","next","request_id","session_id","sessions","turn_id","type"]],
  ["steer.result", ["_meta","delivered","message_id","reason","session_id","turn_id","type"]],
  ["stop", ["_meta","reason","session_id","turn_id","type"]],
  ["stop.requested", ["_meta","by","reason","session_id","turn_id","type"]],
  ["thinking", ["_meta","content","history","message_id","parent_tool_call_id","session_id","turn_id","type"]],
  ["tool.end", ["_meta","content","data","diffs","duration_ms","history","is_error","large","message_id","parent_tool_call_id","session_id","tool_call_id","truncated","turn_id","type"]],
  ["tool.start", ["_meta","history","input","kind","large","locations","message_id","parent_tool_call_id","session_id","title","tool","tool_call_id","truncated","turn_id","type"]],
  ["tool.update", ["_meta","content","data","history","input","large","locations","message_id","parent_tool_call_id","session_id","stream","title","tool_call_id","truncated","turn_id","type"]],
  ["turn.begin", ["_meta","by","content","files","message_id","queued","session_id","turn_id","type"]],
  ["turn.complete", ["_meta","artifacts","cause","clear_session","delivered","duration_ms","error","exit_code","large","model","native_session_id","num_turns","provider","result","session_id","session_params","signal","status","stop_reason","summary","truncated","turn_id","type","usage"]],
  ["usage", ["_meta","cache_read_tokens","cache_write_tokens","cost_usd","estimated","input_tokens","model","models","output_tokens","provider","reasoning_tokens","scope","session_id","total_tokens","turn_id","type"]],
  ["user.input", ["_meta","content","large","limits","message_id","mode","session_id","turn_id","type"]],
  ["working", ["_meta","session_id","turn_id","type"]],
]);
