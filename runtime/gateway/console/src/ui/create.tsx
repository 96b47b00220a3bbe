import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../core/api.ts";
import { freshId } from "../core/id.ts";
import { visible } from "../core/safe.ts";
import { choices, str } from "../core/types.ts";
import type { Obj } from "../core/types.ts";
import { Dialog, Fault } from "./bits.tsx";
import { sessionHref, useShell } from "./hooks.ts";
import { Pick } from "./settings.tsx";

export function CreateDialog({ close }: { close: () => void }): JSX.Element {
  const { api } = useShell();
  const [agents, list] = useState<Obj[]>([]);
  const [agent, pick] = useState("");
  const [first, setFirst] = useState("");
  const [title, name] = useState("");
  const [model, setModel] = useState("");
  const [mode, setMode] = useState("");
  const [effort, setEffort] = useState("");
  const [message, write] = useState("");
  const [fault, fail] = useState("");
  const [busy, work] = useState(false);
  // What was made already is not made twice when the message has to go again.
  const made = useRef({ id: "", message: freshId() });

  useEffect(() => {
    api.agents().then(
      (found) => {
        list(found.agents);
        setFirst(found.first);
      },
      (error: unknown) => fail(error instanceof Error ? error.message : "not loaded"),
    );
  }, [api]);

  const chosen = agents.find((each) => str(each.id) === (agent || first));
  const create = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    work(true);
    fail("");
    const options: { [name: string]: string } = {};
    if (title.trim() !== "") options.title = title.trim();
    if (model !== "") options.model = model;
    if (mode !== "") options.mode = mode;
    if (effort !== "") options.reasoning_effort = effort;
    try {
      made.current.id ||= await api.create(agent, options);
      const { id, message: key } = made.current;
      if (message.trim() !== "") await api.input(id, key, { content: message });
      close();
      location.hash = sessionHref(id);
    } catch (error) {
      const refused = error instanceof Problem && (error.status === 403 || error.status === 422);
      fail(`${refused ? "Not allowed: " : ""}${error instanceof Error ? error.message : "not made"}`);
      work(false);
    }
  };
  return (
    <Dialog title="New session" close={close}>
      <form onSubmit={create}>
        <Pick
          label="Agent"
          value={agent}
          choices={agents.map((each) => ({ id: str(each.id), label: str(each.name) || str(each.id) }))}
          set={(id) => {
            pick(id);
            setModel("");
            setMode("");
          }}
          empty={first === "" ? "the default" : `the default (${first})`}
        />
        {chosen && str(chosen.description) !== "" && <p class="dim">{visible(str(chosen.description))}</p>}
        <label class="field">
          <span>Title</span>
          <input type="text" value={title} maxLength={200} placeholder="the first message" onInput={(event) => name(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span>First message</span>
          <textarea rows={3} value={message} onInput={(event) => write(event.currentTarget.value)} onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void create(event);
          }} />
        </label>
        <div class="pair">
          <Pick label="Model" value={model} choices={choices(chosen?.models)} set={setModel} empty="as the agent says" />
          <Pick label="Mode" value={mode} choices={choices(chosen?.modes)} set={setMode} empty="as the agent says" />
        </div>
        <details>
          <summary>More options</summary>
          <Pick label="Reasoning effort" value={effort} choices={[]} set={setEffort} empty="as the agent says" />
        </details>
        <Fault text={fault} />
        <div class="actions">
          <button type="submit" class="primary" disabled={busy}>Create</button>
          <button type="button" onClick={close}>Cancel</button>
        </div>
      </form>
    </Dialog>
  );
}
