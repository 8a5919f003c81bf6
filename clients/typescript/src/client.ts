import { bytesOf, json, randomId, type Codec } from "./codec.js";
import { RequestError, TroupeError } from "./errors.js";
import { Files, fileUri } from "./files.js";
import { aborted, closed, Link, type CallOptions, type LinkState, type RequestOptions } from "./link.js";
import { Process, ProcessHandle, type EventParams, type Output, type ProcessOwner, type StartOptions } from "./process.js";
import type {
  Detail,
  EnvironmentInfo,
  GroupInfo,
  GroupStartParams,
  InitializeParams,
  InitializeResult,
  Limits,
  Methods,
  Notifications,
  Placement,
  ProcessInfo,
  ProcessListParams,
  ProcessStartParams,
  Role,
  ServerEventsParams,
  ServerEventsResult,
  ServerInfo,
  ServerInfoResult,
  SessionDetailsResult,
  SessionInfoResult,
  SessionOptions,
  SessionShareParams,
  SessionShareResult,
  SessionUpdateParams,
  ShareInfo,
} from "./wire.js";

/** How to connect. All members may be left out. */
export interface ConnectOptions {
  /** The name of this client in the server's log; undefined: `troupe-ts`. */
  name?: string | undefined;
  /** A bearer token, or a function that returns a token before each connection. Only in Node: a browser sends its cookies. */
  token?: string | (() => string | Promise<string>) | undefined;
  /** The session to resume; undefined: a new session. */
  resumeSessionId?: string | undefined;
  /** `observer` watches, `controller` does what the owner may beside the owner; both need `resumeSessionId`. undefined: the owner, or what a share allows. */
  role?: Role | undefined;
  /** Take the session from the connection that has it. After a cut, a client always takes its own session back. */
  takeover?: boolean | undefined;
  /** How long to try while another connection owns the session; undefined: not at all. */
  waitForOwnerMs?: number | undefined;
  /** Sets up a new session. */
  session?: SessionOptions | undefined;
  /** In a cluster, which server gets a new session. */
  placement?: Placement | undefined;
  /** Further notifications: `groups` for `group/changed`, `changes` for `session/changed`. */
  capabilities?: { groups?: boolean | undefined; changes?: boolean | undefined } | undefined;
  /** Ask for `atMs` of output events. */
  times?: boolean | undefined;
  /** The encoding; undefined: JSON. `@troupe/client/msgpack` has msgpack. */
  codec?: Codec | undefined;
  /** How long to try to resume after a cut; undefined: 45 s. Infinity: as long as the server has the session. */
  reconnectForMs?: number | undefined;
  /** How often to ask the server for a sign of life; undefined: 15 s; 0: never. */
  pingEveryMs?: number | undefined;
  /** How long the server may be silent before the client connects anew; undefined: 30 s. */
  deadAfterMs?: number | undefined;
  /** An abort closes the client, also before it is connected. */
  signal?: AbortSignal | undefined;
}

/** The events of a client, beside the events of processes. */
export type ClientEvents = { link: LinkState } & Omit<
  Notifications,
  "process/output" | "process/exited" | "process/closed" | "process/gap" | "process/restarted" | "process/ready" | "process/evicted"
>;

/** The arguments after the method: params may be left out if all their members may. */
export type RequestArguments<M extends keyof Methods> = {} extends Methods[M]["params"]
  ? [params?: Methods[M]["params"], options?: CallOptions]
  : [params: Methods[M]["params"], options?: CallOptions];

/** How to attach to a process. */
export interface AttachOptions extends RequestOptions {
  /** Take the events after this seq; undefined: all events held by the server. */
  after?: number | undefined;
  /** Another process with the same id is refused. */
  instance?: string | undefined;
  /** The server drops no output before this client has taken it: the program waits. */
  hold?: boolean | undefined;
}

/** Programs that begin, fail and end together. */
export interface Group {
  readonly id: string;
  readonly processes: readonly Process[];
  /** Ends the programs, the last started first. */
  stop(options?: RequestOptions): Promise<void>;
}

/** A group to start. Each process is as for `Client.start`, with its `argv` and an `id` for `dependsOn`. */
export interface GroupOptions extends Omit<GroupStartParams, "groupId" | "processes"> {
  id?: string | undefined;
  processes: readonly (StartOptions & { argv: readonly string[] })[];
  signal?: AbortSignal | undefined;
}

