// A ProcessHandle looks at a process and changes it. A Process also takes its output.
import { bytesOf, concat, fromBase64, randomId } from "./codec.js";
import { aborted, type Link, type RequestOptions } from "./link.js";
import { ConnectionError, GapError, RequestError, TroupeError } from "./errors.js";
import type {
  EnvPolicy,
  ExitStatus,
  Notifications,
  ProcessInfo,
  ProcessInfoResult,
  ProcessReadParams,
  ProcessReadResult,
  ProcessScreenParams,
  ProcessScreenResult,
  ProcessStartParams,
  ProcessTerminateResult,
  Restart,
  Rusage,
  Signal,
  Size,
  Stream,
} from "./wire.js";

/** How a program has ended. */
export class Exit {
  /** The exit code, or 128 + the number of the signal. */
  readonly exitCode: number;
  /** Such as `"SIGKILL"`, if a signal ended the program. */
  readonly signal: string | undefined;
  readonly coreDumped: boolean;
  readonly timedOut: boolean;
  readonly oomKilled: boolean;
  /** Why the server ended the program, or could not start it. */
  readonly reason: string | undefined;
  /** Why the server does not run the program again; undefined: no other run was due. */
  readonly givenUp: string | undefined;
  /** The sandbox has probably denied something to the program. */
  readonly sandboxDenied: boolean;
  readonly run: number;
  readonly rusage: Rusage | undefined;

  constructor(status: ExitStatus & { sandboxDenied?: boolean | undefined }, givenUp?: string) {
    this.exitCode = status.exitCode;
    this.signal = status.signal;
    this.coreDumped = status.coreDumped ?? false;
    this.timedOut = status.timedOut ?? false;
    this.oomKilled = status.oomKilled ?? false;
    this.reason = status.reason;
    this.givenUp = givenUp;
    this.sandboxDenied = status.sandboxDenied ?? false;
    this.run = status.run ?? 1;
    this.rusage = status.rusage;
  }

  /** The program has ended with exit code 0, and no other run was due. */
  get ok(): boolean {
    return this.exitCode === 0 && this.givenUp === undefined;
  }

  /** The end in words: `exit code 3`, or `SIGKILL: out of memory`. */
  toString(): string {
    const causes = [
      this.timedOut && "timed out",
      this.oomKilled && "out of memory",
      this.sandboxDenied && "the sandbox has probably denied something",
      this.reason,
      this.givenUp,
    ].filter((cause) => typeof cause === "string");
    return [this.signal ?? `exit code ${this.exitCode}`, ...causes].join(": ");
  }
}

/** A program has failed. */
export class ExitError extends TroupeError {
  readonly processId: string;
  readonly exit: Exit;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;

  constructor(processId: string, output: Output) {
    const text = new TextDecoder().decode(output.stderr.subarray(-1_000)).trim();
    super("exit", `process ${processId}: ${output.exit}${text && "\n" + text}`);
    this.processId = processId;
    this.exit = output.exit;
    this.stdout = output.stdout;
    this.stderr = output.stderr;
  }
}

/** The output of a program, and its end. */
export interface Output {
  /** On a terminal, all output. */
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly exit: Exit;
}

/** An event of a process. Events come in order. `seq` is its number in the process. */
export type ProcessEvent =
  /** `atMs`: when the server got the first byte, if the client was connected with `times`. */
  | { readonly type: "output"; readonly seq: number; readonly stream: Stream; readonly data: Uint8Array; readonly atMs: number | undefined }
  | { readonly type: "exited"; readonly seq: number; readonly exit: Exit }
  /** Another run begins. `stdinLostBytes` is input not read by the last run. */
  | { readonly type: "restarted"; readonly seq: number; readonly run: number; readonly reason: string; readonly delayMs: number; readonly stdinLostBytes: number }
  | { readonly type: "ready"; readonly seq: number; readonly run: number }
  /** Output is lost for good. `bytes` 0: unknown. `seq` is `toSeq`. */
  | { readonly type: "gap"; readonly seq: number; readonly fromSeq: number; readonly toSeq: number; readonly bytes: number; readonly reason: string }
  /** The server gave the process up. */
  | { readonly type: "evicted"; readonly seq: number; readonly reason: string }
  /** The last event. */
  | { readonly type: "closed"; readonly seq: number };

