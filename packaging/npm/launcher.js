#!/usr/bin/env node
// Runs the program that was built for this system, with the arguments, input and output of this process.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const platform = `${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`@NAME@-${platform}/@PROGRAM@`);
} catch {
  const built = Object.keys(require("./package.json").optionalDependencies).map((name) => name.slice("@NAME@-".length));
  const next = built.includes(platform)
    ? "install again without --omit=optional"
    : `there are programs for ${built.join(" and ")}; build it from source for other systems`;
  console.error(`@PROGRAM@: the package @NAME@-${platform} is not installed; ${next}`);
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// A terminal sends Ctrl-C and Ctrl-\ to the program, too; it must not arrive twice.
const fromTerminal = process.stdin.isTTY ? ["SIGINT", "SIGQUIT"] : [];
for (const signal of ["SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGUSR2"]) {
  process.on(signal, () => fromTerminal.includes(signal) || child.kill(signal));
}
child.on("error", (error) => {
  console.error(`@PROGRAM@: ${program} could not be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(signal === null ? code : 128 + constants.signals[signal]));
