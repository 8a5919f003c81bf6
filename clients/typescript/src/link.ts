// A link keeps a session attached. The link connects, says initialize, sends requests and acknowledgements, and after a cut
// resumes, and repeats every request without an answer. Who owns the link (client.ts) takes the notifications.
import { openSocket } from "#socket";
import { json, randomId, withBytes, type Codec, type Message } from "./codec.js";
import { ConnectionError, RequestError, TroupeError } from "./errors.js";
import type { Socket } from "./socket.js";
import {
  repeats,
  type InitializeParams,
  type InitializeResult,
  type Methods,
  type Notifications,
  type WireError,
} from "./wire.js";

/** How a client is connected. Times are in ms since 1970. */
export type LinkState =
  /** The first connection is being made. */
  | { readonly state: "connecting" }
  /** `silentMs` is how long the server has left a question unanswered; 0: the server answers. */
  | { readonly state: "connected"; readonly since: number; readonly silentMs: number }
  /** The connection is lost since `since`. Attempt number `attempt` begins at `next`. `error` is the last problem. */
  | { readonly state: "lost"; readonly since: number; readonly attempt: number; readonly next: number; readonly error: TroupeError }
  /** The client has ended. */
  | { readonly state: "closed"; readonly error: TroupeError };

export interface LinkOptions {
  url: string;
  codec: Codec;
  token: string | (() => string | Promise<string>) | undefined;
  reconnectForMs: number;
  pingEveryMs: number;
  deadAfterMs: number;
}

/** The owner of a link. Its methods must not throw or block. */
export interface LinkOwner {
  /** Returns the params of the next initialize. hello is the last answer; undefined: this is the first initialize. */
  introduce(hello: InitializeResult | undefined): InitializeParams;
  /** The session is attached, and requests without an answer are on their way. resumed: after a cut. */
  attached(resumed: boolean): void;
  /** A notification has come. Returns true for progress, false for a repetition. */
  notified<N extends keyof Notifications>(method: N, params: Notifications[N]): boolean;
  changed(state: LinkState): void;
  /** The client has ended. */
  ended(error: TroupeError): void;
}

export interface RequestOptions {
  /** Gives the request up. The server may do the request nevertheless. */
  signal?: AbortSignal | undefined;
}

/** How a request depends on a connection. */
export interface CallOptions extends RequestOptions {
  /** Send the request on this connection only, as of Link.connection; undefined: on any. */
  on?: number;
  /** Send the request once, and fail with `lost` after a cut; false: send the request again; undefined: as the method asks. */
  once?: boolean | undefined;
}

interface Call {
  readonly id: number;
  readonly method: string;
  readonly params: object;
  readonly once: boolean;
  readonly on: number | undefined;
  /** The link asks for itself: the answer is no progress, and the next connection asks anew. */
  readonly own: boolean;
  /** On how many connections the request was sent. */
  sends: number;
  /** The request is on the present connection, and has no answer. */
  flying: boolean;
  done(result: unknown, call: Call): void;
  failed(error: TroupeError): void;
}

const firstDelay = 100;
const maxDelay = 2_000;
/** The longest pause once the connection has been lost for longAway. */
const maxDelayAway = 15_000;
const longAway = 60_000;
/** For a connection and its handshake. Two of three attempts get shortTimeout: an attempt begun without a network may hang. */
const attemptTimeout = 10_000;
const shortTimeout = 3_000;
/** How many cuts the first connection takes before the link fails. */
const firstCuts = 3;
const ackEvery = 64 << 10;
const ackAfterMs = 20;
/** Requests on the wire at once, if the server names no limit. */
const defaultFlying = 256;

export const closeEvicted = 4001;

export class Link {
  /** The answer to the last initialize. */
  hello: InitializeResult | undefined;
  /** Counts the connections. */
  connection = 0;

  readonly #options: LinkOptions;
  readonly #owner: LinkOwner;
  #state: LinkState = { state: "connecting" };
  #socket: Socket | undefined; // attached; undefined: lost
  #dropped: (error: TroupeError) => void = () => {}; // ends the present connection or attempt
  #ended: TroupeError | undefined;
  #closing = false;
  #evicted: TroupeError | undefined;
  #wake: () => void = () => {}; // ends the pause before the next attempt

  #nextId = 0;
  #pending = new Map<number, Call>(); // without an answer, in the order sent
  #outbound: Call[] = []; // of #pending, not yet sent on this connection
  #flying = 0;

