import type { ComponentChildren, JSX } from "preact";
import { useRequestSession } from "./hooks.ts";

/** A part that can be opened. Whether it is open is kept by the session, since a row out of sight is not drawn. */
export function Folded(props: {
  id: string;
  summary: ComponentChildren;
  open?: boolean;
  class?: string;
  children: () => ComponentChildren;
}): JSX.Element {
  const store = useRequestSession();
  const open = store.open.get(props.id) ?? props.open ?? false;
  return (
    <div class={`fold ${props.class ?? ""} ${open ? "open" : ""}`}>
      <button
        type="button"
        class="quiet summary"
        aria-expanded={open}
        onClick={() => store.turn(props.id, !open)}
      >
        <i class="caret" aria-hidden="true" />
        {props.summary}
      </button>
      {open && <div class="inside">{props.children()}</div>}
    </div>
  );
}
