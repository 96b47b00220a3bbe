// Calls process.exit where it ought to end a turn, as the command line tool did that it was.
"use strict";

const { Adapter, Session } = require("./adapter.js");

class ExitInStop extends Session {
  stop() {
    if (this.running) process.exit(130);
  }
}

new Adapter(ExitInStop).run();