/** A session on a server. After a cut the client resumes by itself. */
export class Client {
  /** Files of the server. */
  readonly files: Files;

  readonly #link: Link;
  readonly #options: ConnectOptions;
  readonly #processes = new Map<string, Process>(); // whose events are wanted
  readonly #listeners = new Map<string, Set<(value: never) => void>>();
  readonly #owner: ProcessOwner;
  #watch = 0; // how often the server tells changes of sessions, in ms; 0: not at all
  #abort = (): void => {};
  readonly #onOnline = (): void => this.#link.retry();

  private constructor(url: string, options: ConnectOptions) {
    this.#options = options;
    this.#link = new Link(
      {
        url,
        codec: options.codec ?? json,
        token: options.token,
        reconnectForMs: options.reconnectForMs ?? 45_000,
        pingEveryMs: options.pingEveryMs ?? 15_000,
        deadAfterMs: options.deadAfterMs ?? 30_000,
      },
      {
        introduce: (hello) => this.#introduce(hello),
        attached: () => this.#attached(),
        notified: (method, params) => this.#notified(method, params),
        changed: (state) => this.#emit("link", state),
        ended: (error) => this.#ended(error),
      },
    );
    this.#owner = {
      link: this.#link,
      forget: (process) => {
        if (this.#processes.get(process.id) === process) this.#processes.delete(process.id);
      },
      latest: (process) => (this.#processes.get(process.id) ?? process) === process,
      subscribe: (process) => this.#subscribe(process, {}),
    };
    this.files = new Files(this.#link);
  }

  /** Connects to a server: `ws://…`, `wss://…`, and in Node also `unix:///PATH`. */
  static async connect(url: string, options: ConnectOptions = {}): Promise<Client> {
    const { signal } = options;
    if (signal?.aborted) throw aborted(signal);
    const client = new Client(url, options);
    client.#abort = () => client.close();
    signal?.addEventListener("abort", client.#abort);
    globalThis.addEventListener?.("online", client.#onOnline);
    try {
      await client.#link.open(options.waitForOwnerMs ?? 0);
    } catch (error) {
      throw signal?.aborted ? aborted(signal) : error;
    }
    return client;
  }

  /** The id of the session, for `resumeSessionId`. */
  get sessionId(): string {
    return this.#hello().sessionId;
  }

  /** The server; undefined: another server than troupe. */
  get server(): ServerInfo | undefined {
    return this.#hello().server;
  }

  get limits(): Limits | undefined {
    return this.#hello().limits;
  }

  /** How the client is connected. `on("link", …)` tells changes. */
  get link(): LinkState {
    return this.#link.state;
  }

  #hello(): InitializeResult {
    return this.#link.hello as InitializeResult; // connect returns a client with an answer
  }

  /** Calls listener for each event, and returns a function to end this. */
  on<E extends keyof ClientEvents>(event: E, listener: (value: ClientEvents[E]) => void): () => void {
    const all = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, all);
    all.add(listener as (value: never) => void);
    return () => all.delete(listener as (value: never) => void);
  }

  #emit<E extends keyof ClientEvents>(event: E, value: ClientEvents[E]): void {
    for (const listener of [...(this.#listeners.get(event) ?? [])]) {
      try {
        (listener as (value: ClientEvents[E]) => void)(value);
      } catch (error) {
        queueMicrotask(() => {
          throw error; // as for listeners of the platform: the error is the page's, not the connection's
        });
      }
    }
  }

  /**
   * Sends a request with any method of the wire. After a cut the client sends the request again, and the server does it
   * once. If the server could not recognize the request, the request fails with `lost`, unless `once` is false.
   */
  request<M extends keyof Methods>(method: M, ...[params, options]: RequestArguments<M>): Promise<Methods[M]["result"]> {
    return this.#link.request(method, params ?? ({} as Methods[M]["params"]), options);
  }

  /** Tries to connect now, if the connection is lost. */
  reconnect(): void {
    this.#link.retry();
  }

  /** Leaves the session. The session lives on until its TTL. */
  close(): void {
    this.#link.end(closed());
  }

  /** Ends the session with all its programs. */
  async closeSession(options?: RequestOptions): Promise<void> {
    for (const process of this.#processes.values()) process.fail(closed());
    this.#processes.clear();
    this.#link.closing();
    try {
      await this.#link.request("session/close", {}, options);
    } catch (error) {
      if (!(error instanceof TroupeError && (error.kind === "unknownSession" || error.kind === "closed"))) throw error;
    } finally {
      this.close();
    }
  }

  // Programs

  /** Starts a program, by default with the environment of the server. */
  async start(argv: readonly string[], options: StartOptions = {}): Promise<Process> {
    const { signal } = options;
    if (signal?.aborted) throw aborted(signal);
    const process = this.#register(options);
    await this.#launch([process], signal, "process/start", this.#startParams(process.id, argv, options));
    this.#started(process, options);
    return process;
  }

  /** Starts a command of `/bin/sh`. */
  shell(command: string, options?: StartOptions): Promise<Process> {
    return this.start(["/bin/sh", "-c", command], options);
  }

  /** Runs a program to its end, and returns its output. Throws an ExitError if the program failed. */
  async exec(argv: readonly string[], options: StartOptions & { maxBytes?: number; check?: boolean } = {}): Promise<Output> {
    const { maxBytes, check, ...rest } = options;
    const process = await this.start(argv, rest);
    return process.output({ signal: options.signal, ...(maxBytes === undefined ? {} : { maxBytes }), ...(check === undefined ? {} : { check }) });
  }

  /** Takes the output of a process of the session. */
  async attach(processId: string, options: AttachOptions = {}): Promise<Process> {
    const process = this.#register({
      id: processId,
      after: options.after ?? 0,
      instance: options.instance,
      hold: options.hold ?? false,
    });
    if (!this.#link.extended) {
      process.active = true;
      process.catchUp();
      return process;
    }
    try {
      await new Promise<void>((resolve, reject) => this.#subscribe(process, options, resolve, reject));
    } catch (error) {
      this.#owner.forget(process);
      process.fail(error as Error);
      throw error;
    }
    return process;
  }

  /** Returns the process with an id, without its output. Sends nothing. */
  process(processId: string, options?: { instance?: string }): ProcessHandle {
    return new ProcessHandle(this.#link, processId, options?.instance);
  }

  /** Lists the processes of the session. */
  async processes(params: ProcessListParams = {}, options?: RequestOptions): Promise<ProcessInfo[]> {
    return (await this.#link.request("process/list", params, options)).processes;
  }

  /** Starts programs as a group: all of them, or none. */
  async startGroup(options: GroupOptions): Promise<Group> {
    const { id = randomId(), processes, signal, ...rest } = options;
    const all: Process[] = [];
    try {
      for (const one of processes) all.push(this.#register(one));
    } catch (error) {
      for (const process of all) this.#owner.forget(process);
      throw error;
    }
    const params = processes.map((one, i) => this.#startParams((all[i] as Process).id, one.argv, one));
    await this.#launch(all, signal, "group/start", { ...rest, groupId: id, processes: params });
    processes.forEach((one, i) => this.#started(all[i] as Process, one));
    return { id, processes: all, stop: (stopOptions) => this.stopGroup(id, stopOptions) };
  }

  /** Ends the programs of a group, the last started first. */
  async stopGroup(groupId: string, options?: RequestOptions): Promise<void> {
    await this.#link.request("group/stop", { groupId }, options);
  }

  async groups(options?: RequestOptions): Promise<GroupInfo[]> {
    return (await this.#link.request("group/list", {}, options)).groups;
  }

  // Sessions and servers

  sessionInfo(options?: RequestOptions): Promise<SessionInfoResult> {
    return this.#link.request("session/info", {}, options);
  }

  /** Lists the sessions that this client may own or observe; with `processes` or `info` also their processes. */
  async sessions(detail?: Detail, options?: RequestOptions): Promise<SessionDetailsResult["sessions"]> {
    return ((await this.#link.request("session/list", { detail }, options)) as SessionDetailsResult).sessions;
  }

  async updateSession(params: SessionUpdateParams, options?: RequestOptions): Promise<void> {
    await this.#link.request("session/update", params, options);
  }

  /** Makes a token for a guest of the session. */
  share(params: SessionShareParams, options?: RequestOptions): Promise<SessionShareResult> {
    return this.#link.request("session/share", params, options);
  }

  async shares(options?: RequestOptions): Promise<ShareInfo[]> {
    return (await this.#link.request("session/shares", {}, options)).shares;
  }

  async unshare(shareId: string, options?: RequestOptions): Promise<void> {
    await this.#link.request("session/unshare", { shareId }, options);
  }

  serverInfo(options?: RequestOptions): Promise<ServerInfoResult> {
    return this.#link.request("server/info", {}, options) as Promise<ServerInfoResult>;
  }

  serverEvents(params: ServerEventsParams, options?: RequestOptions): Promise<ServerEventsResult> {
    return this.#link.request("server/events", params, options);
  }

  /**
   * Watches all sessions that this client may observe: `on("server/changed", …)` tells the state, and then what changes, at
   * most each everyMs. A piece with `anew`, as after a cut, begins the state anew. 0 ends the watch.
   */
  async watch(everyMs: number, options?: RequestOptions): Promise<void> {
    const before = this.#watch;
    this.#watch = everyMs;
    try {
      await this.#link.request("server/watch", { everyMs }, { ...options, once: false });
    } catch (error) {
      this.#watch = before;
      throw error;
    }
  }

  /** The machine of the server. */
  environment(options?: RequestOptions): Promise<EnvironmentInfo> {
    return this.#link.request("environment/info", {}, options);
  }

  // The session over cuts

  /** Returns the params of initialize: the session, and the last seq of each process. */
  #introduce(hello: InitializeResult | undefined): InitializeParams {
    const o = this.#options;
    const params: InitializeParams = {
      clientName: o.name ?? "troupe-ts",
      role: o.role,
      capabilities: { ...o.capabilities, gap: true, restarted: true, ready: true, ack: true, onlyNamed: true, times: o.times },
    };
    const session = hello?.sessionId ?? o.resumeSessionId;
    if (session === undefined) return { ...params, session: o.session, placement: o.placement };
    params.resumeSessionId = session;
    params.takeover = hello ? !this.#beside() : o.takeover;
    if (hello && !hello.server?.name) return params; // such a server replays nothing: #attached reads the missed events
    const resumeFrom: { [id: string]: number } = {};
    for (const process of this.#processes.values()) {
      if (!process.active && (process.started || process.lastSeq > 0)) continue; // a process/subscribe names it
      if (process.subscribes) {
        process.active = false;
        continue;
      }
      resumeFrom[process.id] = process.lastSeq;
      process.missed = false;
    }
    params.resumeFrom = resumeFrom;
    return params;
  }

  /** The client is beside the owner: the server keeps no output for the client. */
  #beside(): boolean {
    return this.#options.role !== undefined && this.#options.role !== "owner";
  }

  #attached(): void {
    this.files.reconnected();
    if (this.#watch > 0) this.#link.ask("server/watch", { everyMs: this.#watch }, () => {}, () => {});
    const held: Process[] = [];
    for (const process of this.#processes.values()) {
      if (!process.started) continue;
      process.acknowledgeAgain();
      if (!this.#link.extended) {
        process.active = true;
        if (this.#link.connection > 1) process.catchUp();
      } else if (process.behind) process.catchUp();
      else if (!process.active) this.#subscribe(process, {});
      else held.push(process);
    }
    if (held.length === 0 || this.#link.connection === 1) return;
    // The server replays nothing of a process forgotten during the cut.
    this.#link.ask(
      "process/list",
      {},
      ({ processes }) => {
        const infos = new Map(processes.map((info) => [info.processId, info]));
        for (const process of held) {
          const info = infos.get(process.id);
          if (info) process.compare(info);
          else this.#gone(process, new TroupeError("unknownProcess", `process ${process.id}: while the connection was lost, the process ended and was forgotten`));
        }
      },
      () => {},
    );
  }

  #notified<N extends keyof Notifications>(method: N, params: Notifications[N]): boolean {
    if (!method.startsWith("process/") || !("seq" in params) || !("processId" in params)) {
      if (method === "fs/missingChanged") this.files.told((params as Notifications["fs/missingChanged"]).watchId);
      this.#emit(method as keyof ClientEvents, params as ClientEvents[keyof ClientEvents]);
      return false;
    }
    const event = params as EventParams;
    const process = this.#processes.get(event.processId);
    if (!process) return false;
    if (!process.active) {
      process.missed = true;
      return false;
    }
    return process.notified(method, event);
  }

  #ended(error: TroupeError): void {
    globalThis.removeEventListener?.("online", this.#onOnline);
    this.#options.signal?.removeEventListener("abort", this.#abort);
    this.files.reconnected(error);
    for (const process of this.#processes.values()) process.fail(error);
    this.#processes.clear();
  }

  #gone(process: Process, error: Error): void {
    this.#owner.forget(process);
    process.fail(error);
  }

  #register(o: StartOptions & { after?: number; instance?: string | undefined; hold?: boolean }): Process {
    const id = o.id ?? randomId();
    if (this.#processes.has(id)) throw new TroupeError("exists", `the process id ${JSON.stringify(id)} is in use: choose another, or none`);
    const process = new Process(this.#owner, {
      id,
      instance: o.instance,
      after: o.after ?? 0,
      hold: o.hold ?? false,
      retention: o.retention?.bytes ?? this.limits?.retentionBytes ?? 1 << 20,
      ignore: o.ignoreOutput ?? false,
    });
    this.#link.reused(id);
    this.#processes.set(id, process);
    // Until its start is answered, the id may belong to another process. Other servers send events before the answer.
    process.active = !this.#link.extended && o.after === undefined;
    return process;
  }

  #startParams(processId: string, argv: readonly string[], o: StartOptions): ProcessStartParams {
    const { id: _, stdin, tty, cwd, env, envPolicy, ignoreOutput: _i, signal: _s, ...rest } = o;
    return {
      ...rest,
      processId,
      argv: [...argv],
      cwd: cwd === undefined ? (this.#hello().environmentInfo?.cwd ?? "file:///") : /^(~|file:)/.test(cwd) ? cwd : fileUri(cwd),
      env: env ?? {},
      envPolicy: envPolicy === undefined ? inheritAll : (envPolicy ?? undefined),
      tty: tty !== undefined && tty !== false,
      size: typeof tty === "object" ? tty : undefined,
      pipeStdin: stdin !== undefined && !tty,
    };
  }

  /** Sends the start of processes, and resolves when the server has started them. */
  #launch(all: Process[], signal: AbortSignal | undefined, method: "process/start" | "group/start", params: object): Promise<void> {
    return new Promise((resolve, reject) => {
      let left = false;
      const leave = (): void => {
        left = true;
        reject(aborted(signal as AbortSignal));
      };
      signal?.addEventListener("abort", leave, { once: true });
      this.#link.call(
        method,
        params,
        {},
        (_, sends) => {
          signal?.removeEventListener("abort", leave);
          for (const process of all) {
            process.started = true;
            // An earlier connection has started the process, and the events before this answer were of this process.
            if (process.missed && sends > 1) this.#subscribe(process, {});
            else process.active = true;
            if (!left) continue;
            process.ignore(); // nobody waits for this start any more
            process.terminate().catch(() => {});
          }
          resolve();
        },
        (error) => {
          signal?.removeEventListener("abort", leave);
          for (const process of all) this.#gone(process, error);
          reject(error);
        },
      );
    });
  }

  #started(process: Process, { signal, stdin }: StartOptions): void {
    if (signal) {
      const stop = (): void => void process.terminate().catch(() => {});
      signal.addEventListener("abort", stop, { once: true });
      process.closed.catch(() => {}).finally(() => signal.removeEventListener("abort", stop));
    }
    // A program may end without reading its input.
    if (stdin !== undefined && stdin !== "pipe") feed(process, stdin).catch(() => {});
  }

  /** Asks for the events of a process after the last event. Events before the answer do not count. */
  #subscribe(process: Process, options: RequestOptions, resolve?: () => void, reject?: (error: Error) => void): void {
    process.active = false;
    const params = { processId: process.id, afterSeq: process.lastSeq, hold: process.hold || undefined, instance: process.instance };
    const done = (info: unknown): void => {
      process.started = true;
      process.active = true;
      process.compare(info as ProcessInfo);
      resolve?.();
    };
    const failed = (error: Error): void => {
      if (!process.started || error instanceof RequestError) this.#gone(process, error);
      reject?.(error);
    };
    // The first subscription is repeated; later subscriptions are made anew on each connection.
    if (resolve) this.#link.call("process/subscribe", params, options, done, failed);
    else this.#link.ask("process/subscribe", params, done, failed);
  }
}

const inheritAll = { inherit: "all", ignoreDefaultExcludes: false, exclude: [], set: {}, includeOnly: [] };

async function feed(process: Process, input: string | Uint8Array | AsyncIterable<string | Uint8Array>): Promise<void> {
  if (typeof input === "string" || input instanceof Uint8Array) await process.write(bytesOf(input));
  else for await (const part of input) await process.write(part);
  await process.closeStdin();
}
