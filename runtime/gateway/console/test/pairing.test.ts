import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { Api, Problem } from "../src/core/api.ts";
import { BrowserKey, PastedToken, browserName, codeOfLink, textToSign } from "../src/core/pairing.ts";
import type { Credential } from "../src/core/pairing.ts";

interface Asked {
  path: string;
  bearer: string;
  body: { [name: string]: string };
}

const original = { fetch: globalThis.fetch, location: Object.getOwnPropertyDescriptor(globalThis, "location") };
afterEach(() => {
  globalThis.fetch = original.fetch;
  if (original.location) Object.defineProperty(globalThis, "location", original.location);
});

/** Answers requests as a daemon does whose bearers are `good`. */
function serve(good: () => string, more: { [end: string]: () => [number, unknown] } = {}): Asked[] {
  const asked: Asked[] = [];
  Object.defineProperty(globalThis, "location", { value: { origin: "https://box.example" }, configurable: true });
  globalThis.fetch = async (input, init) => {
    const path = String(input);
    const bearer = (new Headers(init?.headers).get("Authorization") ?? "").replace("Bearer ", "");
    asked.push({ path, bearer, body: JSON.parse(String(init?.body ?? "{}")) });
    await Promise.resolve();
    const special = Object.entries(more).find(([end]) => path.endsWith(end))?.[1];
    const [status, body] = special ? special() : bearer === good() ? [200, { name: "t-1" }] : [401, { detail: "not known" }];
    return new Response(JSON.stringify(body), { status });
  };
  return asked;
}

async function paired(): Promise<{ key: BrowserKey; open: CryptoKey }> {
  const pair = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, ["sign", "verify"]);
  return { key: new BrowserKey({ id: "0a1b2c3d", key: pair.privateKey, byToken: false }), open: pair.publicKey };
}

test("a browser signs a challenge for its origin, once for all requests that wait", async () => {
  let count = 0;
  const asked = serve(() => `bearer-${count}`, {
    "/challenge": () => [200, { challenge: `challenge-${count}` }],
    "/bearer": () => [200, { token: `bearer-${(count += 1)}`, expires_in: 600 }],
  });
  const { key, open } = await paired();
  const api = new Api(key, () => assert.fail("refused"));
  await Promise.all([api.me(), api.me(), api.me()]);
  assert.equal(count, 1);
  const { body } = asked.find((each) => each.path.endsWith("/bearer")) as Asked;
  const text = new TextEncoder().encode("trunkline sign-in 1\nhttps://box.example\n0a1b2c3d\nchallenge-0");
  const signature = Uint8Array.from(Buffer.from(body.signature ?? "", "hex"));
  assert.ok(await crypto.subtle.verify({ name: "ECDSA", hash: "SHA-256" }, open, signature, text));
  assert.equal(signature.length, 64, "r and s");
  // The daemon was restarted, and knows no bearer of before: each request is sent again once.
  count = 5;
  asked.length = 0;
  await Promise.all([api.me(), api.me()]);
  assert.equal(count, 6);
  assert.deepEqual(asked.filter((each) => each.path === "/v1/me").map((each) => each.bearer), ["bearer-1", "bearer-1", "bearer-6", "bearer-6"]);
});

test("a bearer that ends soon is renewed before a request", async () => {
  let count = 0;
  serve(() => `bearer-${count}`, {
    "/challenge": () => [200, { challenge: "c" }],
    "/bearer": () => [200, { token: `bearer-${(count += 1)}`, expires_in: count === 1 ? 30 : 600 }],
  });
  const api = new Api((await paired()).key, () => assert.fail("refused"));
  await api.me();
  await api.me();
  await api.me();
  assert.equal(count, 2);
});

test("a daemon that restarts between a challenge and its answer signs no page out", async () => {
  let tries = 0;
  const served = serve(() => "bearer", {
    "/challenge": () => [200, { challenge: "c" }],
    "/bearer": () => ((tries += 1) === 1 ? [401, { detail: "the challenge is not valid" }] : [200, { token: "bearer", expires_in: 600 }]),
  });
  await new Api((await paired()).key, () => assert.fail("refused")).me();
  assert.equal(served.length, 5);
});

test("only an answer signs the page out, and never a daemon that is not there", async () => {
  const why: string[] = [];
  const refused = (reason: string): void => void why.push(reason);
  serve(() => "none", { "/challenge": () => [401, { detail: "this browser was revoked" }] });
  const { key } = await paired();
  await assert.rejects(new Api(key, refused).me(), (error: Problem) => error.status === 401);
  assert.deepEqual(why, ["this browser was revoked"]);
  serve(() => "none");
  await assert.rejects(new Api(new PastedToken("tlk_x"), refused).me(), (error: Problem) => error.status === 401);
  assert.deepEqual(why.slice(1), ["not known"]);
  for (const status of [500, 503, 429]) {
    serve(() => "none", { "/challenge": () => [status, { detail: "busy" }] });
    await assert.rejects(new Api((await paired()).key, refused).me(), (error: Problem) => error.status === status);
  }
  globalThis.fetch = () => Promise.reject(new TypeError("no network"));
  await assert.rejects(new Api(key, refused).me(), (error: Problem) => error.status === 0);
  assert.equal(why.length, 2);
});

test("a request is repeated once, with its body", async () => {
  const credential: Credential = { bearer: async () => "old", renew: async () => "newer" };
  const asked = serve(() => "newer");
  await new Api(credential, () => assert.fail("refused")).renameBrowser("0a1b2c3d", "Desk");
  assert.deepEqual(asked.map((each) => [each.bearer, each.body.name]), [["old", "Desk"], ["newer", "Desk"]]);
  const again = serve(() => "never");
  await assert.rejects(new Api(credential, () => undefined).me());
  assert.equal(again.length, 2);
});

test("names of browsers and codes of links are read, and nothing else is", () => {
  const agents: [string, string][] = [
    ["Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 Chrome/150.0.0.0 Mobile Safari/537.36", "Chrome on Android"],
    ["Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605 Version/19 Mobile Safari/604.1", "Safari on iPhone"],
    ["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"],
    ["Mozilla/5.0 (Windows NT 10.0) Chrome/150.0.0.0 Safari/537.36 Edg/150.0", "Edge on Windows"],
    ["curl", "Browser on a device"],
  ];
  for (const [agent, name] of agents) assert.equal(browserName(agent), name);
  const links: [string, string][] = [["#/pair/K7QM-3XTB", "K7QM-3XTB"], ["#/pair/", ""], ["#/pair/a/b", ""], ["#/sessions/K7QM", ""], [`#/pair/${"A".repeat(21)}`, ""], ["#/pair/<b>", ""]];
  for (const [hash, code] of links) assert.equal(codeOfLink(hash), code, hash);
  assert.equal(textToSign("o", "i", "c"), "trunkline sign-in 1\no\ni\nc");
});
