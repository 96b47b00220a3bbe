// Collects lines for a moment, and takes `exit` for the end of a process: what it wrote last is lost.
'use strict';

const { Relay } = require('./host_relay.js');

class ExitEvent extends Relay {
  lines(stream, each) {
    if (stream === process.stdin) {
      super.lines(stream, each);
      return;
    }
    super.lines(stream, (line) => setTimeout(() => stream.listenerCount('data') > 0 && each(line), 30));
  }

  watch(agent, child) {
    child.on('error', (error) => this.ended(agent, child, String(error)));
    child.on('exit', (code, signal) => {
      child.stdout.removeAllListeners('data');
      this.ended(agent, child, `the adapter ended: ${signal ?? code}`);
    });
  }
}

new ExitEvent().run();
