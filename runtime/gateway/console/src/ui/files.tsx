import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Api } from "../core/api.ts";
import { MAX_SHOWN, looksBinary, looksRaster, shownFile } from "../core/files.ts";
import type { ShownFile } from "../core/files.ts";
import { bytes, clock } from "../core/format.ts";
import { markdown } from "../core/markdown.ts";
import type { FileRow } from "../core/rows.ts";
import { fileName, rasterType, visible } from "../core/safe.ts";
import type { SessionStore } from "../core/session.ts";
import { fileLanguage } from "../core/syntax.ts";
import { Dialog, Fault, Icon } from "./bits.tsx";
import { entryHref, useSession } from "./hooks.ts";
import { Coloured, FIRST, Output, blocksOf } from "./text.tsx";

/** Name of the event that asks the session to show a file; the row of the file may be out of sight by then. */
export const SHOW_FILE = "console:file";
/** Larger images are fetched only when asked for. */
const LARGEST = 12 * 1024 * 1024;
/** Pictures that stay in memory. */
const KEPT = 24;
const pictures = new Map<string, string>();

const why = (error: unknown): string => (error instanceof Error ? error.message : "not loaded");

/** Keeps a picture that this page sent, so that it need not come back. */
export async function keepSent(sha256: string, file: Blob): Promise<void> {
  if (file.size > LARGEST || pictures.has(sha256)) return;
  const content = await file.arrayBuffer();
  const type = rasterType(new Uint8Array(content));
  if (type !== "") keep(sha256, URL.createObjectURL(new Blob([content], { type })));
}

function keep(sha256: string, url: string): void {
  pictures.set(sha256, url);
  for (const [key, old] of pictures) {
    if (pictures.size <= KEPT) break;
    pictures.delete(key);
    URL.revokeObjectURL(old);
  }
}

/** Saves a file as a download. Its type is never one that a browser shows. */
export function saveBlob(name: string, content: Blob): void {
  const url = URL.createObjectURL(content.slice(0, content.size, "application/octet-stream"));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 30_000);
}

/** A file of the session in the transcript: a picture is drawn, other files are shown on demand. */
export function File({ row }: { row: FileRow }): JSX.Element {
  const { api, id } = useSession();
  const [picture, show] = useState(() => pictures.get(row.sha256) ?? "");
  const [fault, fail] = useState("");
  const drawn = looksRaster(row.name, row.mime) && row.sha256 !== "" && (row.size ?? 0) <= LARGEST;
  useEffect(() => {
    const kept = pictures.get(row.sha256);
    if (!drawn || kept) {
      show(kept ?? "");
      return;
    }
    let gone = false;
    const load = async (): Promise<void> => {
      try {
        const content = await api.file(id, row.sha256);
        // The bytes decide what it is, not what the agent calls it.
        const type = rasterType(new Uint8Array(content));
        if (type === "") return fail("not a picture that can be shown");
        const url = URL.createObjectURL(new Blob([content], { type }));
        keep(row.sha256, url);
        if (!gone) show(url);
      } catch (error) {
        if (!gone) fail(why(error));
      }
    };
    void load();
    return () => {
      gone = true;
    };
  }, [row.sha256, drawn]);
  return (
    <div class={`file ${row.out ? "out" : "in"}`}>
      {picture !== "" && <img src={picture} alt={visible(row.name)} />}
      <FileLine row={row} fail={fail} />
      <Fault text={fault} />
    </div>
  );
}

/** Saves a file of the session as a download. */
function useSave(row: FileRow, fail: (why: string) => void): () => Promise<void> {
  const { api, id } = useSession();
  return async () => {
    fail("");
    try {
      saveBlob(fileName(row.name), new Blob([await api.file(id, row.sha256)]));
    } catch (error) {
      fail(why(error));
    }
  };
}