const stdinPiece = 32 << 10;
/** Writes of a process on the wire at once. Each waits while the program's stdin is full. */
const stdinWrites = 4;

/** A process of the session, under its id, whoever has started it. A handle takes no output. */
export class ProcessHandle {
  readonly id: string;
  /** Another process with the same id is refused; undefined: any process with the id. */
  readonly instance: string | undefined;
  /** @internal */
  readonly link: Link;
  #turn: Promise<void> = Promise.resolve(); // ends when the writes before have sent all they have
  #writing = 0;
  #room: (() => void) | undefined;

  /** @internal */
  constructor(link: Link, id: string, instance: string | undefined) {
    this.link = link;
    this.id = id;
    this.instance = instance;
  }

  /**
   * Writes to the program's stdin. The promise resolves when the server has taken everything: while stdin is full, write
   * waits. Over any number of cuts the program gets the data once. Do not change data before.
   */
  async write(data: string | Uint8Array, options?: RequestOptions): Promise<void> {
    const bytes = bytesOf(data);
    const before = this.#turn;
    let sent = (): void => {};
    this.#turn = new Promise((resolve) => (sent = resolve));
    const answers: Promise<void>[] = [];
    let problem: Error | undefined;
    try {
      await before;
      for (let at = 0; at < bytes.length && !problem; at += stdinPiece) {
        while (this.#writing >= stdinWrites) await new Promise<void>((resolve) => (this.#room = resolve));
        if (problem) break;
        this.#writing++;
        const answer = this.#writePiece(bytes.subarray(at, at + stdinPiece), options).finally(() => {
          this.#writing--;
          this.#room?.();
        });
        answers.push(answer.catch((error: Error) => void (problem ??= error)));
      }
    } finally {
      sent();
    }
    await Promise.all(answers);
    if (problem) throw problem;
  }

  async #writePiece(chunk: Uint8Array, options: RequestOptions | undefined): Promise<void> {
    const { status } = await this.link.request("process/write", { processId: this.id, writeId: randomId(), chunk }, options);
    if (status === "stdinClosed") throw new TroupeError("stdinClosed", `process ${this.id}: stdin is closed, or the process has ended`);
    if (status === "unknownProcess") throw new TroupeError("unknownProcess", `there is no process ${this.id}`);
  }

  /** Closes stdin after everything written before. At a terminal, types the end-of-file character. */
  async closeStdin(options?: RequestOptions): Promise<void> {
    await this.#turn;
    await this.link.request("process/closeStdin", { processId: this.id }, options);
  }

  /** Sets the size of the terminal. */
  async resize(size: Size, options?: RequestOptions): Promise<void> {
    await this.link.request("process/resize", { processId: this.id, size }, options);
  }

  /** Sends a signal to the process group of the program. The answer is the same if the process has ended or is unknown. */
  async signal(signal: Signal, options?: RequestOptions): Promise<void> {
    await this.link.request("process/signal", { processId: this.id, signal }, options);
  }

  /**
   * Asks the program to end, and kills it with all its descendants after graceMs; 0: at once. Returns true if the program
   * was running.
   */
  async terminate(options?: RequestOptions & { graceMs?: number }): Promise<boolean> {
    const result = await this.link.request("process/terminate", { processId: this.id, tree: true, graceMs: options?.graceMs }, options);
    return (result as ProcessTerminateResult).running;
  }

  /** Ends the current run, and begins the next. The process needs a `restart` from its start. */
  async restart(options?: RequestOptions): Promise<void> {
    await this.link.request("process/restart", { processId: this.id }, options);
  }

  /** Replaces the restart policy, from the next end on. */
  async setRestart(restart: Restart, options?: RequestOptions): Promise<void> {
    await this.link.request("process/setRestart", { processId: this.id, restart }, options);
  }

  /** Describes the process: its state, its usage, and why it is quiet. */
  info(options?: RequestOptions): Promise<ProcessInfoResult> {
    return this.link.request("process/info", { processId: this.id }, options);
  }

  /** Returns output held by the server, and acknowledges nothing. Read on with `afterSeq` = `nextSeq` − 1. */
  read(params?: Omit<ProcessReadParams, "processId" | "instance">, options?: RequestOptions): Promise<ProcessReadResult> {
    return this.link.request("process/read", { ...params, processId: this.id, instance: this.instance }, options);
  }

  /**
   * Returns the screen of a process on a terminal: as text, with `restore` as bytes, too. Attach with `after` =
   * `seq` to go on from there. With `waitFor` or `quietMs` the answer waits up to `waitMs`, and `matched` says whether they hold.
   */
  screen(params?: Omit<ProcessScreenParams, "processId" | "instance">, options?: RequestOptions): Promise<ProcessScreenResult> {
    return this.link.request("process/screen", { ...params, processId: this.id, instance: this.instance }, options);
  }

  /** Waits for the end of the last run. Output may still come. */
  async wait(options?: RequestOptions): Promise<Exit> {
    if (!this.link.extended) throw new TroupeError("unsupported", `process ${this.id}: this server cannot wait: attach to the process, and wait for closed`);
    const result = await this.link.request("process/wait", { processId: this.id, instance: this.instance }, options);
    if (!result.status) throw new TroupeError("protocol", `process ${this.id}: the server answered process/wait without a status`);
    return new Exit(result.status);
  }
}

