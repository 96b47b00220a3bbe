import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Problem } from "../core/api.ts";
import { jsonText } from "../core/find.ts";
import { clock, who } from "../core/format.ts";
import type { Decision, Field, PermissionRow, QuestionRow, RequestRow } from "../core/rows.ts";
import { visible } from "../core/safe.ts";
import { obj } from "../core/types.ts";
import type { Json } from "../core/types.ts";
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
  const why = decision.reason !== "" ? ` (${visible(decision.reason)})` : "";
  const party = decision.by !== "" ? ` by ${visible(who(decision.by, own))}` : "";
  const when = clock(decision.time);
  return `${what}${option ? `: ${visible(option)}` : ""}${why}${party}${when ? ` at ${when}` : ""}`;
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
    try {
      store.say("");
      await store.api.answer(store.id, row.request, answer);
    } catch (error) {
      // The card goes with the answer of another: what this page's answer came to stands elsewhere.
      if (error instanceof Problem && error.status === 409) {
        const by = row.decision?.by ?? /decided by (\S+) before/.exec(error.detail)?.[1];
        store.say(`${by === undefined ? "The request is not open any more" : `${capital(visible(who(by, me?.name ?? "")))} answered first`}: your answer does not count.`);
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
        <strong>{row.kind === "permission" ? visible(row.title || row.tool) : "Question"}</strong>{" "}
        {visible(row.kind === "permission" ? row.description : row.prompt)}
      </p>
      {row.kind === "permission" && asked && <Resource row={row} />}
      {row.kind === "permission" && asked && <Details row={row} open={false} />}
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

function Resource({ row }: { row: PermissionRow }): JSX.Element | null {
  return row.resource === "" ? null : <pre class="resource" tabIndex={0} role="group" aria-label="What it acts on">{visible(row.resource)}</pre>;
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
  const [message, say] = useState("");
  const [more, showMore] = useState(false);
  const may = me?.may_approve !== false;
  const [choice, choose] = useState("");
  // What holds for this time comes first, allow before deny: both are in one row of a phone.
  const known = row.options.filter((option) => Object.hasOwn(KINDS, option.kind))
    .sort((one, other) => ORDER.indexOf(one.kind) - ORDER.indexOf(other.kind));
  // What an option without a known kind means, its label alone says, and the agent wrote that: a person decides apart.
  const free = row.options.filter((option) => !Object.hasOwn(KINDS, option.kind));
  const chosen: { [member: string]: Json } = choice !== "" ? { option_id: choice } : {};
  const [shown] = useState(() => Math.round(performance.now()));
  const deny = (end: boolean, option: string): Promise<void> =>
    send({
      approved: false,
      ...(option !== "" ? { option_id: option } : {}),
      ...(message.trim() !== "" ? { message: message.trim() } : {}),
      ...(end ? { end_turn: true } : {}),
    });
  return (
    <section class="waiting" aria-label={`Permission: ${visible(row.tool)}`} data-request={row.request} data-shown={shown} tabIndex={-1}>
      <header>
        <span class="badge accent">permission</span>
        <strong>{visible(row.title || row.tool)}</strong>
        {row.title !== "" && <span class="dim">{visible(row.tool)}</span>}
        {row.expires !== "" && <span class="dim">until {clock(row.expires)}</span>}
      </header>
      <p>{visible(row.description)}</p>
      <Resource row={row} />
      <Details row={row} open />
      {may ? (
        <div class="actions">
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
              <option value="">no option</option>
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
            onInput={(event) => say(event.currentTarget.value)}
          />}
          {more && <button type="button" disabled={busy} onClick={() => deny(true, "")}>Deny and end the turn</button>}
        </div>
      ) : (
        <p class="dim">This token may not answer permissions. <code>trunkline token new --scope control --approve</code> makes one that may.</p>
      )}
      <Fault text={fault} />
    </section>
  );
}

/** The ids of fields are an agent's words, such as `constructor`. */
const own = (values: { [id: string]: Json }, id: string): Json | undefined => (Object.hasOwn(values, id) ? values[id] : undefined);

function Question({ row }: { row: QuestionRow }): JSX.Element {
  const { me } = useShell();
  const { busy, fault, send, fail } = useAnswer(row);
  const [values, set] = useState<{ [id: string]: Json }>(() => {
    const known = row.fields.filter((field) => field.initial !== undefined && field.initial !== null);
    return Object.fromEntries(known.map((field) => [field.id, field.initial as Json]));
  });
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
      <header>
        <span class="badge accent">question</span>
        <strong>{visible(row.prompt)}</strong>
        {row.expires !== "" && <span class="dim">until {clock(row.expires)}</span>}
      </header>
      {me?.scope === "observe" ? (
        <p class="dim">This token may only read.</p>
      ) : (
        <form onSubmit={submit} autocomplete="off">
          {row.fields.map((field) => (
            <FieldInput field={field} value={own(values, field.id)} set={(value) => set({ ...values, [field.id]: value })} name={`${row.key}`} />
          ))}
          <div class="actions">
            <button type="submit" class="allow" disabled={busy}>Answer</button>
            <button type="button" disabled={busy} onClick={() => send({ cancelled: true })}>Do not answer</button>
          </div>
        </form>
      )}
      <Fault text={fault} />
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
            {visible(choice.label)} {choice.description !== "" && <span class="dim">{visible(choice.description)}</span>}
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
