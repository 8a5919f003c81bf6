// What the tests share: a real server, and a network that breaks.
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, connect, type AddressInfo, type Server as NetServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

/** The binary under test: .ci/typescript builds it. */
export const troupe = process.env["TROUPE"] ?? "";
if (!troupe) throw new Error("TROUPE is not set: run .ci/typescript, which builds troupe and runs these tests");

/** The limit of waits for facts: only a dead machine reaches it. */
export const patience = 120_000;

/** The options of a test. */
export const limit = { timeout: 5 * patience };

export interface Server {
  readonly url: string;
  /** A directory of its own, which is gone after the test. */
  readonly dir: string;
  readonly process: ChildProcess;
  log(): string;
}

/** Starts a server for the time of a test. */
export async function serve(t: TestContext, ...args: string[]): Promise<Server> {
  const dir = mkdtempSync(join(tmpdir(), "troupe-ts-"));
  const child = spawn(troupe, ["serve", "--listen", "ws://127.0.0.1:0", ...args], {
    cwd: dir,
    env: { ...process.env, TMPDIR: dir, XDG_RUNTIME_DIR: dir, XDG_STATE_HOME: dir, HOME: dir },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let log = "";
  child.stderr.on("data", (text: Buffer) => (log += text));
  const ended = new Promise<void>((resolve) => child.on("exit", () => resolve()));
  t.after(async () => {
    child.kill();
    await ended;
    rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
  });
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.on("data", (text: Buffer) => resolve(text.toString().trim()));
    child.on("exit", () => reject(new Error(`the server has ended:\n${log}`)));
  });
  return { url, dir, process: child, log: () => log };
}

/** Returns the pid of the server below its holder; 0: there is none at the moment. */
export function serverBelow(holder: number): number {
  const children = readFileSync(`/proc/${holder}/task/${holder}/children`, "utf8").split(" ").filter(Boolean);
  return Number(children.find((pid) => readFileSync(`/proc/${pid}/comm`, "utf8") === "troupe-server\n") ?? 0);
}

/** Waits for a fact. */
export async function until<T>(what: string, fact: () => T | Promise<T>): Promise<NonNullable<T>> {
  const limit = Date.now() + patience;
  for (;;) {
    const value = await fact();
    if (value) return value;
    if (Date.now() > limit) throw new Error(`not within ${patience / 1000} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export type Direction = "up" | "down";

/** What happens with a message: it passes, or the connection is cut before or after it. */
export type Fate = "pass" | "before" | "after";

/** A message on the way: number n of its direction and connection, from 1. */
export interface Passing {
  readonly direction: Direction;
  readonly n: number;
  readonly connection: number;
}

/** A Proxy is a network between client and server, which cuts connections at messages or bytes, and may fall silent. */
export class Proxy {
  connections = 0;
  messages = { up: 0, down: 0 }; // of the last connection
  cuts = 0;
  /** Decides about each message. */
  fate: (message: Passing) => Fate = () => "pass";
  /** How many bytes a connection may have in a direction; undefined: any. */
  bytes: ((connection: number) => { up: number; down: number }) | undefined;
  /** Nothing passes, and no connection ends. */
  silent = false;
  /** Pieces of data that were dropped meanwhile. */
  dropped = 0;
  /** The server is not told that a client has left. */
  halfOpen = false;
  #pairs = new Set<() => void>();
  #target: URL;

  private constructor(
    target: string,
    readonly listener: NetServer,
  ) {
    this.#target = new URL(target);
  }

  static async start(t: TestContext, target: string): Promise<Proxy> {
    const listener = createServer({ noDelay: true }, (client) => proxy.#accept(client));
    const proxy = new Proxy(target, listener);
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    t.after(() => {
      proxy.cut();
      listener.close();
    });
    return proxy;
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.listener.address() as AddressInfo).port}`;
  }

  /** Cuts all connections. */
  cut(): void {
    for (const end of [...this.#pairs]) end();
  }

  #accept(client: Socket): void {
    const connection = ++this.connections;
    const server = connect({ port: Number(this.#target.port), host: this.#target.hostname, noDelay: true });
    const end = (): void => {
      if (!this.#pairs.delete(end)) return;
      client.destroy();
      server.destroy();
    };
    const cut = (): void => {
      this.cuts++;
      end();
    };
    this.#pairs.add(end);
    this.messages = { up: 0, down: 0 };
    const left = this.bytes?.(connection);
    for (const [direction, from, to] of [
      ["up", client, server],
      ["down", server, client],
    ] as const) {
      from.on("error", () => {});
      from.on("close", () => this.halfOpen || end());
      const frames = new Frames();
      let n = 0;
      from.on("data", (data: Buffer) => {
        if (this.silent) return void this.dropped++;
        if (left) {
          if ((left[direction] -= data.length) <= 0) {
            to.write(data.subarray(0, data.length + left[direction]), cut);
            from.pause();
            return;
          }
          if (!to.write(data)) {
            from.pause();
            to.once("drain", () => from.resume());
          }
          return;
        }
        for (const { bytes, message } of frames.push(data)) {
          if (!this.#pairs.has(end)) return;
          if (!message) {
            to.write(bytes);
            continue;
          }
          this.messages[direction] = ++n;
          const fate = this.fate({ direction, n, connection });
          if (fate === "before") return cut();
          if (fate === "after") {
            from.pause();
            to.write(bytes, () => setImmediate(cut));
            return;
          }
          to.write(bytes);
        }
      });
    }
  }
}

/** Frames cuts one direction of a websocket into the handshake and frames. */
class Frames {
  #rest = Buffer.alloc(0);
  #open = false;

  push(data: Buffer): { bytes: Buffer; message: boolean }[] {
    this.#rest = Buffer.concat([this.#rest, data]);
    const all: { bytes: Buffer; message: boolean }[] = [];
    for (let size; (size = this.#next()) > 0; ) {
      const bytes = this.#rest.subarray(0, size);
      all.push({ bytes, message: this.#open && ((bytes[0] as number) & 15) < 3 });
      this.#open = true;
      this.#rest = this.#rest.subarray(size);
    }
    return all;
  }

  /** Returns the size of the next piece; 0: it has not come. */
  #next(): number {
    const b = this.#rest;
    if (!this.#open) return b.indexOf("\r\n\r\n") + 4 > 3 ? b.indexOf("\r\n\r\n") + 4 : 0;
    if (b.length < 2) return 0;
    const short = (b[1] as number) & 127;
    const more = short === 126 ? 2 : short === 127 ? 8 : 0;
    if (b.length < 2 + more) return 0;
    const length = more === 2 ? b.readUInt16BE(2) : more === 8 ? Number(b.readBigUInt64BE(2)) : short;
    const size = 2 + more + ((b[1] as number) & 128 ? 4 : 0) + length;
    return b.length < size ? 0 : size;
  }
}
