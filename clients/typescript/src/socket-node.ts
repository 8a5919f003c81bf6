import { WebSocket } from "ws";
import type { OpenSocket } from "./socket.js";

/** Opens a websocket in Node, by the package ws. unix:///PATH connects to the socket at PATH. */
export const openSocket: OpenSocket = (url, options, listener) => {
  const socket = new WebSocket(url.startsWith("unix://") ? `ws+unix:${url.slice("unix://".length)}:/` : url, [...options.protocols], {
    headers: options.token === undefined ? {} : { Authorization: `Bearer ${options.token}` },
    perMessageDeflate: false,
    maxPayload: 128 << 20,
  });
  let closed = false;
  let status: number | undefined;
  let problem = "";
  const end = (code: number, reason: string): void => {
    if (closed) return;
    closed = true;
    listener.closed(code, reason || problem, status);
  };
  socket.on("unexpected-response", (request, response) => {
    status = response.statusCode;
    const parts: Buffer[] = [];
    response.on("data", (part: Buffer) => parts.length < 4 && parts.push(part));
    response.on("close", () => {
      problem = `HTTP ${status}: ${Buffer.concat(parts).toString().trim()}`;
      request.destroy();
      socket.terminate();
      end(1006, problem);
    });
  });
  socket.on("error", (error) => {
    problem ||= error.message;
  });
  socket.on("open", () => listener.opened());
  socket.on("message", (data: Buffer, binary) => {
    if (!closed) listener.message(binary ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : data.toString());
  });
  socket.on("close", (code, reason) => end(code, reason.toString()));
  return {
    get protocol() {
      return socket.protocol;
    },
    send: (data) => socket.send(data),
    close: (code, reason) => {
      socket.close(code, reason);
      setTimeout(() => socket.terminate(), 2_000).unref(); // the peer may not answer
      end(code, reason);
    },
  };
};
