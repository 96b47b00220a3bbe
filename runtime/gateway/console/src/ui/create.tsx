import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../core/api.ts";
import type { GivenFile } from "../core/api.ts";
import { ago } from "../core/format.ts";
import { freshId } from "../core/id.ts";
import { visible } from "../core/safe.ts";
import { choices, list, str } from "../core/types.ts";
import type { Choice, Conversation, Obj } from "../core/types.ts";
import { Dialog, Fault, Icon } from "./bits.tsx";
import { Attachments, keepSent, tooLarge } from "./files.tsx";
import type { Attachment } from "./files.tsx";
import { openView } from "./focus.ts";
import { isCoarse, sessionHref, useShell } from "./hooks.ts";
import { Pick } from "./settings.tsx";

/** Files of the first message. */
const MAX_FILES = 16;
/** Where the tab keeps the message of a session that was not created. */
const DRAFT = "trunkline.draft";

/** What the daemon knows of an agent, or what its last session had. */
const firstOf = (known: Choice[], recent: Choice[] | undefined): Choice[] => (known.length > 0 ? known : recent ?? []);

export function CreateDialog({ agent: given, close }: { agent: string; close: () => void }): JSX.Element {
  const { api } = useShell();
  const [agents, setAgents] = useState<Obj[]>([]);
  const [agent, pick] = useState(given);
  const [first, setFirst] = useState("");
  const [anyFolder, setAnyFolder] = useState<string[]>([]);
  const [folders, setFolders] = useState<Obj>({});
  const [recent, remember] = useState<{ models: Choice[]; modes: Choice[]; folders: string[] }>();
  const [files, setFiles] = useState<Attachment[]>([]);
  const [folder, setFolder] = useState("");
  const [title, name] = useState("");
  const [model, setModel] = useState("");
  const [mode, setMode] = useState("");
  const [effort, setEffort] = useState("");
  const [message, setMessage] = useState(() => sessionStorage.getItem(DRAFT) ?? "");
  const write = (text: string): void => {
    setMessage(text);
    try {
      if (text === "") sessionStorage.removeItem(DRAFT);
      else sessionStorage.setItem(DRAFT, text.slice(0, 500_000));
    } catch {
      // A text that does not fit is kept while the dialog is open.
    }
  };
  const [continued, carryOn] = useState<Conversation>();
  const picker = useRef<HTMLInputElement>(null);
  const [fault, fail] = useState("");
  const [busy, work] = useState(false);
  // What was made already is not made twice when the message has to go again.
  const made = useRef({ id: "", message: freshId(), files: 0 });

  useEffect(() => {
    api.agents().then(
      (found) => {
        setAgents(found.agents);
        setFirst(found.first);
        setAnyFolder(found.anyFolder);
        setFolders(found.folders);
      },
      (error: unknown) => fail(error instanceof Error ? error.message : "not loaded"),
    );
  }, [api]);

  const named = agent || first;
  const chosen = agents.find((each) => str(each.id) === named);
  useEffect(() => {
    remember(undefined);
    let current = true;
    if (named !== "") api.recent(named).then((found) => current && remember(found), () => undefined);
    return () => {
      current = false;
    };
  }, [api, named]);
  const allowed = list(folders[named]).map(str).filter((each) => each !== "");
  const isAny = anyFolder.includes(named);
  // A folder of an earlier session is offered if it is still allowed.
  const isInside = (each: string): boolean => isAny || allowed.some((root) => each === root || each.startsWith(`${root.replace(/\/$/, "")}/`));
  const offered = [...new Set([...allowed, ...(recent?.folders ?? []).filter(isInside)])];

  const change = (key: number, part: Partial<Attachment>): void => setFiles((all) => all.map((each) => (each.key === key ? { ...each, ...part } : each)));
  const attach = (found: FileList | null): void => {
    for (const file of Array.from(found ?? []).slice(0, MAX_FILES - files.length)) {
      const key = ++made.current.files;
      setFiles((all) => [...all, { key, file, name: file.name, mime: file.type, size: file.size, sha256: "", state: "waiting", detail: "" }]);
      void tooLarge(api, named, file.size).then((detail) => detail !== "" && change(key, { state: "failed", detail }));
    }
  };
  /** Uploads what was not uploaded before. */
  const upload = async (id: string): Promise<GivenFile[]> => {
    const sent: GivenFile[] = [];
    for (const { key, file, name: label, mime, sha256 } of files) {
      const hash = sha256 || (await api.upload(id, label, file)).sha256;
      change(key, { sha256: hash, state: "ready" });
      await keepSent(hash, file);
      sent.push({ sha256: hash, name: label, ...(mime !== "" ? { mime_type: mime } : {}) });
    }
    return sent;
  };
  const create = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    if (files.some((each) => each.state === "failed")) return fail("Remove the files that cannot be sent.");
    work(true);
    fail("");
    const options: { [name: string]: string } = {};
    if (title.trim() !== "") options.title = title.trim();
    if (folder.trim() !== "" && (isAny || allowed.length > 0) && !continued) options.cwd = folder.trim();
    if (model !== "") options.model = model;
    if (mode !== "") options.mode = mode;
    if (effort !== "") options.reasoning_effort = effort;
    try {
      made.current.id ||= continued?.session || (await api.create(continued ? named : agent, options, continued?.id ?? ""));
      const { id, message: key } = made.current;
      if (message.trim() !== "" || files.length > 0) await api.input(id, key, { content: message, files: await upload(id) });
      write("");
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
        {(isAny || allowed.length > 0) && !continued && (
          <label class="field">
            <span>Folder</span>
            <input type="text" value={folder} list="folders" placeholder={visible(allowed[0] ?? "") || "the folder of the daemon"} onInput={(event) => setFolder(event.currentTarget.value)} />
            <datalist id="folders">{offered.map((each) => <option value={each} />)}</datalist>
            {!isAny && <span class="dim">in {allowed.map(visible).join(", in ")}</span>}
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
        <div>
          <button type="button" class="quiet small" onClick={() => picker.current?.click()}><Icon name="clip" /> Attach files</button>
          <input ref={picker} type="file" multiple hidden aria-label="Attached files" onChange={(event) => {
            attach(event.currentTarget.files);
            event.currentTarget.value = "";
          }} />
          <Attachments files={files} remove={(key) => setFiles(files.filter((each) => each.key !== key))} />
        </div>
        <div class="pair">
          <Pick label="Model" value={model} choices={firstOf(choices(chosen?.models), recent?.models)} set={setModel} empty="agent's default" />
          <Pick label="Mode" value={mode} choices={firstOf(choices(chosen?.modes), recent?.modes)} set={setMode} empty="agent's default" />
        </div>
        {named !== "" && <Conversations key={named} agent={named} chosen={continued} choose={carryOn} />}
        <details>
          <summary>More options</summary>
          <Pick label="Reasoning effort" value={effort} choices={[]} set={setEffort} empty="agent's default" />
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
  const [found, take] = useState<Conversation[]>();
  const [fault, fail] = useState("");
  const [open, show] = useState(false);

  useEffect(() => {
    if (!open) return undefined;
    let current = true;
    fail("");
    api.conversations(agent).then(
      (conversations) => current && take(conversations),
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
      {open && (
        <label class="field">
          <span>Id of a conversation</span>
          <input
            type="text"
            value={chosen !== undefined && !found?.includes(chosen) ? chosen.id : ""}
            maxLength={256}
            spellcheck={false}
            autocomplete="off"
            onInput={(event) => {
              const id = event.currentTarget.value.trim();
              choose(id === "" ? undefined : found?.find((one) => one.id === id) ?? { id, title: "", cwd: "", updated: "", session: "" });
            }}
          />
        </label>
      )}
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
