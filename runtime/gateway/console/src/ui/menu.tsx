import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Icon } from "./bits.tsx";

export interface MenuItem {
  label: string;
  /** The key that does the same. */
  key?: string;
  danger?: boolean;
  /** Does it. A text that it returns is shown for a moment as done. */
  run: () => void | string | Promise<void | string>;
}

/** A button that opens a menu. The items are made when it opens. */
export function Menu(props: { label: string; icon?: string; class?: string; items: () => MenuItem[]; fail?: (why: string) => void }): JSX.Element {
  const [items, open] = useState<MenuItem[]>([]);
  const [done, confirm] = useState("");
  const button = useRef<HTMLButtonElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const isOpen = items.length > 0;

  useLayoutEffect(() => {
    const [menu, at] = [box.current, button.current?.getBoundingClientRect()];
    if (!menu || !at) return;
    menu.showPopover();
    const { width, height } = menu.getBoundingClientRect();
    const below = at.bottom + 2 + height <= innerHeight || at.top < height;
    menu.style.top = `${Math.max(4, below ? Math.min(at.bottom + 2, innerHeight - height - 4) : at.top - height - 2)}px`;
    menu.style.left = `${Math.max(4, Math.min(at.right - width, innerWidth - width - 4))}px`;
    menu.querySelector("button")?.focus();
  }, [isOpen]);
  useEffect(() => {
    if (done === "") return undefined;
    const timer = setTimeout(() => confirm(""), 1500);
    return () => clearTimeout(timer);
  }, [done]);

  const close = (): void => {
    if (box.current?.contains(document.activeElement)) button.current?.focus();
    open([]);
  };
  const run = async (item: MenuItem): Promise<void> => {
    close();
    try {
      confirm((await item.run()) || "");
    } catch (error) {
      props.fail?.(error instanceof Error ? error.message : "not done");
    }
  };
  const pressed = (event: KeyboardEvent): void => {
    // The keys of the page do not count in a menu.
    event.stopPropagation();
    const all = [...(box.current?.querySelectorAll("button") ?? [])];
    const at = all.findIndex((each) => each === document.activeElement);
    const step: { [key: string]: number } = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 };
    if (event.key === "Tab") return close();
    if (!Object.hasOwn(step, event.key)) return;
    event.preventDefault();
    all[((step[event.key] ?? 0) + all.length) % all.length]?.focus();
  };
  return (
    <span class={`menu ${props.class ?? ""}`}>
      <button
        ref={button}
        type="button"
        class="quiet"
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-label={done || props.label}
        title={props.label}
        onClick={() => (isOpen ? close() : open(props.items()))}
      >
        <Icon name={done !== "" ? "check" : props.icon ?? "more"} />
      </button>
      <span class="hidden" role="status">{done}</span>
      {isOpen && (
        <div
          ref={box}
          class="menu-items"
          role="menu"
          aria-label={props.label}
          popover="auto"
          onKeyDown={pressed}
          onToggle={(event) => event.newState === "closed" && close()}
        >
          {items.map((item) => (
            <button type="button" role="menuitem" tabIndex={-1} class={`quiet ${item.danger ? "danger" : ""}`} onClick={() => void run(item)}>
              <span>{item.label}</span>
              {item.key && <kbd>{item.key}</kbd>}
            </button>
          ))}
        </div>
      )}
    </span>
  );
}
