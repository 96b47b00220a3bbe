/** What keeps untrusted text harmless: addresses, names, characters that lie about the order of others. */

const SCHEMES = new Set(["http:", "https:", "mailto:"]);

/** The address if it may be a link, else the empty text. */
export function safeLink(address: string): string {
  const text = address.trim();
  if (text.length > 2000 || !/^(https?:\/\/|mailto:)/i.test(text)) return "";
  try {
    const url = new URL(text);
    // A name and password before the host are there to deceive.
    if (!SCHEMES.has(url.protocol) || url.username !== "" || url.password !== "") return "";
    return url.href;
  } catch {
    return "";
  }
}

/** Where a link leads, for a person: the host, which is in ASCII, so that no letter looks like another one. */
export function linkTarget(href: string): string {
  try {
    const url = new URL(href);
    return url.protocol === "mailto:" ? url.pathname : url.host;
  } catch {
    return "";
  }
}

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Makes characters visible that hide, or turn the order of others: for what a person decides by, and for names. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (c) => `\u27e8U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);
}

/** A name to save a file under: no path, no control characters, not hidden, not too long. */
export function fileName(name: string): string {
  const base = name.replace(/[/\\]+/g, "_").replace(HIDDEN, "").replace(/[<>:"|?*]/g, "_").replace(/^\.+/, "");
  return base.trim().slice(0, 150) || "file";
}

/** The command that checks an agent. An id that a shell could read otherwise is left out: then all agents are checked. */
export const doctorCommand = (agent: string): string => (/^\w[\w.-]*$/.test(agent) ? `trunkline doctor ${agent}` : "trunkline doctor");

/** The raster type that the bytes show, or nothing: only these are drawn. */
export function rasterType(bytes: Uint8Array): string {
  const ascii = (from: number, to: number): string => String.fromCharCode(...bytes.subarray(from, to));
  if (bytes[0] === 0x89 && ascii(1, 8) === "PNG\r\n\x1a\n") return "image/png";
  if (bytes[0] === 0xff && bytes[1] === 0xd8 && bytes[2] === 0xff) return "image/jpeg";
  if (/^GIF8[79]a$/.test(ascii(0, 6))) return "image/gif";
  if (ascii(0, 4) === "RIFF" && ascii(8, 12) === "WEBP") return "image/webp";
  return "";
}
