import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../core/api.ts";
import { ago } from "../core/format.ts";
import { freshId } from "../core/id.ts";
import { visible } from "../core/safe.ts";
import { choices, str } from "../core/types.ts";
import type { Conversation, Obj } from "../core/types.ts";
import { Dialog, Fault } from "./bits.tsx";
import { openView } from "./focus.ts";
import { isCoarse, sessionHref, useShell } from "./hooks.ts";
import { Pick } from "./settings.tsx";

export function CreateDialog({ agent: given, close }: { agent: string; close: () => void }): JSX.Element {
  const { api } = useShell();
  const [agents, list] = useState<Obj[]>([]);
  const [agent, pick] = useState(given);
  const [first, setFirst] = useState("");
  const [withFolder, setWithFolder] = useState<string[]>([]);
  const [folder, setFolder] = useState("");
  const [title, name] = useState("");
  const [model, setModel] = useState("");
  const [mode, setMode] = useState("");
  const [effort, setEffort] = useState("");
  const [message, write] = useState("");
  const [continued, carryOn] = useState<Conversation>();
  const [fault, fail] = useState("");
  const [busy, work] = useState(false);
  // What was made already is not made twice when the message has to go again.
  const made = useRef({ id: "", message: freshId() });

  useEffect(() => {
    api.agents().then(
      (found) => {
        list(found.agents);
        setFirst(found.first);
        setWithFolder(found.withFolder);
      },
      (error: unknown) => fail(error instanceof Error ? error.message : "not loaded"),
    );
  }, [api]);

  const named = agent || first;
  const chosen = agents.find((each) => str(each.id) === named);
  const create = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    work(true);
    fail("");
    const options: { [name: string]: string } = {};
    if (title.trim() !== "") options.title = title.trim();
    if (folder.trim() !== "" && withFolder.includes(named)) options.cwd = folder.trim();
    if (model !== "") options.model = model;
    if (mode !== "") options.mode = mode;
    if (effort !== "") options.reasoning_effort = effort;
    try {
      made.current.id ||= continued?.session || (await api.create(continued ? named : agent, options, continued?.id ?? ""));
      const { id, message: key } = made.current;
      if (message.trim() !== "") await api.input(id, key, { content: message });
      close();
      openView(sessionHref(id), isCoarse() ? ".bar h1" : "#input");
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
            carryOn(undefined);
            setModel("");
            setMode("");
          }}
          empty={first === "" ? "the default" : `the default (${first})`}
        />
        {chosen && str(chosen.description) !== "" && <p class="dim">{visible(str(chosen.description))}</p>}
        {withFolder.includes(named) && (
          <label class="field">
            <span>Folder</span>
            <input type="text" value={folder} placeholder="the folder of the daemon" onInput={(event) => setFolder(event.currentTarget.value)} />
          </label>
        )}
        <label class="field">
          <span>Title</span>
          <input type="text" value={title} maxLength={200} placeholder="the first message" onInput={(event) => name(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span>First message</span>
          <textarea rows={3} value={message} onInput={(event) => write(event.currentTarget.value)} />
        </label>
        <div class="pair">
          <Pick label="Model" value={model} choices={choices(chosen?.models)} set={setModel} empty="as the agent says" />
          <Pick label="Mode" value={mode} choices={choices(chosen?.modes)} set={setMode} empty="as the agent says" />
        </div>
        {named !== "" && <Conversations key={named} agent={named} chosen={continued} choose={carryOn} />}
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

/** The conversations that an agent itself keeps, read when they are looked at: its process may have to start for them. */
function Conversations(props: { agent: string; chosen: Conversation | undefined; choose: (one: Conversation | undefined) => void }): JSX.Element {
  const { agent, chosen, choose } = props;
  const { api } = useShell();
  const [found, list] = useState<Conversation[]>();
  const [fault, fail] = useState("");
  const [open, show] = useState(false);

  useEffect(() => {
    if (!open) return undefined;
    let current = true;
    fail("");
    api.conversations(agent).then(
      (conversations) => current && list(conversations),
      (error: unknown) => current && fail(error instanceof Error ? error.message : "not loaded"),
    );
    return () => {
      current = false;
    };
  }, [api, agent, open]);

  const now = Date.now();
  const about = (one: Conversation): string =>
    [one.cwd, ago(one.updated, now), one.session !== "" ? "has a session, which opens" : ""].filter((part) => part !== "").join(" · ");
  return (
    <details class="conversations" onToggle={(event) => show(event.currentTarget.open)}>
      <summary>Continue a conversation of the agent</summary>
      <Fault text={fault} />
      {found === undefined && fault === "" && open && <p class="dim" role="status">Asking {visible(agent)} …</p>}
      {found?.length === 0 && <p class="dim" role="status">{visible(agent)} keeps no conversation.</p>}
      {found !== undefined && found.length > 0 && (
        <fieldset>
          <legend>Conversation</legend>
          <label>
            <input type="radio" name="conversation" checked={chosen === undefined} onChange={() => choose(undefined)} />
            <span>A new one</span>
          </label>
          {found.map((one) => (
            <label key={one.id}>
              <input type="radio" name="conversation" checked={chosen?.id === one.id} onChange={() => choose(one)} />
              <span>
                {visible(one.title || one.id)}
                <span class="dim">{visible(about(one))}</span>
              </span>
            </label>
          ))}
        </fieldset>
      )}
    </details>
  );
}
