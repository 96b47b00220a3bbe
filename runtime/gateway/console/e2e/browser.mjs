// A Chromium of the system, and a daemon: the program's own, one that stands already (CONSOLE_URL, CONSOLE_TOKEN), or the mock.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";
import { start } from "../mock/main.mjs";
import { real } from "./real.mjs";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/usr/bin/google-chrome-stable"];

function options() {
  const executablePath = process.env.CONSOLE_CHROMIUM ?? PLACES.find((place) => existsSync(place));
  if (!executablePath) throw new Error("no Chromium was found; CONSOLE_CHROMIUM names one");
  // Chromium's own sandbox needs what a container often lacks; the pages are ours.
  return { executablePath, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] };
}

export const launch = () => chromium.launch(options());

/** A browser that keeps what its pages store in a folder. */
export const launchIn = (folder, more = {}) => chromium.launchPersistentContext(folder, { ...options(), ...more });

export async function daemon({ mock = false, ...options }) {
  if (mock || process.env.CONSOLE_MOCK) {
    const place = await start(options);
    return { ...place, token: place.world.token };
  }
  if (process.env.CONSOLE_URL) return { url: process.env.CONSOLE_URL, token: process.env.CONSOLE_TOKEN ?? "" };
  return real(options);
}

/** Puts the token where the console keeps it, as a page that was opened has done. */
export async function signedIn(context, { url, token }, hash = "#/sessions") {
  const page = await context.newPage();
  await page.addInitScript(([key, value]) => sessionStorage.setItem(key, value), ["trunkline.token", token]);
  await page.goto(`${url}/${hash}`);
  return page;
}
