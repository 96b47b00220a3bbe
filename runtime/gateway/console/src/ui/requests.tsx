import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem } from "../core/api.ts";
import { answerDrafts, draftText, inputFields } from "../core/drafts.ts";
import { jsonText } from "../core/find.ts";
import { clock, who } from "../core/format.ts";
import type { Decision, Field, PermissionRow, QuestionRow, RequestRow } from "../core/rows.ts";
import { visible } from "../core/safe.ts";
import { obj, str } from "../core/types.ts";
import type { Json } from "../core/types.ts";
import { categoryText, permissionText, permissionWords } from "../core/words.ts";
import { Fault } from "./bits.tsx";
import { Changes } from "./changes.tsx";
import { Folded } from "./fold.tsx";
import { useRequestSession, useShell } from "./hooks.ts";
import { Value } from "./text.tsx";

/** How a request ended, who answered and when. */
export function decisionText(decision: Decision, row: RequestRow, own: string): string {
  const option = row.kind === "permission" ? row.options.find((each) => each.id === decision.option)?.label : undefined;
  const what = decision.cancelled && decision.approved !== true
    ? "not answered"
    : row.kind === "question" ? "answered" : decision.approved === true ? "allowed" : "denied";
  const why = decision.reason !== "" ? ` (${visible(categoryText(decision.reason))})` : "";
  const party = decision.by !== "" ? ` by ${visible(partyOf(decision, own))}` : "";
  const when = clock(decision.time);
  const edited = decision.input === undefined ? "" : " with another input";
  return `${what}${edited}${option ? `: ${visible(option)}` : ""}${why}${party}${when ? ` at ${when}` : ""}`;
}

