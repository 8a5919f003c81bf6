/** A websocket, of the browser or of Node. */
export interface Socket {
  /** The subprotocol chosen by the server; "": none. */
  readonly protocol: string;
  send(data: string | Uint8Array): void;
  close(code: number, reason: string): void;
}

export interface SocketOptions {
  readonly protocols: readonly string[];
  /** A bearer token; undefined: none. */
  readonly token: string | undefined;
}

/** The events of a socket. After closed nothing follows. */
export interface SocketListener {
  opened(): void;
  message(data: string | Uint8Array): void;
  /** code is from the Close frame; 1006: there was no frame. status is from a refused handshake, if known. */
  closed(code: number, reason: string, status?: number): void;
}

export type OpenSocket = (url: string, options: SocketOptions, listener: SocketListener) => Socket;
