/** The element that had the focus last, then those around it, each with its place in its parent. */
let trail: { element: HTMLElement; at: number }[] = [];
let scheduled = false;

const usable = (element: HTMLElement): boolean => element.isConnected && !element.matches(":disabled") && element.checkVisibility();

/** Whether a script can move the focus there. */
const takesFocus = (element: Element): boolean =>
  element.matches("a[href], button, input, select, textarea, summary, [tabindex]") && element instanceof HTMLElement && usable(element);

/** Where a reader goes on when what had the focus is gone: the transcript, or the page. Never a field, since keys are commands outside of one. */
export function focusHome(): void {
  for (const place of [".scroller", "main[tabindex]", ".list li a"]) {
    const found = [...document.querySelectorAll<HTMLElement>(place)].find(usable);
    if (!found) continue;
    found.focus({ preventScroll: true });
    // Another session has no transcript until its entries have come.
    if (place !== ".scroller" && document.querySelector(".session")) focusWhenDrawn(".scroller");
    return;
  }
}

export const leaveField = (): void => {
  focusHome();
  if (document.activeElement instanceof HTMLElement && document.activeElement.matches("input, textarea, select")) document.activeElement.blur();
};

function remember(event: FocusEvent): void {
  trail = [];
  if (event.target instanceof Element && !event.target.matches("dialog")) disabled = undefined;
  for (let it = event.target as HTMLElement | null; it && it !== document.body; it = it.parentElement) {
    trail.push({ element: it, at: [...(it.parentElement?.children ?? [])].indexOf(it) });
  }
}

/** Moves the focus to what follows in the same list, or else to what is around it. */
function restore(): void {
  const at = trail.findIndex(({ element }) => element.isConnected);
  const around = trail[at]?.element;
  const gone = trail[at - 1];
  if (around && gone && around.matches("ul, ol, tbody, .dock, .rows")) {
    const place = [around.children[gone.at], around.children[gone.at - 1]].find((each) => each !== undefined);
    const next = place && (place.matches("[tabindex]") ? place : [...place.querySelectorAll("*")].find(takesFocus));
    if (next instanceof HTMLElement) return next.focus({ preventScroll: true });
  }
  const outer = trail.slice(Math.max(0, at)).find(({ element }) => takesFocus(element) && !element.matches("main"))?.element;
  if (outer) outer.focus({ preventScroll: true });
  else focusHome();
}

/** What a dialog disabled while it had the focus. */
let disabled: HTMLElement | undefined;

/** Gives the focus back to a button of a dialog that was disabled while its action ran. */
function checkDialog(dialog: HTMLElement): void {
  if (document.activeElement !== document.body && document.activeElement !== dialog) return;
  const last = trail[0]?.element;
  if (last && last !== dialog && dialog.contains(last) && !usable(last)) disabled = last;
  if (!disabled || !dialog.contains(disabled)) return;
  if (usable(disabled)) disabled.focus({ preventScroll: true });
  else dialog.focus({ preventScroll: true });
}

function check(): void {
  scheduled = false;
  const dialog = [...document.querySelectorAll<HTMLElement>("dialog[open]")].pop();
  if (dialog) return checkDialog(dialog);
  if (document.activeElement !== document.body || !trail[0]) return;
  // Of what is still there, the person has left it: a click beside it.
  if (usable(trail[0].element)) trail = [];
  else restore();
}

/** Browsers take the focus from what is hidden or disabled when they draw. */
function checkSoon(): void {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => setTimeout(check));
}

/** Keeps the focus in the page: when what has it is removed, hidden or disabled, the next place gets it. */
export function keepFocus(root: Element): void {
  document.addEventListener("focusin", remember);
  document.addEventListener("focusout", checkSoon);
  new MutationObserver((changes) => {
    if (trail[0] && (!trail[0].element.isConnected || changes.some((change) => change.type === "attributes"))) checkSoon();
  }).observe(root, { subtree: true, childList: true, attributes: true, attributeFilter: ["disabled", "hidden", "class"] });
}

/** Moves the focus to what `selector` finds, now or when it is drawn, unless the person does something before that. */
export function focusWhenDrawn(selector: string): void {
  const until = performance.now() + 5000;
  const stop = new AbortController();
  for (const kind of ["keydown", "pointerdown"]) addEventListener(kind, () => stop.abort(), { capture: true, signal: stop.signal });
  const again = (): void => {
    if (stop.signal.aborted) return;
    const found = [...document.querySelectorAll<HTMLElement>(selector)].find(usable);
    found?.focus();
    if (found || performance.now() > until) stop.abort();
    else requestAnimationFrame(again);
  };
  requestAnimationFrame(again);
}

/** Opens another view, and moves the focus to what `selector` finds in it. */
export function openView(hash: string, selector: string): void {
  if (location.hash === hash) return focusWhenDrawn(selector);
  addEventListener("hashchange", () => focusWhenDrawn(selector), { once: true });
  location.hash = hash;
}
