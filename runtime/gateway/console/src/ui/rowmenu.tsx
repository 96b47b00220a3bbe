import type { JSX } from "preact";
import type { Row } from "../core/rows.ts";
import type { SessionStore } from "../core/session.ts";
import { Copy, copyText } from "./bits.tsx";
import { entryHref, sessionHref, useSession, useShell } from "./hooks.ts";
import { Menu } from "./menu.tsx";
import type { MenuItem } from "./menu.tsx";

/** The whole address of an entry of a session, for another person or another page. */
export const entryLink = (id: string, seq: number | undefined): string =>
  `${location.origin}${location.pathname}${seq === undefined ? sessionHref(id) : entryHref(id, seq)}`;

/** Opens a copy of a session up to an entry, with a draft of what is sent next. */
export async function openFork(store: SessionStore, seq: number | undefined, draft = ""): Promise<void> {
  const copy = await store.api.fork(store.id, seq);
  if (draft !== "") sessionStorage.setItem(`trunkline.draft.${copy}`, draft.slice(0, 500_000));
  // The list would have two sessions of one title.
  await store.api.edit(copy, { title: `Fork: ${store.title.replace(/^Fork: /, "")}`.slice(0, 200) }).catch(() => undefined);
  location.hash = sessionHref(copy);
}

/** What can be done with a row: by a menu for the begin and the end of a turn, by a button for the others. */
export function RowMenu({ row }: { row: Row }): JSX.Element | null {
  const store = useSession();
  const { me } = useShell();
  if (row.seq === 0 || store.removed) return null;
  const link = (): string => entryLink(store.id, row.seq);
  const more: MenuItem[] = [];
  if (me?.scope !== "observe" && row.kind === "end" && !row.provisional) {
    more.push({ label: "Fork from here", run: () => openFork(store, row.seq) });
  }
  if (me?.scope !== "observe" && row.kind === "input" && !row.steer && row.seq > 1) {
    more.push({ label: "Edit in a fork", run: () => openFork(store, row.seq - 1, row.text) });
  }
  if (more.length === 0) return <span class="row-menu"><Copy icon="link" label="Copy the link" text={link} /></span>;
  const copy: MenuItem = { label: "Copy the link", run: async () => ((await copyText(link())) ? "Copied" : "") };
  return <Menu class="row-menu" label={row.kind === "end" ? "This turn" : "This input"} items={() => [copy, ...more]} fail={(why) => store.say(why)} />;
}