/** Name, direction and size of a file, with the buttons that show and save it. */
function FileLine({ row, fail }: { row: FileRow; fail: (why: string) => void }): JSX.Element {
  const save = useSave(row, fail);
  return (
    <div class="facts">
      <Icon name="file" />
      <span class="path">{visible(row.name)}</span>
      <span class="dim">
        {row.out ? "from the agent" : "to the agent"}
        {row.size === undefined ? "" : `, ${bytes(row.size)}`}
      </span>
      {row.sha256 !== "" && (
        <>
          {!looksBinary(row.name, row.mime) && <button type="button" class="quiet small" onClick={() => dispatchEvent(new CustomEvent(SHOW_FILE, { detail: row }))} aria-label={`Show ${visible(row.name)}`}>Show</button>}
          <button type="button" class="quiet small" onClick={save} aria-label={`Save ${visible(row.name)}`}>
            <Icon name="save" /> Save
          </button>
        </>
      )}
    </div>
  );
}

interface Content {
  shown: ShownFile;
  bytes: Uint8Array<ArrayBuffer>;
  isWhole: boolean;
}

export function FileDialog({ row, close }: { row: FileRow; close: () => void }): JSX.Element {
  const { api, id } = useSession();
  const [content, take] = useState<Content>();
  const [fault, fail] = useState("");
  useEffect(() => {
    const life = new AbortController();
    api.fileHead(id, row.sha256, looksRaster(row.name, row.mime) ? LARGEST : MAX_SHOWN, life.signal).then(
      ({ bytes: head, isWhole }) => take({ shown: shownFile(head, row.name, row.mime, isWhole), bytes: head, isWhole }),
      (error: unknown) => !life.signal.aborted && fail(why(error)),
    );
    return () => life.abort();
  }, [row.sha256]);
  const save = useSave(row, fail);
  return (
    <Dialog title={visible(row.name)} close={close} wide>
      <div class="file-view">
        <p><button type="button" onClick={() => void save()}><Icon name="save" /> Save</button></p>
        <Fault text={fault} />
        {content ? <FileView {...content} name={row.name} /> : fault === "" && <p class="dim" role="status">Loading …</p>}
      </div>
    </Dialog>
  );
}

/** The content of a file. No text of it becomes HTML, and SVG is drawn as a picture, in which nothing runs. */
export function FileView({ shown, bytes: content, isWhole, name }: Content & { name: string }): JSX.Element {
  const [isSource, showSource] = useState(false);
  if (shown.kind === "binary") return <p class="empty">This file is not a picture or text that the page can show. Save it to open it.</p>;
  const isDrawn = shown.kind === "picture" || (shown.kind === "svg" && !isSource);
  return (
    <>
      {(shown.kind === "svg" || shown.kind === "markdown") && (
        <p class="views">
          <button type="button" class={`quiet small ${isSource ? "" : "on"}`} aria-pressed={!isSource} onClick={() => showSource(false)}>Shown</button>
          <button type="button" class={`quiet small ${isSource ? "on" : ""}`} aria-pressed={isSource} onClick={() => showSource(true)}>Source</button>
        </p>
      )}
      {!isWhole && <p class="warning">This is the beginning of the file. Save it to see the rest.</p>}
      {isDrawn && <Picture content={content} type={shown.kind === "picture" ? shown.type : "image/svg+xml"} name={name} />}
      {shown.kind === "markdown" && !isSource && <div class="prose">{blocksOf(markdown(shown.text))}</div>}
      {shown.kind !== "picture" && (shown.kind === "text" || isSource) && <Source text={shown.text} name={name} />}
    </>
  );
}

function Picture({ content, type, name }: { content: Uint8Array<ArrayBuffer>; type: string; name: string }): JSX.Element {
  const [url, show] = useState("");
  const [fault, fail] = useState("");
  useEffect(() => {
    const fresh = URL.createObjectURL(new Blob([content], { type }));
    show(fresh);
    return () => URL.revokeObjectURL(fresh);
  }, [content, type]);
  if (fault !== "") return <Fault text={fault} />;
  return <>{url !== "" && <img src={url} alt={visible(name)} onError={() => fail("The picture cannot be drawn.")} />}</>;
}