/** Output or a gap, for the reader of a stream. */
type Piece = Extract<ProcessEvent, { type: "output" | "gap" }>;

/** A lane has the events not yet taken by its reader. */
class Lane<E extends { readonly seq: number }> {
  #events: E[] = [];
  #head = 0;
  taken: E | undefined; // given to the reader, who works on it
  reading = false;
  wake: () => void = () => {};

  push(event: E): void {
    this.#events.push(event);
    this.wake();
  }

  shift(): E | undefined {
    const event = this.#events[this.#head];
    if (event === undefined) return undefined;
    this.#events[this.#head++] = undefined as unknown as E;
    if (this.#head > 1_000 && this.#head * 2 > this.#events.length) {
      this.#events = this.#events.slice(this.#head);
      this.#head = 0;
    }
    return event;
  }

  /** Returns the waiting events. */
  waiting(): E[] {
    return this.#events.slice(this.#head);
  }

  clear(): void {
    this.#events = [];
    this.#head = 0;
  }

  /** The first event not done by the reader; undefined: none. */
  first(): E | undefined {
    return this.taken ?? this.#events[this.#head];
  }
}

/** The client of a Process. */
export interface ProcessOwner {
  readonly link: Link;
  /** The process sends nothing more, or nobody wants it. */
  forget(process: Process): void;
  /** Returns true unless a later process has the id. */
  latest(process: Process): boolean;
  /** Has the server send the events after lastSeq. */
  subscribe(process: Process): void;
}

/** @internal How a process is registered. */
export interface ProcessOptions {
  id: string;
  instance?: string | undefined;
  /** All events up to this seq are known. */
  after: number;
  hold: boolean;
  /** The retention of the process. Without a spool, the server sends no more before an acknowledgement. */
  retention: number;
  ignore: boolean;
}

/** A process holds so many bytes at least, before its reader has fallen behind. */
const minRoom = 4 << 20;
/** Bytes of a read of a process that is behind. */
const readBytes = 1 << 20;
/** Notifications of another server wait while a process reads earlier events: at most so many. */
const maxHeld = 256;

/**
 * A process whose output this client takes: each event once and in order, over any number of cuts.
 *
 * Read either `events()`, or `stdout` and `stderr`, or call `output()` or `text()`. The server keeps the output until the
 * reader has taken it: a slow reader slows its program, as with a full pipe. `ignore()` takes and drops the rest.
 */
export class Process extends ProcessHandle {
  /** How the program has ended, when the last event has come. Rejects if the rest of the output is out of reach. */
  readonly closed: Promise<Exit>;

  readonly #owner: ProcessOwner;
  readonly #options: ProcessOptions;
  #settle: { resolve: (exit: Exit) => void; reject: (error: Error) => void };

  #last: number; // the last event received
  #acked: number; // the reader is done with everything up to this seq
  #queued = 0; // bytes of output in the lanes
  #ended = false; // the server has no more to send, or the rest is out of reach
  #failure: Error | undefined;
  #status: ExitStatus | undefined;
  #givenUp: string | undefined;
  #lane: Lane<ProcessEvent> | undefined = new Lane(); // undefined: the streams have lanes of their own
  #lanes: { out: Lane<Piece>; err: Lane<Piece> } | undefined;
  #ignored: boolean;

