import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { visible } from "../core/safe.ts";
import type { Choice } from "../core/types.ts";
import { Dialog, Fault } from "./bits.tsx";
import { useSession, useShell } from "./hooks.ts";

/** A value out of a list, or a free one where there is no list. */
export function Pick(props: { label: string; value: string; choices: Choice[]; set: (value: string) => void; empty: string }): JSX.Element {
  const { label, value, choices, set, empty } = props;
  const known = choices.some((choice) => choice.id === value);
  return (
    <label class="field">
      <span>{label}</span>
      {choices.length > 0 ? (
        <select value={value} onChange={(event) => set(event.currentTarget.value)}>
          {(value === "" || empty !== "") && <option value="">{empty}</option>}
          {value !== "" && !known && <option value={value}>{visible(value)}</option>}
          {choices.map((choice) => <option value={choice.id}>{visible(choice.label)}</option>)}
        </select>
      ) : (
        <input type="text" value={value} maxLength={256} placeholder={empty} onInput={(event) => set(event.currentTarget.value)} />
      )}
    </label>
  );
}

export function SettingsDialog({ close }: { close: () => void }): JSX.Element {
  const store = useSession();
  const { me } = useShell();
  const { settings } = store.fold;
  const [model, setModel] = useState(settings.model);
  const [mode, setMode] = useState(settings.mode);
  const [effort, setEffort] = useState(settings.effort);
  const [fault, fail] = useState("");
  const [sure, ask] = useState<"" | "close" | "remove">("");
  const may = me?.scope !== "observe";
  const closed = store.state === "closed";

  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    const options: { [name: string]: string } = {};
    if (model !== settings.model && model !== "") options.model = model;
    if (mode !== settings.mode && mode !== "") options.mode = mode;
    if (effort !== settings.effort && effort !== "") options.reasoning_effort = effort;
    try {
      if (Object.keys(options).length > 0) await store.api.settings(store.id, options);
      close();
    } catch (error) {
      fail(error instanceof Error ? error.message : "not sent");
    }
  };
  const end = async (remove: boolean): Promise<void> => {
    try {
      // What is listened to stays in the daemon's memory.
      if (remove) store.dispose();
      await store.api.close(store.id, remove);
      close();
      if (remove) location.hash = "#/sessions";
    } catch (error) {
      fail(error instanceof Error ? error.message : "not sent");
    }
  };
  return (
    <Dialog title="Settings of the session" close={close}>
      <form onSubmit={save}>
        <dl class="facts">
          <dt>Id</dt><dd class="path">{visible(store.id)}</dd>
          <dt>Agent</dt><dd>{visible(store.agent)}</dd>
          <dt>Entries</dt><dd>{store.fold.last}</dd>
        </dl>
        {may && !closed && (
          <>
            <Pick label="Model" value={model} choices={settings.models} set={setModel} empty="" />
            <Pick label="Mode" value={mode} choices={settings.modes} set={setMode} empty="" />
            <Pick label="Reasoning effort" value={effort} choices={[]} set={setEffort} empty="as the agent says" />
          </>
        )}
        <Fault text={fault} />
        <div class="actions">
          {may && !closed && <button type="submit" class="primary">Apply</button>}
          {may && !closed && sure === "" && <button type="button" onClick={() => ask("close")}>Close the session</button>}
          {may && sure === "" && <button type="button" class="danger" onClick={() => ask("remove")}>Remove it</button>}
          {sure !== "" && (
            <>
              <span>{sure === "close" ? "It takes no further input." : "What is kept of it goes, too."}</span>
              <button type="button" class="danger" onClick={() => end(sure === "remove")}>{sure === "close" ? "Close it" : "Remove it"}</button>
              <button type="button" onClick={() => ask("")}>Keep it</button>
            </>
          )}
        </div>
      </form>
    </Dialog>
  );
}
