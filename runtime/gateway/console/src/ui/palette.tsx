import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { sessionTitle } from "../core/format.ts";
import { visible } from "../core/safe.ts";
import type { ListedSession } from "../core/types.ts";
import { Dialog } from "./bits.tsx";
import { sessionHref, useShell } from "./hooks.ts";

export interface Command {
  label: string;
  key: string;
  run: () => void;
}

const MOST = 8;

/** Commands and sessions by a few letters: Ctrl+K. */
export function Palette({ commands, close }: { commands: Command[]; close: () => void }): JSX.Element {
  const { api } = useShell();
  const [text, ask] = useState("");
  const [at, move] = useState(0);
  const [answer, take] = useState<{ of: string; sessions: ListedSession[] }>({ of: "", sessions: [] });
  useEffect(() => {
    let gone = false;
    api.sessions({ text: text.trim(), state: "", agent: "" }).then((page) => !gone && take({ of: text, sessions: page.sessions }), () => undefined);
    return () => {
      gone = true;
    };
  }, [text]);

  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  // Until the answer to these words is here, what is known of them: Enter chooses nothing that does not fit.
  const sessions = answer.sessions.filter((each) => answer.of === text || words.every((word) => each.title.toLowerCase().includes(word)));
  const found: Command[] = [
    ...commands.filter((each) => words.every((word) => each.label.toLowerCase().includes(word))),
    ...sessions.slice(0, MOST).map((each) => ({
      label: visible(sessionTitle(each.title, each.id)),
      key: visible(each.agent),
      run: () => {
        location.hash = sessionHref(each.id);
      },
    })),
  ];
  const chosen = Math.min(at, found.length - 1);
  const run = (command: Command | undefined): void => {
    if (!command) return;
    close();
    command.run();
  };
  return (
    <Dialog title="Commands" close={close}>
      <form class="palette" onSubmit={(event) => {
        event.preventDefault();
        run(found[chosen]);
      }}>
        <input
          type="text"
          value={text}
          role="combobox"
          aria-label="Command or session"
          aria-expanded="true"
          aria-controls="palette"
          aria-activedescendant={found.length > 0 ? `palette-${chosen}` : undefined}
          placeholder="A command, or a session"
          autocomplete="off"
          onInput={(event) => {
            ask(event.currentTarget.value);
            move(0);
          }}
          onKeyDown={(event) => {
            const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
            if (by === 0) return;
            event.preventDefault();
            move((chosen + by + found.length) % Math.max(1, found.length));
          }}
        />
        <ul id="palette" role="listbox" aria-label="Found">
          {found.map((each, index) => (
            <li key={index} id={`palette-${index}`} role="option" aria-selected={index === chosen} onClick={() => run(each)} onMouseMove={() => move(index)}>
              <span class="title">{each.label}</span>
              <span class="dim">{each.key}</span>
            </li>
          ))}
        </ul>
        {found.length === 0 && <p class="empty">Nothing fits.</p>}
      </form>
    </Dialog>
  );
}