  /** @internal The server has the process. */
  started = false;
  /** @internal Events count: they are of this process, and continue those before. */
  active = false;
  /** @internal Events came while they did not count. */
  missed = false;
  /** Not undefined: the process is behind. The process reads the missed events, and notifications do not count until then. */
  #held: { method: keyof Notifications; params: EventParams }[] | undefined;
  #overflow = false; // a notification found no place in #held
  #reading = false; // a read is under way

  /** @internal */
  constructor(owner: ProcessOwner, options: ProcessOptions) {
    super(owner.link, options.id, options.instance);
    this.#owner = owner;
    this.#options = options;
    this.#last = this.#acked = options.after;
    this.#ignored = options.ignore;
    this.#settle = { resolve: () => {}, reject: () => {} };
    this.closed = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
    this.closed.catch(() => {}); // nobody need wait
  }

  /** The seq of the last event received. */
  get lastSeq(): number {
    return this.#last;
  }

  /** Up to this seq, the reader has done with all events. */
  get ackedSeq(): number {
    return this.#acked;
  }

  /** Bytes of output not yet taken by the reader. */
  get queuedBytes(): number {
    return this.#queued;
  }

  /** @internal The process needs process/subscribe on each connection, because resumeFrom cannot name an instance or hold. */
  get subscribes(): boolean {
    return this.instance !== undefined || this.#options.hold;
  }

  /** @internal */
  get hold(): boolean {
    return this.#options.hold;
  }

  /** @internal */
  get over(): boolean {
    return this.#ended;
  }

