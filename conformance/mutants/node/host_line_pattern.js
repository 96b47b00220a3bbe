// Splits its input by a pattern of everything that ends a line somewhere.
'use strict';

const { StringDecoder } = require('node:string_decoder');
const { Relay } = require('./host_relay.js');

class LinePattern extends Relay {
  lines(stream, each) {
    const decoder = new StringDecoder('utf8');
    let rest = '';
    stream.on('data', (chunk) => {
      const pieces = (rest + decoder.write(chunk)).split(/\r\n|[\n\r\u2028\u2029\u0085]/);
      rest = pieces.pop();
      pieces.forEach(each);
    });
  }
}

new LinePattern().run();
