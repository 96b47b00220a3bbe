/** What the daemon says, as far as the console reads it. Each value is untrusted: read it with the functions below. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Obj = { [key: string]: Json | undefined };

/** A message of a session with a number: an entry of the journal, or one without `seq` that is no entry. */
export interface Entry extends Obj {
  type: string;
}

export interface Choice {
  id: string;
  label: string;
}

export interface ListedSession {
  id: string;
  agent: string;
  title: string;
  state: string;
  cwd: string;
  created: string;
  active: string;
  entries: number;
  bytes: number;
  openTurns: number;
  openRequests: number;
  /** Which has it, where there are several. */
  host: string;
  archived: boolean;
}

/** A conversation that an agent itself keeps. */
export interface Conversation {
  id: string;
  title: string;
  cwd: string;
  updated: string;
  /** The session that continues it already. */
  session: string;
}

export interface Me {
  scope: string;
  /** Whether it answers permissions. */
  may_approve: boolean;
  version: string;
  name: string;
}

export const str = (value: unknown): string => (typeof value === "string" ? value : "");
export const num = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) ? value : undefined;
export const obj = (value: unknown): Obj =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Obj) : {};
export const list = (value: unknown): Json[] => (Array.isArray(value) ? value : []);

/** The choices of a list of `{id, label|name}`; what has no id is left out. */
export function choices(value: unknown): Choice[] {
  return list(value)
    .map((each) => obj(each))
    .filter((each) => str(each.id) !== "")
    .map((each) => ({ id: str(each.id), label: str(each.label) || str(each.name) || str(each.id) }));
}

export function listed(value: unknown): ListedSession {
  const it = obj(value);
  return {
    id: str(it.session_id) || str(it.id),
    agent: str(it.agent_id),
    title: str(it.title),
    state: str(it.state),
    cwd: str(it.cwd),
    created: str(it.created),
    active: str(it.active),
    entries: num(it.entries) ?? 0,
    bytes: num(it.bytes) ?? 0,
    openTurns: num(it.open_turns) ?? 0,
    openRequests: num(it.open_requests) ?? 0,
    host: str(it.host),
    archived: it.archived === true,
  };
}

export function conversation(value: unknown): Conversation {
  const it = obj(value);
  return {
    id: str(it.native_session_id),
    title: str(it.title),
    cwd: str(it.cwd),
    updated: str(it.updated_at) || str(it.created_at),
    session: str(it.session_id),
  };
}
