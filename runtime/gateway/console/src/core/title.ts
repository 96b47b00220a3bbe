/** The document's title, which counts the requests that wait in all sessions, and the badge of the installed app. */

let base = "trunkline";
let waiting = 0;

function apply(): void {
  document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${base}`;
}

/** Names the view that is shown. */
export function titlePage(view: string): void {
  base = view === "" ? "trunkline" : `${view} · trunkline`;
  apply();
}

/** Shows how many requests wait for an answer. */
export function titleWaiting(count: number): void {
  if (count === waiting) return;
  waiting = count;
  apply();
  const shown = count > 0 ? navigator.setAppBadge?.(count) : navigator.clearAppBadge?.();
  // A browser without an installed app refuses it.
  shown?.catch(() => undefined);
}