/** A text as it is, with the numbers of its lines on demand. */
function Source({ text, name }: { text: string; name: string }): JSX.Element {
  const language = fileLanguage(name);
  const [isNumbered, number] = useState(false);
  const [shown, show] = useState(FIRST);
  const part = text.length <= shown ? text : text.slice(0, shown);
  const numbers = useMemo(() => (isNumbered ? part.replace(/\n$/, "").split("\n").map((_, at) => at + 1).join("\n") : ""), [part, isNumbered]);
  return (
    <>
      <label class="check">
        <input type="checkbox" checked={isNumbered} onChange={(event) => number(event.currentTarget.checked)} />
        <span>Line numbers</span>
      </label>
      {!isNumbered ? <Output text={text} strict language={language} label={visible(name)} /> : (
        <>
          <div class="numbered" tabIndex={0} role="group" aria-label={visible(name)}>
            <pre aria-hidden="true">{numbers}</pre>
            <pre><Coloured text={visible(part)} language={language} /></pre>
          </div>
          {part.length < text.length && (
            <button type="button" class="quiet more" onClick={() => show(shown * 3)}>{(text.length - part.length).toLocaleString("en")} more characters</button>
          )}
        </>
      )}
    </>
  );
}

/** All files of the session that its loaded entries have. */
export function FilesDialog({ store, close }: { store: SessionStore; close: () => void }): JSX.Element {
  const [fault, fail] = useState("");
  const files = store.rows.filter((row): row is FileRow => row.kind === "file");
  return (
    <Dialog title="Files of the session" close={close} wide>
      <div class="file-view">
        <Fault text={fault} />
        {store.first > store.beginning && (
          <p class="dim">
            Files before entry {store.first.toLocaleString("en")} are not listed.{" "}
            <button type="button" class="quiet small" disabled={store.loading !== ""} onClick={() => store.whole()}>Load earlier entries</button>
          </p>
        )}
        {files.length === 0 && <p class="empty">No file was sent or received.</p>}
        <ul class="files">
          {files.reverse().map((row) => (
            <li key={row.key} class="file">
              <FileLine row={row} fail={fail} />
              <a class="dim" href={entryHref(store.id, row.seq)} onClick={close} title="Show the entry">{clock(row.time)}</a>
            </li>
          ))}
        </ul>
      </div>
    </Dialog>
  );
}

/** A file that will be sent. */
export interface Attachment {
  key: number;
  file: Blob;
  name: string;
  mime: string;
  size: number;
  sha256: string;
  state: "waiting" | "loading" | "ready" | "failed";
  detail: string;
}

/** Files that will be sent, pictures as small ones. */
export function Attachments({ files, remove }: { files: Attachment[]; remove: (key: number) => void }): JSX.Element | null {
  if (files.length === 0) return null;
  return (
    <ul class="attached" aria-label="Attachments">
      {files.map((each) => (
        <li key={each.key} class={each.state}>
          <Thumbnail file={each.file} /> <span class="path">{visible(each.name)}</span>
          <span class="dim">{each.state === "failed" ? visible(each.detail) || "failed" : each.state === "loading" ? "on its way" : bytes(each.size)}</span>
          <button type="button" class="quiet small" aria-label={`Remove ${visible(each.name)}`} onClick={() => remove(each.key)}>
            <Icon name="cross" />
          </button>
        </li>
      ))}
    </ul>
  );
}

function Thumbnail({ file }: { file: Blob }): JSX.Element {
  const [url, show] = useState("");
  useEffect(() => {
    if (file.size > LARGEST) return undefined;
    let fresh = "";
    let gone = false;
    file.slice(0, 16).arrayBuffer().then((head) => {
      const type = rasterType(new Uint8Array(head));
      if (type === "" || gone) return;
      fresh = URL.createObjectURL(file.slice(0, file.size, type));
      show(fresh);
    }, () => undefined);
    return () => {
      gone = true;
      URL.revokeObjectURL(fresh);
    };
  }, [file]);
  return url === "" ? <Icon name="file" /> : <img src={url} alt="" />;
}

/** Returns the reason why a file is too large for an agent, or nothing. The daemon gives the limit. */
export async function tooLarge(api: Api, agent: string, size: number): Promise<string> {
  const limit = await api.maxFileBytes(agent).catch(() => undefined);
  return limit !== undefined && size > limit ? `${bytes(size)}, more than the ${bytes(limit)} that ${visible(agent)} takes` : "";
}
