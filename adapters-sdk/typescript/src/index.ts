/**
 * Write an adapter: one handler.
 *
 * The package does the rest of the protocol: it reads and writes the lines, runs sessions at the same time and the turns of
 * one session in order, ends each turn exactly once, carries stops and permissions, folds rich events down for hosts that
 * know the core alone, answers `ping`, and ends the process soon after its input ends. Clause ids such as [turn.4] point into
 * protocol/SPEC.md.
 *
 * @module
 */
export { Failure } from "./adapter.js";
export type { Adapter, Check, Description, FailureOptions, FileInput, Handler } from "./adapter.js";
export type { SessionChanges, SessionInfo, SessionOptions } from "./adapter.js";
export { fileTypeOf } from "./files.js";
export type { Extension } from "./fold.js";
export { config, serve } from "./process.js";
export type { ServeOptions } from "./process.js";
export type { Answer, Decision } from "./requests.js";
export type { Event, Session, Steer } from "./session.js";
export type { Input, Permission, Question, Turn } from "./turn.js";
export type * from "./types.js";