  #acks = new Map<string, number>(); // not yet sent
  /** The last acknowledgements of closed processes: a cut may lose them. The answer to request `sent`, or to a later request, shows that the server has this acknowledgement. */
  #lastAcks = new Map<string, { seq: number; sent: number }>();
  #ackBytes = 0;
  #ackTimer: ReturnType<typeof setTimeout> | undefined;

  #progress = false; // since the connection was made
  #lostAt = 0; // 0: the next cut begins a new pace
  #delay = 0;
  #attempt = 0;

  #heard = false; // since the last beat
  #missed = 0;
  #beat: ReturnType<typeof setInterval> | undefined;
  #question: Call | undefined;

  constructor(options: LinkOptions, owner: LinkOwner) {
    this.#options = options;
    this.#owner = owner;
  }

  get state(): LinkState {
    return this.#state;
  }

  /** True if the server is troupe, and has its extensions of the wire. */
  get extended(): boolean {
    return this.hello?.server?.name !== undefined;
  }

  /** Makes the first connection. waitForOwnerMs is how long to try while another connection owns the session. */
  async open(waitForOwnerMs: number): Promise<void> {
    const began = Date.now();
    this.#delay = firstDelay;
    for (let cuts = 0; ; ) {
      try {
        return await this.#connect(attemptTimeout);
      } catch (problem) {
        const error = asError(problem);
        const again = problem !== error ? false : error.kind === "lost" ? cuts++ < firstCuts : error.kind === "attached" && Date.now() - began < waitForOwnerMs;
        if (!again || this.#ended) {
          this.end(error);
          throw problem;
        }
        await this.#pause(this.#nextDelay());
      }
    }
  }