/** Who decided: the person, if the client named one, and the client. */
export function partyOf(decision: Decision, own: string): string {
  const client = who(decision.by, own);
  return decision.name === undefined ? client : `${decision.name} (${client})`;
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

function useAnswer(row: RequestRow): {
  busy: boolean;
  fault: string;
  send: (answer: { [member: string]: Json }) => Promise<void>;
  fail: (why: string) => void;
} {
  const store = useRequestSession();
  const { me } = useShell();
  const [busy, work] = useState(false);
  const [fault, fail] = useState("");
  const send = async (answer: { [member: string]: Json }): Promise<void> => {
    work(true);
    fail("");
    const draft = answerDrafts.take(store.id, row.request);
    try {
      store.say("");
      await store.api.answer(store.id, row.request, answer);
    } catch (error) {
      const isDecided = error instanceof Problem && error.status === 409;
      if (!isDecided) answerDrafts.change(store.id, row.request, draft);
      // The card goes with the answer of another: what this page's answer came to stands elsewhere.
      if (isDecided) {
        const by = row.decision?.by ?? /decided by (\S+) before/.exec(error.detail)?.[1];
        const party = by === undefined ? "" : who(by, me?.name ?? "");
        const first = party === "" ? "The request is not open any more" : `${capital(visible(party))} answered first`;
        store.say(party === "you" ? "You answered in another page before, so this answer does not count." : `${first}: your answer does not count.`, draftText(draft, row));
      }
      fail(error instanceof Error ? error.message : "not sent");
    }
    work(false);
  };
  return { busy, fault, send, fail };
}

/** A request in the transcript: what was asked, and how it ended. */
export function Request({ row }: { row: RequestRow }): JSX.Element {
  const { me } = useShell();
  const { decision } = row;
  // One that waits stands above the input, with all that there is to know.
  const asked = decision !== undefined || row.history;
  const tone = !decision ? "waits" : decision.approved === true || (row.kind === "question" && !decision.cancelled) ? "yes" : "no";
  return (
    <div class={`request ${tone}`}>
      <p class="asked">
        {row.kind === "permission" ? <Headline row={row} /> : <><strong>Question</strong> {visible(row.prompt)}</>}
      </p>
      {row.kind === "permission" && asked && <Resource row={row} />}
      {row.kind === "permission" && asked && <Details row={row} open={false} />}
      {decision?.input !== undefined && (
        <Folded id={`${row.key} edited`} summary="Input as it was changed">{() => <Value value={decision.input} label="Changed input" />}</Folded>
      )}
      {decision?.always !== undefined && <p class="dim">Such requests are allowed from now on: <code>{visible(decision.always)}</code></p>}
      {row.kind === "question" && decision && <Values row={row} decision={decision} />}
      <p class="decision">{decision ? decisionText(decision, row, me?.name ?? "") : row.history ? "replayed" : "waits for an answer"}</p>
    </div>
  );
}

function Values({ row, decision }: { row: QuestionRow; decision: Decision }): JSX.Element {
  return (
    <dl class="values">
      {row.fields.filter((field) => Object.hasOwn(decision.values, field.id)).map((field) => {
        const value = decision.values[field.id];
        const secret = field.kind === "secret" || obj(value).redacted === true;
        return [<dt>{visible(field.label)}</dt>, <dd>{secret ? "•••" : visible(jsonText(value).slice(0, 4000))}</dd>];
      })}
    </dl>
  );
}

/** What will happen, in our words; then the agent's. */
export function Headline({ row }: { row: PermissionRow }): JSX.Element {
  const { verb, object, title, description } = permissionWords(row);
  return (
    <>
      <strong>{verb} <code>{visible(object)}</code></strong>
      {title !== "" && <> <span class="own">{visible(title)}</span></>}
      {description !== "" && <> {visible(description)}</>}
    </>
  );
}

function Resource({ row }: { row: PermissionRow }): JSX.Element | null {
  return row.resource === "" || permissionWords(row).whole ? null : <pre class="resource" tabIndex={0} role="group" aria-label="What it acts on">{visible(row.resource)}</pre>;
}

function Details({ row, open }: { row: PermissionRow; open: boolean }): JSX.Element {
  return (
    <>
      {row.diffs.map((diff, at) => <Changes diff={diff} id={`${row.key} diff ${at} ${open}`} open={open && at < 4} />)}
      {row.input !== undefined && row.input !== null && (
        <Folded id={`${row.key} input ${open}`} summary="Input">
          {() => <Value value={row.input} label="Input" />}
        </Folded>
      )}
      {row.truncated && <p class="warning">Something of this request was cut or left out.</p>}
    </>
  );
}

/** A request that waits, with the means to answer it. Nothing is chosen beforehand. */
export function Waiting({ row }: { row: RequestRow }): JSX.Element {
  return row.kind === "permission" ? <Permission row={row} /> : <Question row={row} />;
}

const KINDS: { [kind: string]: string } = {
  allow_once: "Allow", allow_always: "Always allow", reject_once: "Deny", reject_always: "Always deny",
};

const ORDER = ["allow_once", "reject_once", "allow_always", "reject_always"];

/** Keys answer for this time only: what holds for always is chosen by the button. */
const KEYS: { [kind: string]: string } = { allow_once: "a", reject_once: "d" };

/** What the option does comes first, in our words: a label of the agent may say anything. */
function optionText(option: PermissionRow["options"][number]): JSX.Element {
  const what = KINDS[option.kind] ?? "";
  const label = visible(option.label);
  // What is said already is not said again: "Always allow: Always allow git log".
  const rest = label.toLowerCase().startsWith(what.toLowerCase()) ? label.slice(what.length).trim() : label;
  return <>{what}{rest === "" || rest.toLowerCase() === "once" ? null : <span class="label"> {rest}</span>}</>;
}

function Permission({ row }: { row: PermissionRow }): JSX.Element {
  const { me } = useShell();
  const { busy, fault, send } = useAnswer(row);
  const session = useRequestSession();
  const [draft] = useState(() => answerDrafts.get(session.id, row.request));
  const [message, say] = useState(draft.message ?? "");
  const [more, showMore] = useState(message !== "");
  const [part, show] = useState<"" | "edit" | "always">(draft.isEditing ? "edit" : "");
  const open = (next: "" | "edit" | "always"): void => {
    show(next);
    answerDrafts.change(session.id, row.request, { isEditing: next === "edit" });
  };
  const may = me?.may_approve !== false;
  const [choice, choose] = useState("");
  // What holds for this time comes first, allow before deny: both are in one row of a phone.
  const known = row.options.filter((option) => Object.hasOwn(KINDS, option.kind))
    .sort((one, other) => ORDER.indexOf(one.kind) - ORDER.indexOf(other.kind));
  // What an option without a known kind means, its label alone says, and the agent wrote that: a person decides apart.
  const free = row.options.filter((option) => !Object.hasOwn(KINDS, option.kind));
  const chosen: { [member: string]: Json } = choice !== "" ? { option_id: choice } : {};
  const once = known.find((option) => option.kind === "allow_once");
  const allowed: { [member: string]: Json } = { approved: true, ...(once ? { option_id: once.id } : chosen) };
  const words = permissionWords(row);
  const [shown] = useState(() => Math.round(performance.now()));
  const deny = (end: boolean, option: string): Promise<void> =>
    send({
      approved: false,
      ...(option !== "" ? { option_id: option } : {}),
      ...(message.trim() !== "" ? { message: message.trim() } : {}),
      ...(end ? { end_turn: true } : {}),
    });
  return (
    <section class="waiting" aria-label={`Permission: ${visible(permissionText(row))}`} data-request={row.request} data-shown={shown} tabIndex={-1}>
      <header {...scrolled(words.object + row.tool)}>
        <span class="badge accent">permission</span>
        <strong>{words.verb} <code>{visible(words.object)}</code></strong>
        {words.object !== row.tool && <span class="dim">{visible(row.tool)}</span>}
        {row.expires !== "" && <span class="dim">until {clock(row.expires)}</span>}
      </header>
      <div class="body">
        {words.title !== "" && <p class="own">{visible(words.title)}</p>}
        {words.description !== "" && <p>{visible(words.description)}</p>}
        <Resource row={row} />
        <Details row={row} open />
        {may && part === "edit" && <EditedInput row={row} busy={busy} send={(input) => send({ ...allowed, updated_input: input })} close={() => open("")} />}
        {may && part === "always" && <LastingRule row={row} busy={busy} send={(always) => send({ ...allowed, always })} close={() => open("")} />}
        {may && part !== "" ? null : may ? (
          <div class="actions" role="group" aria-label="Answer">
            {known.map((option) => (
              <button
                type="button"
                disabled={busy}
                class={option.kind.startsWith("allow") ? "allow" : "deny"}
                aria-keyshortcuts={KEYS[option.kind]}
                onClick={() => (option.kind.startsWith("allow")
                  ? send({ approved: true, option_id: option.id })
                  : deny(false, option.id))}
              >
                {optionText(option)}
              </button>
            ))}
            {free.length > 0 && (
              <select aria-label="Option" value={choice} onChange={(event) => choose(event.currentTarget.value)}>
                <option value="">Other…</option>
                {free.map((option) => <option value={option.id}>{visible(option.label)}</option>)}
              </select>
            )}
            {!known.some((option) => option.kind.startsWith("allow")) && (
              <button type="button" class="allow" aria-keyshortcuts={KEYS.allow_once} disabled={busy} onClick={() => send({ approved: true, ...chosen })}>Allow</button>
            )}
            {!known.some((option) => option.kind.startsWith("reject")) && (
              <button type="button" class="deny" aria-keyshortcuts={KEYS.reject_once} disabled={busy} onClick={() => deny(false, choice)}>Deny</button>
            )}
            <button type="button" class="quiet" aria-expanded={more} onClick={() => showMore(!more)}>More</button>
            {more && <input
              type="text"
              value={message}
              maxLength={4000}
              placeholder="With a denial: what to tell the agent"
              aria-label="What to tell the agent with a denial"
              onInput={(event) => {
                say(event.currentTarget.value);
                answerDrafts.change(session.id, row.request, { message: event.currentTarget.value });
              }}
            />}
            {more && <button type="button" disabled={busy} onClick={() => deny(true, "")}>Deny and end the turn</button>}
            {more && row.input !== undefined && row.input !== null && <button type="button" disabled={busy} onClick={() => open("edit")}>Edit the input…</button>}
            {more && <button type="button" disabled={busy} onClick={() => open("always")}>Allow from now on…</button>}
          </div>
        ) : (
          <p class="dim">This token may not answer permissions. <code>trunkline token new --scope control --approve</code> makes one that may.</p>
        )}
        <Fault text={fault} />
      </div>
    </section>
  );
}

/** Characters of a headline that surely fit into its height. A longer one scrolls, also by keys. */
const SHORT = 70;
const scrolled = (text: string): { tabIndex?: number; role?: "group"; "aria-label"?: string } =>
  text.length > SHORT ? { tabIndex: 0, role: "group", "aria-label": "Headline" } : {};

/** The longest input that can be edited. */
const MAX_EDITED = 200_000;

/** The fields of a tool call's input, to be edited. */
function EditedInput(props: { row: PermissionRow; busy: boolean; send: (input: Json) => void; close: () => void }): JSX.Element {
  const { row, busy, send, close } = props;
  const whole = typeof row.input !== "object" || row.input === null || Array.isArray(row.input);
  const session = useRequestSession();
  const [fields, set] = useState(() => {
    const { edits } = answerDrafts.get(session.id, row.request);
    return inputFields(row.input).map((field, at) => ({ ...field, before: field.text, text: edits?.[at] ?? field.text }));
  });
  const [fault, fail] = useState("");
  const submit = (event: Event): void => {
    event.preventDefault();
    const members: [string, Json][] = [];
    for (const field of fields) {
      try {
        // What was not changed goes back as it came.
        members.push([field.name, field.text === field.before ? field.value : field.isText ? field.text : (JSON.parse(field.text) as Json)]);
      } catch {
        return fail(`${visible(field.name) || "The input"} is not JSON`);
      }
    }
    if (fields.every((field) => field.text === field.before)) return fail("nothing is changed");
    send(whole ? (members[0]?.[1] ?? null) : Object.fromEntries(members));
  };
  if (fields.reduce((sum, field) => sum + field.text.length, 0) > MAX_EDITED) {
    return <p class="dim">The input is too long to be edited here. <button type="button" class="quiet small" onClick={close}>Back</button></p>;
  }
  return (
    <form class="edited" aria-label="Edit the input" onSubmit={submit} autocomplete="off">
      {fields.map((field, at) => (
        <label class="field" key={at}>
          <span>{visible(field.name) || "Input"}{field.isText ? "" : " (JSON)"}</span>
          <textarea
            rows={Math.min(12, field.text.split("\n").length)}
            value={field.text}
            spellcheck={false}
            onInput={(event) => {
              const text = event.currentTarget.value;
              const all = fields.map((each, index) => (index === at ? { ...each, text } : each));
              set(all);
              answerDrafts.change(session.id, row.request, { edits: all.map((each) => each.text) });
            }}
          />
        </label>
      ))}
      <Fault text={fault} />
      <p class="dim">The tool runs with this input. The agent's deny rules judge it again.</p>
      <div class="actions" role="group" aria-label="Answer">
        <button type="submit" class="allow" disabled={busy}>Allow with this input</button>
        <button type="button" disabled={busy} onClick={close}>Back</button>
      </div>
    </form>
  );
}

/** The pattern that allows exactly this request, shown before it becomes a rule. */
function LastingRule(props: { row: PermissionRow; busy: boolean; send: (pattern: string) => void; close: () => void }): JSX.Element {
  const { row, busy, send, close } = props;
  const session = useRequestSession();
  const [pattern, know] = useState<string | undefined>(undefined);
  const [fault, fail] = useState("");
  useEffect(() => {
    session.api.show(session.id).then((attached) => {
      const patterns = obj(attached.always_patterns);
      know(Object.hasOwn(patterns, row.request) ? str(patterns[row.request]) : "");
    }, (error: unknown) => fail(error instanceof Error ? error.message : "not loaded"));
  }, []);
  return (
    <div class="lasting">
      <Fault text={fault} />
      {pattern === undefined && fault === "" && <p class="dim">Reading the pattern …</p>}
      {pattern === "" && <p>No pattern allows exactly this request, so it can only be allowed once.</p>}
      {pattern !== undefined && pattern !== "" && (
        <>
          <p>Allow this request, and from now on all requests of this agent that fit <code>{visible(pattern)}</code>.</p>
          <p class="dim">The rule holds in every session, also in later ones. <a href="#/agents">Agents</a> lists the rules and removes them.</p>
        </>
      )}
      <div key={pattern} class="actions" role="group" aria-label="Answer">
        {pattern !== undefined && pattern !== "" && <button type="button" class="allow" disabled={busy} onClick={() => send(pattern)}>Allow, and keep the rule</button>}
        <button type="button" disabled={busy} onClick={close}>Back</button>
      </div>
    </div>
  );
}

/** The ids of fields are an agent's words, such as `constructor`. */
const own = (values: { [id: string]: Json }, id: string): Json | undefined => (Object.hasOwn(values, id) ? values[id] : undefined);

function Question({ row }: { row: QuestionRow }): JSX.Element {
  const { me } = useShell();
  const { busy, fault, send, fail } = useAnswer(row);
  const session = useRequestSession();
  const [values, keep] = useState<{ [id: string]: Json }>(() => {
    const known = row.fields.filter((field) => field.initial !== undefined && field.initial !== null);
    return answerDrafts.get(session.id, row.request).values ?? Object.fromEntries(known.map((field) => [field.id, field.initial as Json]));
  });
  const set = (changed: { [id: string]: Json }): void => {
    keep(changed);
    answerDrafts.change(session.id, row.request, { values: changed });
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    const answers = new Map<string, Json>();
    for (const field of row.fields) {
      const value = own(values, field.id);
      if (field.kind === "number" && typeof value === "string" && value.trim() !== "") {
        const number = Number(value.trim().replace(",", "."));
        if (!Number.isFinite(number)) return fail(`${visible(field.label)} is not a number`);
        answers.set(field.id, number);
      } else if (value !== undefined && value !== "") answers.set(field.id, value);
      else if (field.kind === "boolean") answers.set(field.id, false);
    }
    void send({ values: Object.fromEntries(answers) });
  };
  return (
    <section class="waiting" aria-label="Question" data-request={row.request} tabIndex={-1}>
      <header {...scrolled(row.prompt)}>
        <span class="badge accent">question</span>
        <strong>{visible(row.prompt)}</strong>
        {row.expires !== "" && <span class="dim">until {clock(row.expires)}</span>}
      </header>
      <div class="body">
        {me?.scope === "observe" ? (
          <p class="dim">This token may only read.</p>
        ) : (
          <form onSubmit={submit} autocomplete="off">
            {row.fields.map((field) => (
              <FieldInput field={field} value={own(values, field.id)} set={(value) => set({ ...values, [field.id]: value })} name={`${row.key}`} />
            ))}
            <div class="actions" role="group" aria-label="Answer">
              <button type="submit" class="allow" disabled={busy}>Answer</button>
              <button type="button" disabled={busy} onClick={() => send({ cancelled: true })}>Do not answer</button>
            </div>
          </form>
        )}
        <Fault text={fault} />
      </div>
    </section>
  );
}

function FieldInput(props: { field: Field; value: Json | undefined; set: (value: Json) => void; name: string }): JSX.Element {
  const { field, value, set } = props;
  const label = visible(field.label) + (field.required ? " *" : "");
  const name = `${props.name} ${field.id}`;
  if (field.kind === "boolean") {
    return (
      <label class="check">
        <input type="checkbox" checked={value === true} onChange={(event) => set(event.currentTarget.checked)} /> {label}
      </label>
    );
  }
  if (field.kind === "choice" || field.kind === "choices") {
    const many = field.kind === "choices";
    const chosen = Array.isArray(value) ? value : [];
    const isProposed = (id: string): boolean => field.initial === id || (Array.isArray(field.initial) && field.initial.includes(id));
    return (
      <fieldset>
        <legend>{label}</legend>
        {field.choices.map((choice) => (
          <label class="check">
            <input
              type={many ? "checkbox" : "radio"}
              name={name}
              required={field.required && !many}
              checked={many ? chosen.includes(choice.id) : value === choice.id}
              onChange={(event) => {
                const on = event.currentTarget.checked;
                if (!many) set(choice.id);
                else set(on ? [...chosen, choice.id] : chosen.filter((each) => each !== choice.id));
              }}
            />{" "}
            <span>{visible(choice.label)}{isProposed(choice.id) && <> <span class="badge">agent's default</span></>}</span> {choice.description !== "" && <span class="dim">{visible(choice.description)}</span>}
          </label>
        ))}
      </fieldset>
    );
  }
  const number = field.kind === "number";
  return (
    <label class="field">
      <span>{label}</span>
      <input
        {...(field.kind === "secret"
          ? { type: "password" as const, autocomplete: "new-password" as const }
          : { type: "text" as const, inputMode: number ? ("decimal" as const) : ("text" as const), autocomplete: "off" as const })}
        required={field.required}
        value={typeof value === "string" || typeof value === "number" ? value : ""}
        onInput={(event) => {
          set(event.currentTarget.value);
        }}
      />
    </label>
  );
}
