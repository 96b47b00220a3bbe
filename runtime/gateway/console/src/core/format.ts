/** Numbers and times as a person reads them. */

export function bytes(count: number): string {
  let value = count;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (value < 1000 || unit === "GB") return `${value < 10 && unit !== "B" ? value.toFixed(1) : Math.round(value)} ${unit}`;
    value /= 1000;
  }
  return "";
}

export function count(value: number): string {
  if (value < 10_000) return String(Math.round(value));
  if (value < 1_000_000) return `${(value / 1000).toFixed(value < 100_000 ? 1 : 0)}k`;
  return `${(value / 1_000_000).toFixed(value < 100_000_000 ? 1 : 0)}M`;
}

export function duration(ms: number): string {
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function money(usd: number): string {
  if (usd > 0 && usd < 0.0001) return "below $0.0001";
  return `$${usd < 0.1 && usd > 0 ? usd.toFixed(4) : usd.toFixed(2)}`;
}

const pad = (value: number): string => String(value).padStart(2, "0");

/** The time of day, with the date where that is not today. */
export function clock(time: string, now: Date = new Date()): string {
  const at = new Date(time);
  if (time === "" || Number.isNaN(at.getTime())) return "";
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  const today = `${now.getFullYear()}-${pad(now.getMonth() + 1)}-${pad(now.getDate())}`;
  const hour = `${pad(at.getHours())}:${pad(at.getMinutes())}`;
  return day === today ? `${hour}:${pad(at.getSeconds())}` : `${day} ${hour}`;
}

/** The author of a message: `NAME/TOKEN/LISTENER`, where a token need not have a name, or only a listener, of the socket.
 * One's own token is oneself. */
export function who(by: string, own: string): string {
  if (by === "" || (own !== "" && `${by}/`.startsWith(`${own}/`))) return "you";
  const name = by.split("/")[0] ?? "";
  if (/^t-[0-9a-f]+$/.test(name)) return `token ${name.slice(2)}`;
  return /^l-\d+$/.test(name) ? "a local program" : name;
}

/** The title of a session. One without a title is named by its origin and the beginning of its id. */
export function sessionTitle(title: string, id: string): string {
  if (title !== "") return title;
  const made = /^(acp-|key-|)([0-9a-f]{6})[0-9a-f-]{10,}$/.exec(id);
  return made ? `${made[1] === "acp-" ? "Editor session" : "Session"} ${made[2]}` : id;
}

/** How long ago, in one unit. */
export function ago(time: string, now: number = Date.now()): string {
  const at = Date.parse(time);
  if (Number.isNaN(at)) return "";
  const seconds = Math.max(0, (now - at) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}
