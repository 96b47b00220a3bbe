import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { pins } from "../core/pins.ts";
import type { SessionStore } from "../core/session.ts";
import type { FileRow } from "../core/rows.ts";
import { fileName, visible } from "../core/safe.ts";
import type { Choice } from "../core/types.ts";
import { keyOf } from "./bindings.ts";
import { Dialog, Fault, Icon, copyText } from "./bits.tsx";
import { FileDialog, FilesDialog, SHOW_FILE, saveBlob } from "./files.tsx";
import { useSession, useShell } from "./hooks.ts";
import { Menu } from "./menu.tsx";
import type { MenuItem } from "./menu.tsx";
import { entryLink, openFork } from "./rowmenu.tsx";

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
            <Pick label="Reasoning effort" value={effort} choices={[]} set={setEffort} empty="agent's default" />
          </>
        )}
        <Fault text={fault} />
        <div class="actions">
          {may && !closed && <button type="submit" class="primary">Apply</button>}
        </div>
      </form>
    </Dialog>
  );
}

type SessionDialog = "files" | "rename" | "close" | "remove" | "settings";

/** The actions on the session that is shown, for the palette. */
export const sessionActions: { list: () => MenuItem[] } = { list: () => [] };

/** All that can be done with the session as a whole. */
export function SessionMenu({ store }: { store: SessionStore }): JSX.Element {
  const { me } = useShell();
  const [dialog, open] = useState<SessionDialog | "">("");
  const [file, showFile] = useState<FileRow>();
  const may = me?.scope !== "observe";
  const { archived } = store.attached;

  const save = async (format: "jsonl" | "markdown"): Promise<string> => {
    store.say("Exporting …");
    const content = await store.api.export(store.id, format);
    store.say("");
    saveBlob(`${fileName(store.title)}.${format === "jsonl" ? "jsonl" : "md"}`, content);
    return "Exported";
  };
  const archive = async (): Promise<string> => {
    await store.api.edit(store.id, { archived: archived !== true });
    await store.refresh();
    dispatchEvent(new Event("console:refresh"));
    return archived === true ? "Back in the list" : "Archived";
  };
  const items = (): MenuItem[] => [
    ...(may ? [{ label: "Rename", run: () => open("rename") }] : []),
    { label: pins.has(store.id) ? "Unpin" : "Pin at the top of the list", key: keyOf("pin"), run: () => pins.toggle(store.id) },
    { label: "Find in the session", key: keyOf("find"), run: () => void dispatchEvent(new Event("console:find")) },
    { label: "Files of the session", run: () => open("files") },
    { label: "Copy the link of the session", run: async () => ((await copyText(entryLink(store.id, undefined))) ? "Copied" : "") },
    { label: "Export as Markdown", run: () => save("markdown") },
    { label: "Export as JSON lines", run: () => save("jsonl") },
    ...(may ? [
      { label: "Fork the session", run: () => openFork(store, undefined) },
      { label: archived === true ? "Take out of the archive" : "Archive", run: archive },
      ...(store.state === "closed" ? [] : [{ label: "Close the session", run: () => open("close") }]),
      { label: "Remove the session", danger: true, run: () => open("remove") },
    ] : []),
  ];
  const latest = useRef(items);
  latest.current = items;
  useEffect(() => {
    sessionActions.list = () => latest.current();
    const settings = (): void => open("settings");
    const shown = (event: Event): void => showFile((event as CustomEvent<FileRow>).detail);
    addEventListener("console:settings", settings);
    addEventListener(SHOW_FILE, shown);
    return () => {
      sessionActions.list = () => [];
      removeEventListener("console:settings", settings);
      removeEventListener(SHOW_FILE, shown);
    };
  }, []);
  const close = (): void => open("");
  return (
    <>
      {archived === true && <span class="badge">archived</span>}
      <button type="button" class="quiet" onClick={() => open("settings")} title="Settings" aria-label="Settings of the session"><Icon name="gear" /></button>
      <Menu label="Actions" items={items} fail={(why) => store.say(why)} />
      {dialog === "settings" && <SettingsDialog close={close} />}
      {dialog === "files" && <FilesDialog store={store} close={close} />}
      {file && <FileDialog row={file} close={() => showFile(undefined)} />}
      {dialog === "rename" && <RenameDialog close={close} />}
      {(dialog === "close" || dialog === "remove") && <EndDialog remove={dialog === "remove"} close={close} />}
    </>
  );
}

function RenameDialog({ close }: { close: () => void }): JSX.Element {
  const store = useSession();
  const [title, write] = useState(store.title);
  const [fault, fail] = useState("");
  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await store.api.edit(store.id, { title: title.trim() });
      await store.refresh();
      dispatchEvent(new Event("console:refresh"));
      close();
    } catch (error) {
      fail(error instanceof Error ? error.message : "not renamed");
    }
  };
  return (
    <Dialog title="Rename the session" close={close}>
      <form onSubmit={save}>
        <label class="field">
          <span>Title</span>
          <input type="text" value={title} maxLength={200} placeholder="from the first message or the agent" onInput={(event) => write(event.currentTarget.value)} />
        </label>
        <Fault text={fault} />
        <div class="actions">
          <button type="submit" class="primary">Rename</button>
          <button type="button" onClick={close}>Cancel</button>
        </div>
      </form>
    </Dialog>
  );
}

function EndDialog({ remove, close }: { remove: boolean; close: () => void }): JSX.Element {
  const store = useSession();
  const [fault, fail] = useState("");
  const end = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      // A session with listeners stays in the daemon's memory.
      if (remove) store.dispose();
      await store.api.close(store.id, remove);
      close();
      if (remove && pins.has(store.id)) pins.toggle(store.id);
      if (remove) location.hash = "#/sessions";
    } catch (error) {
      fail(error instanceof Error ? error.message : "not sent");
    }
  };
  return (
    <Dialog title={remove ? "Remove the session" : "Close the session"} close={close}>
      <form onSubmit={end}>
        <p>
          {remove
            ? "All that is kept of it is deleted: its entries and its files. Forks of it stay."
            : "It takes no further input, for all clients. It can still be read, forked and exported."}
        </p>
        <Fault text={fault} />
        <div class="actions">
          <button type="submit" class="danger">{remove ? "Remove it" : "Close it"}</button>
          <button type="button" onClick={close}>Keep it</button>
        </div>
      </form>
    </Dialog>
  );
}
