// Makes `dist` from `src`, or with --test the tests as modules that node runs.
import { build } from "esbuild";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { gzipSync } from "node:zlib";

const jsx = { jsx: "automatic", jsxImportSource: "preact" };

/** What all assets may take together, compressed: a console is opened often, and over slow links too. */
const LIMIT = 150_000;

if (process.argv.includes("--test")) {
  rmSync(".test", { recursive: true, force: true });
  await build({
    ...jsx,
    entryPoints: readdirSync("test").filter((name) => name.endsWith(".test.ts") || name.endsWith(".test.tsx"))
      .map((name) => `test/${name}`),
    outdir: ".test",
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    sourcemap: "inline",
    logLevel: "warning",
  });
} else {
  mkdirSync("dist", { recursive: true });
  await build({
    ...jsx,
    entryPoints: { app: "src/main.tsx" },
    outdir: "dist",
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
    logLevel: "warning",
  });
  await build({
    entryPoints: { app: "src/css/app.css" },
    outdir: "dist",
    bundle: true,
    minify: true,
    target: "es2022",
    charset: "utf8",
    logLevel: "warning",
  });
  await build({ entryPoints: { worker: "src/worker.ts" }, outdir: "dist", bundle: true, minify: true, format: "iife", target: "es2022", logLevel: "warning" });
  for (const name of ["index.html", "icon.svg", "icon-maskable.svg", "manifest.webmanifest"]) copyFileSync(`src/${name}`, `dist/${name}`);
  const sizes = readdirSync("dist").map((name) => gzipSync(readFileSync(`dist/${name}`), { level: 9 }).length);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  console.log(`dist: ${total} bytes compressed`);
  if (total > LIMIT) throw new Error(`dist takes ${total} bytes compressed, more than ${LIMIT}`);
}
