/** An id that no other page makes. `randomUUID` is missing where the page came by plain HTTP from another machine. */
export function freshId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
