// Ends a turn at a stop and leaves its timer behind, which ends the turn again.
"use strict";

const { Adapter, Session } = require("./adapter.js");

class TimerLeft extends Session {
  stop() {
    if (!this.running || this.stopped) return;
    this.stopped = true;
    this.send("turn.complete");
  }

  pause(ms) {
    return new Promise((done) => setTimeout(done, ms));
  }
}

new Adapter(TimerLeft).run();
