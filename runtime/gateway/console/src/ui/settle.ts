/** Refuses presses of answers that came to their place a moment ago: they were meant for what was there before. */

import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";

/** Time for which a request must be in its place before it can be answered, in milliseconds. */
export const READ_MS = 500;
/** Distance that counts as another place, in pixels. */
const MOVED = 8;

interface AnswerPlace {
  top: number;
  /** When it was painted there. */
  since: number;
}

const places = new WeakMap<Element, AnswerPlace>();
const boxes = new Set<HTMLElement>();

const answersOf = (box: HTMLElement): HTMLElement[] => [...box.querySelectorAll<HTMLElement>("[data-request] .actions")];

/** Refuses answers until they have been in sight at their place for `READ_MS`. */
function settle(answers: HTMLElement, top: number): void {
  const place = { top, since: Infinity };
  places.set(answers, place);
  answers.ariaDisabled = "true";
  const isCurrent = (): boolean => places.get(answers) === place;
  // Behind the frame that shows them: on a slow machine that one takes its time.
  requestAnimationFrame(() => setTimeout(() => {
    if (!isCurrent()) return;
    place.since = performance.now();
    const card = answers.closest<HTMLElement>("[data-shown]");
    if (card) card.dataset.shown = String(Math.round(place.since));
    setTimeout(() => isCurrent() && answers.removeAttribute("aria-disabled"), READ_MS);
  }));
}

/** Looks for answers that are new or were moved by something else than the reader's scrolling. */
function look(box: HTMLElement): void {
  for (const answers of answersOf(box)) {
    const { top } = answers.getBoundingClientRect();
    const known = places.get(answers);
    if (!known || Math.abs(known.top - top) > MOVED) settle(answers, top);
  }
}

function scrolled({ currentTarget }: Event): void {
  for (const answers of answersOf(currentTarget as HTMLElement)) {
    const known = places.get(answers);
    if (known) known.top = answers.getBoundingClientRect().top;
  }
}

/** A click without a position is of a key, which has a guard of its own. */
function clicked(event: MouseEvent): void {
  const answers = (event.target as Element).closest(".actions");
  const place = answers ? places.get(answers) : undefined;
  if (!place || event.detail === 0 || event.timeStamp - place.since >= READ_MS) return;
  event.preventDefault();
  event.stopPropagation();
}

/** Guards the requests in a scrolled box. */
export function useSettling(ref: RefObject<HTMLElement | null>, isDrawn: boolean): void {
  useLayoutEffect(() => {
    const box = ref.current;
    if (!box) return;
    const observer = new MutationObserver(() => look(box));
    observer.observe(box, { childList: true, subtree: true });
    box.addEventListener("scroll", scrolled);
    box.addEventListener("click", clicked, true);
    boxes.add(box);
    return () => {
      observer.disconnect();
      box.removeEventListener("scroll", scrolled);
      box.removeEventListener("click", clicked, true);
      boxes.delete(box);
    };
  }, [isDrawn]);
  useLayoutEffect(() => {
    if (ref.current) look(ref.current);
  });
}

/** Settles all requests again, since something that covered them is gone. */
export function settleAll(): void {
  for (const box of boxes) for (const answers of answersOf(box)) settle(answers, answers.getBoundingClientRect().top);
}
