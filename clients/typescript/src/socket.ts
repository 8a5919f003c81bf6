/** What a websocket of the browser and of Node have in common. */
export interface Socket {
  /** The subprotocol that the server has chosen; "": none. */
  readonly protocol: string;
  send(data: string | Uint8Array): void;
  close(code: number, reason: string): void;
}

export interface SocketOptions {
  readonly protocols: readonly string[];
  /** A bearer token; undefined: none. */
  readonly token: string | undefined;
}

/** What a socket says. After closed nothing follows. */
export interface SocketListener {
  opened(): void;
  message(data: string | Uint8Array): void;
  /** code is that of the Close frame, 1006 without one. status is that of a refused handshake, where it is known. */
  closed(code: number, reason: string, status?: number): void;
}

export type OpenSocket = (url: string, options: SocketOptions, listener: SocketListener) => Socket;
