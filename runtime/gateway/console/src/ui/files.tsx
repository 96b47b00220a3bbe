import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { bytes } from "../core/format.ts";
import type { FileRow } from "../core/rows.ts";
import { fileName, rasterType, visible } from "../core/safe.ts";
import { Fault, Icon } from "./bits.tsx";
import { useSession } from "./hooks.ts";

/** Larger images are fetched only when asked for. */
const LARGEST = 12 * 1024 * 1024;
/** Pictures that stay in memory. */
const KEPT = 24;
const pictures = new Map<string, string>();

/** A picture that this page sent: the daemon gives back only what comes from the agent. */
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

export function File({ row }: { row: FileRow }): JSX.Element {
  const { api, id } = useSession();
  const [picture, show] = useState(() => pictures.get(row.sha256) ?? "");
  const [fault, fail] = useState("");
  const raster = /^image\/(png|jpeg|gif|webp)$/.test(row.mime) || /\.(png|jpe?g|gif|webp)$/i.test(row.name);
  const drawn = raster && row.out && row.sha256 !== "" && (row.size ?? 0) <= LARGEST;
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
        if (!gone) fail(error instanceof Error ? error.message : "not loaded");
      }
    };
    void load();
    return () => {
      gone = true;
    };
  }, [row.sha256, drawn]);
  const save = async (): Promise<void> => {
    fail("");
    try {
      saveBlob(fileName(row.name), new Blob([await api.file(id, row.sha256)]));
    } catch (error) {
      fail(error instanceof Error ? error.message : "not loaded");
    }
  };
  return (
    <div class={`file ${row.out ? "out" : "in"}`}>
      {picture !== "" && <img src={picture} alt={visible(row.name)} />}
      <div class="facts">
        <Icon name="file" />
        <span class="path">{visible(row.name)}</span>
        <span class="dim">
          {row.out ? "from the agent" : "to the agent"}
          {row.size === undefined ? "" : `, ${bytes(row.size)}`}
        </span>
        {row.out && row.sha256 !== "" && (
          <button type="button" class="quiet small" onClick={save} aria-label={`Save ${visible(row.name)}`}>
            <Icon name="save" /> Save
          </button>
        )}
      </div>
      <Fault text={fault} />
    </div>
  );
}
