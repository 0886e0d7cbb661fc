// A TCP relay on loopback that loses connections where a scenario says so.

import { connect, createServer } from 'node:net';
import { once } from 'node:events';

/**
 * Relays to a server; connections are counted from 0.
 *
 * `cutAnswers`: the request reaches the server, the server answers, the answer is thrown away.
 * `cutRequests`: the connection is lost before anything reaches the server.
 */
export async function proxy(url, { cutAnswers = [], cutRequests = [] }) {
  const target = new URL(url);
  const state = { connections: 0, answersLost: 0, sockets: new Set() };
  const server = createServer((socket) => {
    const number = state.connections++;
    const keep = (one) => state.sockets.add(one.on('error', () => {}));
    keep(socket);
    if (cutRequests.includes(number)) {
      socket.once('data', () => socket.resetAndDestroy());
      return;
    }
    const up = connect(target.port, target.hostname);
    keep(up);
    socket.pipe(up);
    socket.on('close', () => up.destroy());
    up.on('close', () => socket.destroy());
    if (cutAnswers.includes(number)) {
      up.once('data', () => {
        state.answersLost++;
        socket.resetAndDestroy();
        up.destroy();
      });
    } else {
      up.pipe(socket);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  state.url = `http://127.0.0.1:${server.address().port}`;
  state.close = () => {
    server.close();
    for (const socket of state.sockets) socket.destroy();
  };
  return state;
}
