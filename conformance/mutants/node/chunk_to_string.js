// Turns each read into a string by itself, so that a character across two reads is lost.
"use strict";

const { Adapter, parsed } = require("./adapter.js");

class ChunkToString extends Adapter {
  run() {
    let rest = "";
    process.stdin.on("data", (chunk) => {
      const lines = (rest + chunk.toString()).split("\n");
      rest = lines.pop();
      lines.forEach((line) => this.handle(parsed(line)));
    });
    process.stdin.on("end", () => this.stopAll());
  }
}

new ChunkToString().run();
