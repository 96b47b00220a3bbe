// Writes `approved: undefined` for a denial; JSON.stringify leaves the member out.
'use strict';

const { Relay } = require('./host_relay.js');

class UndefinedApproved extends Relay {
  response(sid, request, approved) {
    return super.response(sid, request, approved || undefined);
  }
}

new UndefinedApproved().run();
