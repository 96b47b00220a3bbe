// Turns every chunk into a string by itself, so that a character that is split over two chunks is lost.
'use strict';

const { Relay } = require('./host_relay.js');

class ChunkString extends Relay {
  lines(stream, each) {
    let rest = '';
    stream.on('data', (chunk) => {
      rest += chunk.toString();
      const pieces = rest.split('\n');
      rest = pieces.pop();
      pieces.forEach(each);
    });
  }
}

new ChunkString().run();