  /**
   * Takes all events in order. An event counts as taken when the loop asks for the next one, or ends. After a loop
   * ended early, another loop goes on.
   */
  async *events(options?: RequestOptions): AsyncGenerator<ProcessEvent, void, undefined> {
    if (!this.#lane) throw new TroupeError("order", `process ${this.id}: stdout and stderr are being read; read either them or events()`);
    yield* this.#take(this.#lane, options?.signal);
  }

  /** The bytes of stdout, or of the terminal. A gap throws a GapError. */
  get stdout(): AsyncIterable<Uint8Array> {
    return { [Symbol.asyncIterator]: () => this.#bytes("out") };
  }

  /** The bytes of stderr. A gap throws a GapError. */
  get stderr(): AsyncIterable<Uint8Array> {
    return { [Symbol.asyncIterator]: () => this.#bytes("err") };
  }

  /** Reads all output, up to maxBytes (64 MiB): more ends the process. Throws an ExitError if the program failed, unless check is false. */
  async output(options?: RequestOptions & { maxBytes?: number; check?: boolean }): Promise<Output> {
    const most = options?.maxBytes ?? 64 << 20;
    const lanes = this.#split();
    if (lanes.out.reading || lanes.err.reading) throw this.#taken();
    let size = 0;
    const collect = async (name: "out" | "err"): Promise<Uint8Array> => {
      const parts: Uint8Array[] = [];
      for await (const part of this.#bytes(name, options?.signal)) {
        if ((size += part.length) > most) throw new TroupeError("tooLong", `process ${this.id}: the output has more than ${most} bytes`);
        parts.push(part);
      }
      return concat(parts);
    };
    try {
      const [stdout, stderr] = await Promise.all([collect("out"), collect("err")]);
      const output = { stdout, stderr, exit: await this.closed };
      if (options?.check !== false && !output.exit.ok) throw new ExitError(this.id, output);
      return output;
    } catch (error) {
      this.ignore();
      if (!this.#ended) this.terminate().catch(() => {}); // nobody will read the rest
      throw error;
    }
  }

  /** Reads all output as `output()` does, and returns stdout as text. */
  async text(options?: RequestOptions & { maxBytes?: number }): Promise<string> {
    return new TextDecoder().decode((await this.output(options)).stdout);
  }

  /** Drops the waiting output, and all later output. */
  ignore(): void {
    this.#ignored = true;
    for (const lane of this.#all()) lane.clear();
    this.#queued = 0;
    this.#acknowledge(0);
    if (this.#held) this.catchUp();
    for (const lane of this.#all()) lane.wake();
  }

  /** Takes no more events. The process goes on, and the server keeps the rest: `Client.attach` goes on there. */
  detach(): void {
    this.#owner.forget(this);
    this.fail(new ConnectionError("closed", `process ${this.id}: this client has detached from it`));
  }

  // Readers

  #all(): Lane<ProcessEvent>[] {
    return this.#lanes ? [this.#lanes.out as Lane<ProcessEvent>, this.#lanes.err as Lane<ProcessEvent>] : [this.#lane as Lane<ProcessEvent>];
  }

  async *#bytes(name: "out" | "err", signal?: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const piece of this.#take(this.#split()[name], signal)) {
      if (piece.type === "gap") throw new GapError(this.id, piece);
      yield piece.data;
    }
  }

  /** Gives the streams lanes of their own. */
  #split(): { out: Lane<Piece>; err: Lane<Piece> } {
    if (this.#lanes) return this.#lanes;
    const lane = this.#lane as Lane<ProcessEvent>;
    if (lane.reading || lane.taken) throw new TroupeError("order", `process ${this.id}: events() is being read; read either it, or stdout and stderr`);
    this.#lanes = { out: new Lane(), err: new Lane() };
    this.#lane = undefined;
    for (const event of lane.waiting()) this.#push(event);
    this.#acknowledge(0);
    return this.#lanes;
  }

  async *#take<E extends ProcessEvent>(lane: Lane<E>, signal: AbortSignal | undefined): AsyncGenerator<E, void, undefined> {
    if (lane.reading) throw this.#taken();
    lane.reading = true;
    const wake = (): void => lane.wake();
    signal?.addEventListener("abort", wake);
    try {
      for (;;) {
        if (signal?.aborted) throw aborted(signal);
        const event = lane.shift();
        if (event === undefined) {
          if (this.#failure) throw this.#failure;
          if (this.#ended) return;
          await new Promise<void>((resolve) => (lane.wake = resolve));
          continue;
        }
        lane.taken = event;
        yield event;
        this.#done(lane);
      }
    } finally {
      this.#done(lane);
      lane.reading = false;
      signal?.removeEventListener("abort", wake);
    }
  }

  #taken(): TroupeError {
    return new TroupeError("order", `process ${this.id}: this output already has a reader`);
  }

  #done<E extends ProcessEvent>(lane: Lane<E>): void {
    const event = lane.taken;
    lane.taken = undefined;
    if (!event) return;
    const size = event.type === "output" ? event.data.length : 0;
    if (!this.#ignored) this.#queued -= size;
    this.#acknowledge(size);
    if (this.#held) this.catchUp();
  }

  #push(event: ProcessEvent): void {
    const lanes = this.#lanes;
    if (!lanes) return (this.#lane as Lane<ProcessEvent>).push(event);
    if (event.type === "gap") {
      lanes.out.push(event);
      lanes.err.push(event);
    } else if (event.type === "output") {
      (event.stream === "stderr" ? lanes.err : lanes.out).push(event);
    }
  }

  /** Acknowledges everything before the first event not done by a reader. */
  #acknowledge(bytes: number): void {
    let seq = this.#last;
    for (const lane of this.#all()) {
      const first = lane.first();
      if (first) seq = Math.min(seq, (first.type === "gap" ? first.fromSeq : first.seq) - 1);
    }
    if (seq > this.#acked) this.#acked = seq;
    else if (bytes === 0) return;
    if (this.#failure || !this.#owner.latest(this)) return;
    this.link.acknowledge(this.id, this.#acked, bytes, this.#ended && this.#acked === this.#last, this.#options.retention);
  }

  /** @internal Acknowledges again, on another connection. */
  acknowledgeAgain(): void {
    if (this.#acked > 0) this.link.acknowledge(this.id, this.#acked, 0, false, Infinity);
  }

  // Events

  /** @internal Takes a notification, and returns true for a new event. */
  notified(method: keyof Notifications, params: EventParams): boolean {
    if (this.#ended) return false;
    if (this.#held) {
      if (!this.link.extended && this.#held.length < maxHeld) this.#held.push({ method, params });
      else this.#overflow = true;
      return true;
    }
    const from = params.fromSeq ?? params.seq;
    if (params.seq <= this.#last) return false;
    if (from > this.#last + 1 && !this.#ignored) {
      if (!this.link.extended) {
        this.#held = [{ method, params }];
        this.catchUp();
        return true;
      }
      this.#owner.forget(this);
      this.fail(new TroupeError("protocol", `process ${this.id}: the server went from seq ${this.#last} to ${from} and reported no gap: output is missing`));
      return true;
    }
    if (method === "process/output" && this.#queued > this.#room) {
      this.#held = []; // #done reads on when there is room
      this.#overflow = true;
      return true;
    }
    this.#last = params.seq;
    this.#apply(method, params);
    return true;
  }

  /** How many bytes may wait for the reader. Without a spool, a server sends less to an owner before an acknowledgement. */
  get #room(): number {
    return Math.max(minRoom, 2 * this.#options.retention);
  }

  #apply(method: keyof Notifications, params: EventParams): void {
    const { seq } = params;
    switch (method) {
      case "process/output": {
        const n = params as Notifications["process/output"];
        this.#output(seq, n.stream, n.chunk, n.atMs);
        return;
      }
      case "process/exited":
        this.#status = params as unknown as Notifications["process/exited"] & ExitStatus;
        this.#event({ type: "exited", seq, exit: new Exit(this.#status) });
        return;
      case "process/restarted": {
        const n = params as Notifications["process/restarted"];
        this.#status = undefined;
        this.#event({ type: "restarted", seq, run: n.run, reason: n.reason, delayMs: n.delayMs, stdinLostBytes: n.stdinLostBytes ?? 0 });
        return;
      }
      case "process/ready":
        this.#event({ type: "ready", seq, run: (params as Notifications["process/ready"]).run });
        return;
      case "process/gap": {
        const n = params as Notifications["process/gap"];
        this.#event({ type: "gap", seq, fromSeq: n.fromSeq, toSeq: n.toSeq, bytes: n.bytes ?? 0, reason: n.reason });
        return;
      }
      case "process/evicted":
        this.#givenUp = (params as Notifications["process/evicted"]).reason;
        this.#event({ type: "evicted", seq, reason: this.#givenUp });
        return;
      case "process/closed":
        this.#close(seq);
    }
  }

  #output(seq: number, stream: Stream, chunk: Uint8Array, atMs: number | undefined): void {
    if (!(chunk instanceof Uint8Array)) chunk = fromBase64(chunk);
    if (this.#ignored) return this.#acknowledge(chunk.length);
    // A small part of a large message would keep the whole message.
    if (chunk.buffer.byteLength > 4 * chunk.length + 1_024) chunk = chunk.slice();
    this.#queued += chunk.length;
    this.#event({ type: "output", seq, stream, data: chunk, atMs });
  }

  #event(event: ProcessEvent): void {
    if (!this.#ignored || (event.type !== "output" && this.#lane?.reading)) this.#push(event);
    this.#acknowledge(0);
  }

  #close(seq: number): void {
    this.#ended = true;
    this.#event({ type: "closed", seq });
    this.#owner.forget(this);
    if (this.#status) this.#settle.resolve(new Exit(this.#status, this.#givenUp));
    else {
      const why = this.#givenUp ?? "the process has ended, and the server no longer had its exit status";
      this.#settle.reject(new TroupeError("unknownProcess", `process ${this.id}: ${why}`));
    }
    for (const lane of this.#all()) lane.wake();
  }

  /** @internal The rest of the output is out of reach. */
  fail(error: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#failure = error;
    this.#settle.reject(error);
    for (const lane of this.#all()) lane.wake();
  }

  /** @internal Takes the state in an answer of the server: the end may be in earlier events. */
  compare(info: ProcessInfo): void {
    if (this.#ended) return;
    this.#status ??= info.status;
    if (info.state === "closed" && info.nextSeq <= this.#last + 1) this.#close(this.#last);
  }

  // A process that is behind: its reader was too slow, or the server replays nothing after a cut

  /** @internal */
  get behind(): boolean {
    return this.#held !== undefined;
  }

  /** @internal Reads the missed events, as soon as there is room. */
  catchUp(): void {
    this.#held ??= [];
    if (this.#reading || this.#ended || this.#queued > this.#room / 2) return;
    this.#reading = true;
    this.link.ask(
      "process/read",
      { processId: this.id, instance: this.instance, afterSeq: this.#last, maxBytes: readBytes, detail: this.link.extended ? "times" : undefined },
      (result) => {
        this.#reading = false;
        if (!this.#ended) this.#merge(result);
      },
      (error) => {
        this.#reading = false;
        if (!(error instanceof RequestError)) return; // the next connection reads again
        this.#owner.forget(this);
        this.fail(error);
      },
    );
  }

  /** Takes an answer to process/read, and decides what follows. */
  #merge(result: ProcessReadResult): void {
    const items = [...result.chunks.map((chunk, i) => ({ seq: chunk.seq, chunk, atMs: result.timesMs?.[i] })), ...(result.events ?? [])].sort((a, b) => a.seq - b.seq);
    const hole = (items[0]?.seq ?? 0) > this.#last + 1;
    if (this.link.extended && (hole || items.length === 0)) {
      // The process has caught up, or the server has dropped output, and says so.
      this.#held = undefined;
      this.#overflow = false;
      return this.#owner.subscribe(this);
    }
    for (const item of items) {
      if (item.seq <= this.#last) continue;
      if (item.seq > this.#last + 1) this.#hole(item.seq - 1, result);
      this.#last = item.seq;
      if ("chunk" in item) this.#output(item.seq, item.chunk.stream, item.chunk.chunk, item.atMs);
      else this.#apply(`process/${item.kind}` as keyof Notifications, { processId: this.id, delayMs: 0, ...item.status, ...item } as EventParams);
      if (this.#ended) return;
    }
    // Until a read has nothing new, a held notification may not continue it.
    if (items.length > 0 || this.#overflow) {
      this.#overflow = false;
      return this.catchUp();
    }
    const held = this.#held ?? [];
    this.#held = undefined;
    if (result.nextSeq - 1 > this.#last) this.#hole(result.nextSeq - 1, result);
    if (result.closed) {
      if (!this.#status && result.exitCode !== null) this.#hole(this.#last, result);
      return this.#close(this.#last);
    }
    for (const { method, params } of held) this.notified(method, params);
  }

  /** Takes events absent from the answer, up to seq: the exit, or output no longer held. */
  #hole(seq: number, result: ProcessReadResult): void {
    if (this.link.extended || !result.exited) {
      this.#event({ type: "gap", seq, fromSeq: this.#last + 1, toSeq: seq, bytes: 0, reason: "the server no longer had this output" });
    } else if (!this.#status && result.exitCode !== null) {
      this.#status = { exitCode: result.exitCode };
      this.#event({ type: "exited", seq, exit: new Exit({ exitCode: result.exitCode, sandboxDenied: result.sandboxDenied }) });
    }
    this.#last = seq;
  }
}

/** The common members of notifications of a process. */
export interface EventParams {
  readonly processId: string;
  readonly seq: number;
  readonly fromSeq?: number;
}

/** How to start a program. Further members are as in `process/start`. */
export interface StartOptions extends Partial<Omit<ProcessStartParams, "processId" | "argv" | "cwd" | "tty" | "pipeStdin" | "envPolicy" | "size">> {
  /** The id of the process, unique in the session; undefined: a new id. */
  id?: string | undefined;
  /** An absolute path, `~`, `~/…` or a file URI on the server; undefined: the directory of the server. */
  cwd?: string | undefined;
  /** true, or the size of the terminal: the program runs on a terminal. */
  tty?: boolean | Size | undefined;
  /** `"pipe"`: write with `write()`. Data: write the data, then close stdin. undefined: no input, but of a terminal. */
  stdin?: "pipe" | string | Uint8Array | AsyncIterable<string | Uint8Array> | undefined;
  /** The inherited variables; undefined: all of the server, without its secrets; null: none. `env` is added. */
  envPolicy?: EnvPolicy | null | undefined;
  /** Take and drop all output. */
  ignoreOutput?: boolean | undefined;
  /** An abort ends the program. */
  signal?: AbortSignal | undefined;
}
