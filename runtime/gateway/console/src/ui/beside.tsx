import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Completions } from "../core/complete.ts";
import { visible } from "../core/safe.ts";
import type { Choice } from "../core/types.ts";
import { useSession, useShell } from "./hooks.ts";

/** Efforts that agents commonly have; the protocol has no list of an agent's own. */
const EFFORTS = ["low", "medium", "high"].map((id) => ({ id, label: id }));

/** Model, mode and effort of the session, changed at once. */
export function Choices(): JSX.Element | null {
  const store = useSession();
  const { me } = useShell();
  const { settings } = store.fold;
  if (me?.scope === "observe") return null;
  const set = (name: string) => async (value: string): Promise<void> => {
    try {
      store.say("");
      await store.api.settings(store.id, { [name]: value });
    } catch (error) {
      store.say(`It was not changed: ${visible(error instanceof Error ? error.message : "not sent")}`);
    }
  };
  return (
    <p class="beside">
      {settings.models.length > 0 && <Choose label="Model" value={settings.model} choices={settings.models} set={set("model")} />}
      {settings.modes.length > 0 && <Choose label="Mode" value={settings.mode} choices={settings.modes} set={set("mode")} />}
      {settings.effort !== "" && <Choose label="Effort" value={settings.effort} choices={EFFORTS} set={set("reasoning_effort")} />}
    </p>
  );
}

/** The value stays what is in force until the agent reports another one. */
function Choose(props: { label: string; value: string; choices: Choice[]; set: (value: string) => Promise<void> }): JSX.Element {
  const { label, value, choices, set } = props;
  const field = useRef<HTMLSelectElement>(null);
  useEffect(() => {
    if (field.current) field.current.value = value;
  });
  return (
    <select
      ref={field}
      aria-label={label}
      title={label}
      value={value}
      onChange={(event) => {
        const chosen = event.currentTarget.value;
        event.currentTarget.value = value;
        if (chosen !== value && chosen !== "") void set(chosen);
      }}
    >
      {value === "" && <option value="">{label}</option>}
      {value !== "" && !choices.some((choice) => choice.id === value) && <option value={value}>{visible(value)}</option>}
      {choices.map((choice) => <option value={choice.id}>{visible(choice.label)}</option>)}
    </select>
  );
}

/** The step at which the plan of the running turn is; the whole plan on demand. */
export function PlanLine(): JSX.Element | null {
  const { fold } = useSession();
  const [open, show] = useState(false);
  const entries = fold.plan?.entries ?? [];
  if (fold.running === "" || entries.length === 0) return null;
  const index = entries.findIndex((entry) => entry.status === "in_progress");
  const done = entries.filter((entry) => entry.status === "completed").length;
  const at = index >= 0 ? index : Math.min(done, entries.length - 1);
  return (
    <div class="plan-line">
      <button type="button" class="quiet small" aria-expanded={open} onClick={() => show(!open)}>
        <i class="caret" aria-hidden="true" />
        <span>{done === entries.length ? `All ${done} steps are done` : `${at + 1} of ${entries.length}: ${visible((entries[at]?.content ?? "").slice(0, 200))}`}</span>
      </button>
      {open && (
        <ol>
          {entries.slice(0, 200).map((entry) => (
            <li class={Object.hasOwn(STATES, entry.status) ? entry.status : ""}>{visible(entry.content)}<span class="dim"> {Object.hasOwn(STATES, entry.status) ? STATES[entry.status] : ""}</span></li>
          ))}
        </ol>
      )}
    </div>
  );
}

const STATES: { [status: string]: string } = { completed: "done", in_progress: "in work", pending: "" };

/** The list of completions; the field keeps the focus. */
export function CompletionList(props: { found: Completions; chosen: number; pick: (at: number) => void }): JSX.Element {
  const { found, chosen, pick } = props;
  const box = useRef<HTMLUListElement>(null);
  useEffect(() => box.current?.children[chosen]?.scrollIntoView({ block: "nearest" }), [chosen, found]);
  return (
    <ul class="completions" role="listbox" id="completions" aria-label={found.kind === "command" ? "Commands of the agent" : "Files of this session"} ref={box}>
      {found.options.map((option, at) => (
        // The field would lose the focus by a click.
        <li key={option.label} id={`completion-${at}`} role="option" aria-selected={at === chosen} onMouseDown={(event) => event.preventDefault()} onClick={() => pick(at)}>
          <span class="name">{visible(option.label)}</span> <span class="dim">{visible(option.detail.slice(0, 300))}</span>
        </li>
      ))}
    </ul>
  );
}
