import type { OpenSocket } from "./socket.js";
import { TroupeError } from "./errors.js";

/** Opens the websocket of the browser. Cookies of the page are its credential. */
export const openSocket: OpenSocket = (url, options, listener) => {
  if (options.token !== undefined) {
    throw new TroupeError("unsupported", "a websocket of a browser cannot send a token: log in at /console/login, which sets a cookie, and leave token out");
  }
  const socket = new WebSocket(url, [...options.protocols]);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => listener.opened();
  socket.onmessage = (event: MessageEvent<string | ArrayBuffer>) =>
    listener.message(typeof event.data === "string" ? event.data : new Uint8Array(event.data));
  let closed = false;
  const end = (code: number, reason: string): void => {
    if (closed) return;
    closed = true;
    listener.closed(code, reason);
  };
  socket.onclose = (event) => end(event.code, event.reason);
  return {
    get protocol() {
      return socket.protocol;
    },
    send: (data) => socket.send(data as string | Uint8Array<ArrayBuffer>),
    close: (code, reason) => {
      if (socket.readyState === WebSocket.OPEN || socket.readyState === WebSocket.CONNECTING) {
        socket.close(code === 1000 ? 1000 : Math.max(3000, code), reason); // a page may send no other code
      }
      end(code, reason); // the event may take long if the network is down
    },
  };
};