  /** Ends the link. Every request without an answer fails. */
  end(error: TroupeError): void {
    if (this.#ended) return;
    this.#ended = error;
    clearInterval(this.#beat);
    clearTimeout(this.#ackTimer);
    this.#socket?.close(1000, "");
    this.#socket = undefined;
    this.#dropped(error);
    this.#wake();
    const calls = [...this.#pending.values()];
    this.#pending.clear();
    this.#outbound = [];
    for (const call of calls) call.failed(error);
    this.#change({ state: "closed", error });
    this.#owner.ended(error);
  }

  /** Tries to connect now, if the link is lost. */
  retry(): void {
    this.#wake();
  }

  /** From now on, the end of the session is the wanted end, and only session/close is sent. */
  closing(): void {
    this.#closing = true;
  }

  // Requests

  request<M extends keyof Methods>(method: M, params: Methods[M]["params"], options?: CallOptions): Promise<Methods[M]["result"]> {
    return new Promise((resolve, reject) => {
      this.call(method, params, options ?? {}, (result) => resolve(result as Methods[M]["result"]), reject);
    });
  }

  /** Sends a request. done gets the result, and on how many connections the request was sent, before the next message is looked at. */
  call(method: string, params: object, options: CallOptions, done: (result: unknown, sends: number) => void, failed: (error: Error) => void): void {
    const signal = options.signal;
    const refused =
      this.#ended ??
      (this.#closing && method !== "session/close" ? closed() : undefined) ??
      (options.on !== undefined && (options.on !== this.connection || !this.#socket) ? lostAnswer(method) : undefined);
    if (refused) return failed(refused);
    if (signal?.aborted) return failed(aborted(signal));
    const giveUp = (): void => {
      this.#forget(call);
      failed(aborted(signal as AbortSignal));
    };
    const call: Call = {
      id: ++this.#nextId,
      method,
      params: named(method, params),
      once: options.once ?? repeats[method] === "connection",
      on: options.on,
      own: false,
      sends: 0,
      flying: false,
      done: (result) => {
        signal?.removeEventListener("abort", giveUp);
        done(result, call.sends);
      },
      failed: (error) => {
        signal?.removeEventListener("abort", giveUp);
        failed(error);
      },
    };
    signal?.addEventListener("abort", giveUp, { once: true });
    this.#pending.set(call.id, call);
    if (!this.#socket) return; // the next connection sends the request
    this.#outbound.push(call);
    this.#pump();
  }

  /** Asks for something on this connection alone, again on no other. */
  ask<M extends keyof Methods>(method: M, params: Methods[M]["params"], done: (result: Methods[M]["result"]) => void, failed: (error: TroupeError) => void): void {
    const call = this.#own(method, params, done as (result: unknown) => void, failed);
    this.#outbound.push(call);
    this.#pump();
  }

  #own(method: string, params: object, done: (result: unknown) => void, failed: (error: TroupeError) => void): Call {
    const call: Call = { id: ++this.#nextId, method, params, once: true, on: undefined, own: true, sends: 0, flying: false, done, failed };
    this.#pending.set(call.id, call);
    return call;
  }

  #forget(call: Call): void {
    this.#pending.delete(call.id);
    this.#outbound = this.#outbound.filter((other) => other !== call);
    if (call.flying) this.#flying--;
    this.#pump();
  }

  /** Sends requests, as many as may be on the wire. */
  #pump(): void {
    const limits = this.hello?.limits;
    const most = Math.max(1, (limits?.maxPendingRequests ?? defaultFlying) * 0.75);
    while (this.#socket && this.#outbound.length > 0 && (this.#flying < most || this.#outbound[0] === this.#question)) {
      const call = this.#outbound.shift() as Call;
      const size = this.#send({ id: call.id, method: call.method, params: call.params }, limits?.maxFrameBytes);
      if (size > 0) {
        this.#pending.delete(call.id);
        call.failed(new TroupeError("tooLarge", `${call.method}: the request has ${size} bytes; this server takes at most ${limits?.maxFrameBytes}`));
        continue;
      }
      call.sends++;
      call.flying = true;
      this.#flying++;
    }
  }

  /** Sends a message. If the size is above most, returns the size in place of 0. */
  #send(message: Message, most = Infinity): number {
    const data = this.#codec().encode(message);
    const size = typeof data === "string" && data.length * 3 > most ? new TextEncoder().encode(data).length : data.length;
    if (size > most) return size;
    this.#socket?.send(data);
    return 0;
  }

  #codec(): Codec {
    const { codec } = this.#options;
    return codec.subprotocol === undefined || this.#socket?.protocol === codec.subprotocol ? codec : json;
  }

  // Acknowledgements

  /** Acknowledges the events of a process up to seq. bytes is the output among them. last: the process sends nothing more. */
  acknowledge(processId: string, seq: number, bytes: number, last: boolean, retention: number): void {
    if (!this.extended) return; // another server ends the connection after an unknown notification
    this.#acks.set(processId, seq);
    if (last) this.#lastAcks.set(processId, { seq, sent: 0 });
    this.#ackBytes += bytes;
    if (this.#ackBytes >= Math.min(ackEvery, retention / 4)) this.#sendAcks();
    else this.#ackTimer ??= setTimeout(() => this.#sendAcks(), ackAfterMs);
  }

  #sendAcks(): void {
    clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    if (!this.#socket || this.#acks.size === 0) return; // the next connection sends them
    for (const [id, last] of this.#lastAcks) {
      if (this.#acks.get(id) === last.seq) last.sent = this.#nextId + 1;
    }
    this.#send({ method: "session/ack", params: { processes: Object.fromEntries(this.#acks) } });
    this.#acks.clear();
    this.#ackBytes = 0;
  }

  // Connections

  async #connect(timeoutMs: number): Promise<void> {
    const { codec, token, url } = this.#options;
    const credential = typeof token === "function" ? await token() : token;
    if (this.#ended) throw this.#ended;
    await new Promise<void>((resolve, reject) => {
      let socket: Socket | undefined;
      let attached = false;
      let over = false;
      // The end of this attempt or connection, whoever notices the end first.
      const drop = (error: TroupeError): void => {
        if (over) return;
        over = true;
        clearTimeout(timer);
        this.#dropped = () => {};
        socket?.close(1000, "");
        if (attached) this.#lost(error);
        else reject(error);
      };
      const timer = setTimeout(() => drop(new ConnectionError("lost", `no answer within ${timeoutMs / 1000} s`)), timeoutMs);
      this.#dropped = drop;
      const introduction = (): Codec => (codec.subprotocol === undefined || socket?.protocol === codec.subprotocol ? codec : json);
      const opened = openSocket(
        url,
        { protocols: codec.subprotocol === undefined ? [] : [codec.subprotocol, "troupe.json"], token: credential },
        {
          opened: () => {
            const params = this.#owner.introduce(this.hello);
            opened.send(introduction().encode({ id: 0, method: "initialize", params }));
          },
          message: (data) => {
            if (over) return;
            this.#heard = true;
            try {
              if (attached) return this.#message(this.#codec().decode(data));
              this.#introduced(introduction().decode(data), this.hello !== undefined);
            } catch (problem) {
              return drop(problem instanceof TroupeError ? problem : new ConnectionError("lost", `message from the server: ${String(problem)}`, { cause: problem }));
            }
            attached = true;
            clearTimeout(timer);
            opened.send(introduction().encode({ method: "initialized", params: {} }));
            this.#attach(opened);
            resolve();
          },
          closed: (code, reason, status) => drop(closeError(code, reason, status)),
        },
      );
      socket = opened;
    });
  }

  /** Takes the answer to initialize, or throws. */
  #introduced(message: Message, resumed: boolean): void {
    if (message.error !== undefined) {
      const error = message.error as WireError;
      if (resumed && error.code === -32600) throw new ConnectionError("unknownSession", `the session is gone: ${error.message}`);
      throw new RequestError("initialize", error);
    }
    if (message.id !== 0 || typeof message.result !== "object" || message.result === null) {
      throw new ConnectionError("protocol", "initialize was answered by another message: this is not a troupe server");
    }
    this.hello = message.result as InitializeResult;
  }

  #attach(socket: Socket): void {
    const resumed = this.connection > 0;
    this.#socket = socket;
    this.connection++;
    this.#flying = 0;
    this.#progress = false;
    for (const [id, call] of this.#pending) {
      if (call.own) this.#pending.delete(id);
      else call.flying = false;
    }
    this.#outbound = [...this.#pending.values()];
    for (const [id, last] of this.#lastAcks) {
      last.sent = 0;
      this.#acks.set(id, last.seq);
    }
    this.#missed = 0;
    this.#heard = false;
    this.#question = undefined;
    const idle = setTimeout(() => {
      if (this.#socket === socket) this.#lostAt = 0; // an idle connection makes no progress
    }, attemptTimeout);
    unref(idle);
    if (this.#options.pingEveryMs > 0) {
      this.#beat = setInterval(() => this.#pulse(), this.#options.pingEveryMs);
      unref(this.#beat);
    }
    this.#change({ state: "connected", since: Date.now(), silentMs: 0 });
    this.#owner.attached(resumed);
    this.#sendAcks();
    this.#pump();
  }

  /** Another process has this id from now on: the server knows the last acknowledgement of the earlier process. */
  reused(processId: string): void {
    this.#lastAcks.delete(processId);
    this.#acks.delete(processId);
  }

  #lost(error: TroupeError): void {
    this.#socket = undefined;
    clearInterval(this.#beat);
    this.#outbound = [];
    for (const [id, call] of this.#pending) {
      if (call.own || call.on !== undefined || (call.once && call.sends > 0)) {
        this.#pending.delete(id);
        call.failed(this.#ended ?? lostAnswer(call.method));
      }
    }
    if (this.#ended) return;
    const final = this.#evicted ?? (this.#closing && error.kind === "evicted" ? closed() : fatal(error));
    if (final) this.end(final);
    else void this.#resume(error);
  }

  async #resume(error: TroupeError): Promise<void> {
    if (this.#progress || this.#lostAt === 0) {
      this.#lostAt = Date.now();
      this.#delay = 0;
      this.#attempt = 0;
    }
    while (!this.#ended) {
      const away = Date.now() - this.#lostAt;
      if (this.#delay > 0 && away > this.#options.reconnectForMs) {
        return this.end(new ConnectionError("lost", `connection lost, and not resumed within ${this.#options.reconnectForMs / 1000} s: ${error.message}`, { cause: error }));
      }
      const pause = this.#nextDelay();
      this.#change({ state: "lost", since: this.#lostAt, attempt: ++this.#attempt, next: Date.now() + pause, error });
      await this.#pause(pause);
      try {
        return await this.#connect(this.#attempt % 3 === 0 ? attemptTimeout : shortTimeout);
      } catch (problem) {
        error = asError(problem);
        const final = fatal(error);
        if (final) return this.end(final);
      }
    }
  }

  /** Returns the next pause: up to twice the last pause, at random between half and all of this value. */
  #nextDelay(): number {
    const delay = this.#delay;
    const most = this.#lostAt > 0 && Date.now() - this.#lostAt > longAway ? maxDelayAway : maxDelay;
    this.#delay = Math.min(Math.max(firstDelay, 2 * delay), most);
    return delay / 2 + (Math.random() * delay) / 2;
  }

  async #pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = () => {};
  }

  // Messages

  #message(message: Message): void {
    if (message.method !== undefined && message.id === undefined) {
      const method = message.method as keyof Notifications;
      const params = withBytes(method, message.params ?? {}) as Notifications[typeof method];
      if (method === "session/evicted") {
        const { reason } = params as Notifications["session/evicted"];
        this.#evicted = this.#closing ? closed() : new ConnectionError("evicted", `evicted from the session: ${reason}`);
      }
      if (this.#owner.notified(method, params)) this.#progress = true;
      return;
    }
    const call = this.#pending.get(message.id as number);
    if (!call?.flying) return; // given up; or a request of the server: no troupe server sends requests
    this.#pending.delete(call.id);
    this.#flying--;
    if (!call.own) this.#progress = true;
    for (const [id, last] of this.#lastAcks) {
      if (last.sent > 0 && last.sent <= call.id) this.#lastAcks.delete(id);
    }
    if (message.error !== undefined) call.failed(new RequestError(call.method, message.error as WireError));
    else call.done(withBytes(call.method, message.result), call);
    this.#pump();
  }

  /** Asks for a sign of life, and cuts the connection if none has come for too long. A pulse counts beats: a sleep of this machine is a single beat. */
  #pulse(): void {
    const { pingEveryMs, deadAfterMs } = this.#options;
    const silent = this.#state.state === "connected" ? this.#state.silentMs : 0;
    if (this.#heard) {
      this.#missed = 0;
      if (silent > 0) this.#silent(0);
    } else if (++this.#missed > 1) {
      const ms = (this.#missed - 1) * pingEveryMs;
      if (deadAfterMs > 0 && ms >= deadAfterMs) return this.#dropped(new ConnectionError("lost", `nothing came from the server for ${ms / 1000} s, although the client asked`));
      this.#silent(ms);
    }
    this.#heard = false;
    if (this.#question && this.#pending.has(this.#question.id)) return;
    this.#question = this.#own("environment/status", {}, () => {}, () => {});
    this.#outbound.unshift(this.#question); // the answer to an earlier request may take long
    this.#pump();
  }

  #silent(silentMs: number): void {
    if (this.#state.state === "connected") this.#change({ ...this.#state, silentMs });
  }

  #change(state: LinkState): void {
    this.#state = state;
    this.#owner.changed(state);
  }
}

/** Adds an id to params. By the id the server recognizes the request when it comes again. */
function named(method: string, params: object): object {
  switch (repeats[method]) {
    case "requestId":
      return { requestId: randomId(), ...params };
    case "startToken":
      return { startToken: randomId(), ...params };
    case "writeId":
      return { writeId: randomId(), ...params };
  }
  return params;
}

function closeError(code: number, reason: string, status: number | undefined): TroupeError {
  const options = { closeCode: code === 1006 ? undefined : code };
  const text = reason || (code === 1006 || code === 1005 ? "" : `Close ${code}`);
  if (status === 401) return new ConnectionError("unauthorized", `the credential is missing or wrong: ${text}`, options);
  if (code === closeEvicted) return new ConnectionError("evicted", `the session is gone: ${text}`, options);
  if (code === 1002) {
    return new ConnectionError("protocol", `the server refuses the protocol of this client; use matching versions of client and server: ${text}`, options);
  }
  return new ConnectionError("lost", `the connection was cut${text && ": " + text}`, options);
}

/** Returns the error with which the client ends, if another attempt is pointless. */
function fatal(error: TroupeError): TroupeError | undefined {
  if (error instanceof RequestError) return error.kind === "attached" || error.code === -32603 ? undefined : error;
  return error.kind === "lost" ? undefined : error;
}

function asError(problem: unknown): TroupeError {
  return problem instanceof TroupeError ? problem : new ConnectionError("lost", String(problem instanceof Error ? problem.message : problem), { cause: problem });
}

function lostAnswer(method: string): TroupeError {
  return new ConnectionError("lost", `${method}: the connection was lost before the answer; perhaps the request was done`);
}

export function closed(): TroupeError {
  return new ConnectionError("closed", "the client is closed");
}

/** Returns the reason of an abort. */
export function aborted(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new DOMException("This operation was aborted", "AbortError");
}

/** Lets a program of Node end although the timer runs. */
function unref(timer: unknown): void {
  (timer as { unref?: () => void }).unref?.();
}
