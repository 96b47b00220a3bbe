import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

/** Name of the event that carries dropped files to the input of the session. */
export const ATTACH = "console:attach";

/**
 * Takes files that are dropped anywhere in the window. Without it a browser leaves the page and shows the file. The input
 * of a session takes them; elsewhere the drop has no effect.
 */
export function DropTarget(): JSX.Element | null {
  const [shown, show] = useState(false);
  useEffect(() => {
    // Enter and leave come for each element on the way: the pointer is out when all were left.
    let depth = 0;
    const hasFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") ?? false;
    const takes = (): boolean => document.querySelector(".composer textarea") !== null && document.querySelector("dialog") === null;
    const entered = (event: DragEvent): void => {
      if (!hasFiles(event)) return;
      depth += 1;
      show(takes());
    };
    const left = (event: DragEvent): void => {
      if (!hasFiles(event)) return;
      depth = Math.max(0, depth - 1);
      if (depth === 0) show(false);
    };
    const over = (event: DragEvent): void => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      if (event.dataTransfer) event.dataTransfer.dropEffect = takes() ? "copy" : "none";
    };
    const dropped = (event: DragEvent): void => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      depth = 0;
      show(false);
      if (takes()) dispatchEvent(new CustomEvent(ATTACH, { detail: event.dataTransfer?.files }));
    };
    const listeners = { dragenter: entered, dragleave: left, dragover: over, drop: dropped };
    for (const [name, listener] of Object.entries(listeners)) addEventListener(name, listener as EventListener);
    return () => {
      for (const [name, listener] of Object.entries(listeners)) removeEventListener(name, listener as EventListener);
    };
  }, []);
  return shown ? <div class="drop-target" aria-hidden="true"><p>Drop to attach the files</p></div> : null;
}
