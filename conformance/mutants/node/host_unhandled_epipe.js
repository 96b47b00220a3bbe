// Listens for no errors of the adapter's stdin, so that a write to a dead adapter ends the host.
'use strict';

const { Relay } = require('./host_relay.js');

class UnhandledPipe extends Relay {
  write(session, message) {
    session.child?.stdin.removeAllListeners('error');
    super.write(session, message);
  }

  ended(agent, child, why) {
    setTimeout(() => super.ended(agent, child, why), 500);
  }
}

new UnhandledPipe().run();
