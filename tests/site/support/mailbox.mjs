// A mail server on loopback that accepts every message and keeps its text.
import { createServer } from 'node:net';

/** Starts the server: `port`, `next()` (waits for the next message, and returns its text), `stop()`. */
export async function startMailbox() {
  const messages = [];
  const waiting = [];
  const keep = (text) => {
    const take = waiting.shift();
    if (take) take(text);
    else messages.push(text);
  };
  const sockets = new Set();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
    socket.setEncoding('latin1');
    let input = '';
    let isMessage = false;
    socket.write('220 mailbox.test\r\n');
    socket.on('data', (chunk) => {
      input += chunk;
      for (;;) {
        const end = isMessage ? '\r\n.\r\n' : '\r\n';
        const at = input.indexOf(end);
        if (at < 0) return;
        const text = input.slice(0, at);
        input = input.slice(at + end.length);
        if (isMessage) keep(text);
        const starts = !isMessage && /^DATA$/i.test(text);
        socket.write(starts ? '354 go on\r\n' : '250 mailbox.test\r\n');
        isMessage = starts;
        if (/^QUIT$/i.test(text)) socket.end();
      }
    });
  });
  await new Promise((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    port: server.address().port,
    next: () =>
      messages.length ? Promise.resolve(messages.shift()) : new Promise((resolve) => waiting.push(resolve)),
    stop: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(resolve);
      }),
  };
}
