import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Client, ExitError, GapError, RequestError, type ProcessEvent, type ServerChangedNotification } from "@troupe/client";
import { msgpack } from "@troupe/client/msgpack";
import { content, stream } from "./oracle.js";
import { limit, patience, Proxy, serve, troupe, until } from "./server.js";

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

test("events come in order, and end", limit, async (t) => {
  const { url } = await serve(t, "--no-holder");
  for (const codec of [undefined, msgpack]) {
    const client = await Client.connect(url, { codec, times: true });
    const p = await client.start(["sh", "-c", "echo out; sleep 0.05; echo err >&2; exit 3"], {
      restart: { policy: "transient", intensity: { restarts: 1, periodMs: 60_000 }, backoff: { initialMs: 1 } },
      ready: { line: "out" },
    });
    const events: ProcessEvent[] = [];
    for await (const event of p.events()) events.push(event);
    assert.deepEqual(
      events.map((e) => (e.type === "output" ? `${e.stream} ${text(e.data).trim()}` : e.type === "exited" ? `${e.exit}` : e.type)).filter((e) => e !== "ready"),
      ["stdout out", "stderr err", "exit code 3", "restarted", "stdout out", "stderr err", "exit code 3", "evicted", "closed"],
    );
    assert.deepEqual(
      events.map((e) => e.seq),
      events.map((_, i) => i + 1),
    );
    const first = events.find((e) => e.type === "output");
    assert.ok(first?.type === "output" && Math.abs((first.atMs ?? 0) - Date.now()) < patience);
    const exit = await p.closed;
    assert.equal(exit.ok, false);
    assert.match(`${exit}`, /^exit code 3: /);
    await client.closeSession();
  }
});

test("streams, output and text", limit, async (t) => {
  const { url } = await serve(t, "--no-holder");
  const client = await Client.connect(url);
  const p = await client.shell("echo a; echo b >&2; cat", { stdin: new Blob(["c\n", "d\n"]).stream() });
  const got: { [name: string]: string } = {};
  const take = async (name: string, of: AsyncIterable<Uint8Array>): Promise<void> => {
    for await (const chunk of of) got[name] = (got[name] ?? "") + text(chunk);
  };
  await Promise.all([take("out", p.stdout), take("err", p.stderr)]);
  assert.deepEqual(got, { out: "a\nc\nd\n", err: "b\n" });
  assert.ok((await p.closed).ok);
  await assert.rejects(p.events().next(), { kind: "order" });
  assert.equal(await (await client.start(["seq", "3"])).text(), "1\n2\n3\n");
  assert.equal(await (await client.start(["env"], { env: { A: "b" }, envPolicy: null })).text(), "A=b\n");
  assert.equal(await (await client.start(["pwd"], { cwd: "/usr/bin" })).text(), "/usr/bin\n");
  const terminal = await client.start(["sh", "-c", "stty size; read x; stty size"], { tty: { rows: 11, cols: 22 } });
  const chunks = terminal.stdout[Symbol.asyncIterator]();
  assert.equal(text((await chunks.next()).value ?? new Uint8Array()), "11 22\r\n");
  await terminal.resize({ rows: 33, cols: 44 });
  await terminal.write("x\n");
  await assert.rejects(terminal.text(), { kind: "order" });
  let seen = "";
  for (let next; !(next = await chunks.next()).done; ) seen += text(next.value);
  assert.match(seen, /33 44\r\n$/);
  assert.ok((await terminal.closed).ok);
  await client.closeSession();
});

test("a loop that ended early is continued by another", limit, async (t) => {
  const { url } = await serve(t, "--no-holder");
  const client = await Client.connect(url);
  const p = await client.start(["sh", "-c", "while read x; do echo $x; done"], { stdin: "pipe" });
  await p.write("1\n");
  for await (const e of p.events()) {
    assert.ok(e.type === "output" && text(e.data) === "1\n");
    break;
  }
  assert.equal(p.ackedSeq, 1);
  await p.write("2\n");
  await p.closeStdin();
  const rest: string[] = [];
  for await (const e of p.events()) rest.push(e.type === "output" ? text(e.data) : e.type);
  assert.deepEqual(rest, ["2\n", "exited", "closed"]);
  await client.closeSession();
});

test("a slow reader slows its program, and the client holds at most the retention", limit, async (t) => {
  const { url } = await serve(t, "--no-holder");
  const size = 4_000_000;
  const want = stream(5n, 1, "stdout", size);
  for (const codec of [undefined, msgpack]) {
    const client = await Client.connect(url, { codec });
    const p = await client.start([troupe, "load-program", "flood", "key=5", "size=4096", `bytes=${size}`]);
    const parts: Uint8Array[] = [];
    let most = 0;
    let waits = 0;
    for await (const part of p.stdout) {
      most = Math.max(most, p.queuedBytes);
      parts.push(part);
      if (parts.length % 15 === 1 && waits < 2) {
        waits++;
        await until("the program waits for its reader", async () => (await p.info()).waitsFor?.some((w) => w.for === "owner"));
      }
    }
    assert.equal(waits, 2);
    assert.ok(most <= (1 << 20) + (256 << 10), `${most} bytes were held`);
    const got = content(Buffer.concat(parts));
    assert.ok(Buffer.compare(got, want) === 0);
    await client.closeSession();
  }
});

test("what was not taken is kept for the next client", limit, async (t) => {
  const { url } = await serve(t, "--no-holder");
  const first = await Client.connect(url);
  const p = await first.start(["seq", "100000"], { id: "p" });
  const parts: Uint8Array[] = [];
  let done = 0;
  for await (const e of p.events()) {
    if (e.type !== "output") break;
    parts.push(e.data);
    done = e.seq;
    if (done === 2) break; // and the client crashes
  }
  first.close();
  const second = await Client.connect(url, { resumeSessionId: first.sessionId, waitForOwnerMs: patience });
  const again = await second.attach("p", { after: done });
  parts.push((await again.output()).stdout);
  assert.equal(text(Buffer.concat(parts)), Array.from({ length: 100_000 }, (_, i) => `${i + 1}\n`).join(""));
  const observer = await Client.connect(url, { resumeSessionId: first.sessionId, role: "observer" });
  await assert.rejects(observer.start(["true"]), { kind: "role" });
  const watched = await observer.attach("p", { after: (await observer.process("p").info()).nextSeq - 2 });
  assert.equal((await watched.events().next()).value?.type, "closed");
  observer.close();
  await second.closeSession();
});

test("ignored output does not stop the program", limit, async (t) => {
  const { url } = await serve(t, "--no-holder");
  const client = await Client.connect(url);
  const p = await client.start(["head", "-c", "5000000", "/dev/zero"], { ignoreOutput: true });
  const q = await client.start(["head", "-c", "5000000", "/dev/zero"]);
  for await (const _ of q.stdout) break;
  q.ignore();
  assert.ok((await p.closed).ok && (await q.closed).ok);
  assert.equal(p.queuedBytes + q.queuedBytes, 0);
  await client.closeSession();
});

test("lost output is a gap", limit, async (t) => {
  const { url } = await serve(t, "--no-holder");
  const client = await Client.connect(url);
  const start = async () => {
    const p = await client.start(["sh", "-c", "head -c 3000000 /dev/zero; echo end"], { retention: { bytes: 4096, onFull: "evict" } });
    p.detach();
    await until("the program has ended", async () => (await client.processes()).every(({ state }) => state === "closed"));
    return client.attach(p.id);
  };
  await assert.rejects((await start()).output(), (e) => e instanceof GapError && e.kind === "gap" && e.toSeq >= e.fromSeq);
  const types: string[] = [];
  for await (const e of (await start()).events()) types.push(e.type);
  assert.equal(types[0], "gap");
  assert.equal(types.at(-1), "closed");
  await client.closeSession();
});

test("signals, ends and restarts", limit, async (t) => {
  const { url } = await serve(t, "--no-holder");
  const client = await Client.connect(url);
  const p = await client.start(["sleep", "1000"], { ignoreOutput: true });
  const handle = client.process(p.id);
  await handle.signal("usr1");
  assert.equal((await handle.wait()).signal, "SIGUSR1");
  assert.equal(`${await p.closed}`, "SIGUSR1");
  assert.equal(await handle.terminate(), false);
  const q = await client.start(["sleep", "1000"], { restart: { policy: "permanent" } });
  const events = q.events();
  await q.restart();
  assert.equal((await events.next()).value?.type, "exited");
  const restarted = (await events.next()).value;
  assert.ok(restarted?.type === "restarted" && restarted.run === 2);
  await until("the second run has begun", async () => (await q.info()).state === "running");
  assert.equal(await q.terminate({ graceMs: 10_000 }), true);
  assert.equal((await q.closed).signal, "SIGTERM");
  const timed = await client.start(["sleep", "1000"], { timeoutMs: 1 });
  assert.match(`${await timed.closed}`, /timed out/);
  await assert.rejects(handle.write("x"), { kind: "stdinClosed" });
  await assert.rejects(client.process("nobody").write("x"), { kind: "unknownProcess" });
  await client.closeSession();
});

test("errors have kinds", limit, async (t) => {
  const { url } = await serve(t, "--no-holder");
  const client = await Client.connect(url);
  const kinds = async (kind: string, promise: Promise<unknown>): Promise<void> => assert.rejects(promise, { kind });
  await kinds("noProgram", client.start(["no-such-program"]));
  await kinds("noDirectory", client.start(["true"], { cwd: "/no/such/directory" }));
  await kinds("params", client.start(["true"], { cwd: "relative" }));
  await kinds("unknownProcess", client.attach("nobody"));
  await kinds("noTTY", (await client.start(["sleep", "9"])).resize({ rows: 1, cols: 1 }));
  await kinds("notFound", client.files.readText("/no/such/file"));
  await kinds("tooLong", client.exec(["seq", "100000"], { maxBytes: 1000 }));
  await kinds("off", client.request("http/request", { method: "GET", url: "http://127.0.0.1/", headers: [], requestId: "r" }));
  await assert.rejects(client.exec(["sh", "-c", "echo why >&2; exit 5"]), (e) => e instanceof ExitError && e.exit.exitCode === 5 && e.message.includes("why") && e.kind === "exit");
  await assert.rejects(client.request("process/info", { processId: "x" }), (e) => e instanceof RequestError && e.code === -32600 && e.method === "process/info");
  const big = new Uint8Array(20 << 20);
  await kinds("tooLarge", client.request("fs/writeFile", { path: "file:///tmp/never", dataBase64: big }));
  client.close();
  await kinds("closed", client.processes());
});

test("a wrong or missing token is unauthorized", limit, async (t) => {
  const tokens = `${(await serve(t, "--no-holder")).dir}/tokens`;
  writeFileSync(tokens, "me 0123456789abcdef0123456789abcdef\n", { mode: 0o600 });
  const { url } = await serve(t, "--no-holder", "--auth-token-file", tokens);
  await assert.rejects(Client.connect(url), { kind: "unauthorized" });
  await assert.rejects(Client.connect(url, { token: "wrong" }), { kind: "unauthorized" });
  let asked = 0;
  const proxy = await Proxy.start(t, url);
  const client = await Client.connect(proxy.url, { token: async () => (asked++, "0123456789abcdef0123456789abcdef") });
  const { token, shareId } = await client.share({ access: "read", expiresInMs: 60_000 });
  const guest = await Client.connect(url, { token });
  assert.equal((await guest.sessionInfo()).role, "observer");
  assert.equal((await client.shares()).length, 1);
  await client.unshare(shareId);
  await until("the guest is out", () => guest.link.state === "closed");
  proxy.cut();
  await client.processes();
  assert.equal(asked, 2);
  await client.closeSession();
});

test("an abort ends connects, requests, readers and programs", limit, async (t) => {
  const { url, process: server } = await serve(t, "--no-holder");
  const reason = new Error("enough");
  await assert.rejects(Client.connect(url, { signal: AbortSignal.abort(reason) }), reason);
  const silent = await Proxy.start(t, url);
  silent.silent = true;
  const connecting = new AbortController();
  const connect = Client.connect(silent.url, { signal: connecting.signal });
  connecting.abort(reason);
  await assert.rejects(connect, reason);

  const client = await Client.connect(url);
  await assert.rejects(client.start(["true"], { signal: AbortSignal.abort(reason) }), reason);
  const p = await client.start(["sleep", "1000"], { stdin: "pipe" });
  const abort = new AbortController();
  const { signal } = abort;
  const all = [p.wait({ signal }), p.events({ signal }).next(), p.write("x".repeat(1 << 20), { signal })].map((one) => assert.rejects(one, reason));
  const program = await client.start(["sleep", "1000"], { signal });
  const output = client.exec(["sleep", "1000"], { signal });
  await until("all programs run", async () => (await client.processes()).filter(({ state }) => state === "running").length === 3);
  abort.abort(reason);
  await Promise.all(all);
  await assert.rejects(output, reason);
  assert.equal((await program.closed).signal, "SIGKILL");
  await until("the program without a reader has ended", async () => (await client.processes()).filter(({ state }) => state === "running").length === 1);

  // A start that was given up while it was under way ends nevertheless.
  server.kill("SIGSTOP");
  const late = new AbortController();
  const starting = client.start(["sleep", "1000"], { id: "late", signal: late.signal });
  late.abort(reason);
  await assert.rejects(starting, reason);
  server.kill("SIGCONT");
  await until("nobody runs", async () => (await client.processes()).some(({ processId, state }) => processId === "late" && state === "closed"));
  await client.closeSession();
});

test("groups", limit, async (t) => {
  const { url } = await serve(t, "--no-holder");
  const client = await Client.connect(url, { capabilities: { groups: true } });
  const states: string[] = [];
  client.on("group/changed", ({ state }) => states.push(state));
  const group = await client.startGroup({
    strategy: "one_for_all",
    processes: [
      { id: "db", argv: ["sh", "-c", "echo up; sleep 1000"], ready: { line: "up" }, restart: { policy: "permanent" } },
      { id: "web", argv: ["sh", "-c", "echo web; sleep 1000"], dependsOn: ["db"], restart: { policy: "permanent" } },
    ],
  });
  for await (const chunk of (group.processes[1] as (typeof group.processes)[1]).stdout) {
    assert.equal(text(chunk), "web\n");
    break;
  }
  const [info] = await client.groups();
  assert.equal(info?.groupId, group.id);
  await until("the group is ready", () => states.includes("ready"));
  await group.stop();
  assert.deepEqual(await Promise.all(group.processes.map(async (p) => (await p.closed).signal)), ["SIGTERM", "SIGTERM"]);
  await assert.rejects(client.startGroup({ processes: [{ id: "db", argv: ["true"] }] }), { kind: "exists" });
  await client.closeSession();
});

test("files", limit, async (t) => {
  const { url, dir } = await serve(t, "--no-holder");
  const proxy = await Proxy.start(t, url);
  const at = join(dir, "files é?#%41");
  for (const codec of [undefined, msgpack]) {
    const client = await Client.connect(proxy.url, { codec });
    const { files } = client;
    await files.makeDirectory(join(at, "a/b"));
    await files.write(join(at, "small"), "héllo");
    assert.equal(readFileSync(join(at, "small"), "utf8"), "héllo");
    const big = stream(9n, 1, "file", 3_000_001);
    // A cut in the midst of a write of data, and of a read.
    let n = 0;
    proxy.fate = ({ direction }) => (direction === "up" && ++n === 10 ? "before" : "pass");
    await files.write(join(at, "big"), big);
    assert.ok(n > 20 && Buffer.compare(readFileSync(join(at, "big")), big) === 0);
    n = 0;
    proxy.fate = ({ direction }) => (direction === "down" && ++n === 7 ? "before" : "pass");
    assert.ok(Buffer.compare(await files.readFile(join(at, "big")), big) === 0);
    assert.ok(n > 12, `${n}`);
    proxy.fate = () => "pass";
    async function* parts(): AsyncGenerator<Uint8Array | string> {
      yield big.subarray(0, 500_000);
      yield "and text";
    }
    await files.write(join(at, "stream"), parts());
    assert.equal((await files.stat(join(at, "stream"))).size, 500_008);
    await assert.rejects(files.readFile(join(at, "big"), { maxBytes: 1_000_000 }), { kind: "tooLong" });
    const reader = files.read(join(at, "big"), { offset: 2_999_000 });
    assert.equal((await reader.next()).value?.length, 1_001);
    await reader.return();
    const changing = files.read(join(at, "big"));
    await changing.next();
    writeFileSync(join(at, "big"), "other");
    proxy.cut();
    await assert.rejects(
      async () => {
        for await (const _ of changing);
      },
      { kind: "changed" },
    );
    await files.symlink("small", join(at, "link"));
    assert.equal((await files.stat(join(at, "link"), { follow: false })).target, "small");
    await files.rename(join(at, "small"), join(at, "renamed"));
    await files.copy(join(at, "renamed"), join(at, "copy"));
    await files.setMetadata(join(at, "copy"), { mode: 0o600 });
    assert.equal((await files.stat(join(at, "copy"))).mode & 0o777, 0o600);
    assert.deepEqual((await files.list(at)).map(({ fileName }) => fileName).sort(), ["a", "big", "copy", "link", "renamed", "stream"]);
    assert.ok((await files.walk(at, { maxDepth: 3, maxDirectories: 10, maxEntries: 100 })).entries.length >= 5);
    assert.match(await files.canonicalize(join(at, "a")), /files%20/);
    await files.remove(at, { recursive: true });
    await assert.rejects(files.list(at), { kind: "notFound" });
    mkdirSync(at);
    await client.closeSession();
  }
});

test("a wait for a file goes on after a cut", limit, async (t) => {
  const { url, dir } = await serve(t, "--no-holder");
  const proxy = await Proxy.start(t, url);
  const client = await Client.connect(proxy.url);
  const path = join(dir, "awaited");
  let over = false;
  const change = client.files.changed({ missing: [path] }).finally(() => (over = true));
  await client.processes();
  const connected = new Promise((resolve) => client.on("link", ({ state }) => state === "connected" && resolve(state)));
  proxy.cut();
  await connected;
  await client.processes();
  assert.equal(over, false);
  writeFileSync(path, "");
  await change;
  await client.files.changed({ present: [path + "2"] });
  const reason = new Error("enough");
  const abort = new AbortController();
  const aborted = assert.rejects(client.files.changed({ present: [path] }, { signal: abort.signal }), reason);
  await client.processes();
  abort.abort(reason);
  await aborted;
  const closing = assert.rejects(client.files.changed({ present: [path] }), { kind: "closed" });
  await client.processes();
  client.close();
  await closing;
});

test("many writes without a wait arrive in order, a few at a time", limit, async (t) => {
  const { url } = await serve(t, "--no-holder");
  const client = await Client.connect(url);
  const p = await client.start(["sh", "-c", "sleep 0.2; cat"], { stdin: "pipe" });
  const lines = Array.from({ length: 2_000 }, (_, i) => `${i} ${"x".repeat(i % 700)}\n`);
  const written = Promise.all(lines.map((line) => p.write(line)));
  await p.closeStdin();
  assert.equal(await p.text(), lines.join(""));
  await written;
  const deaf = await client.start(["sleep", "1000"], { stdin: "pipe" });
  const flood = assert.rejects(deaf.write(new Uint8Array(2 << 20)), { kind: "stdinClosed" });
  await until("stdin is full", async () => (await deaf.info()).pendingWrites === 4);
  assert.equal((await deaf.info()).pendingWrites, 4);
  await deaf.terminate();
  await flood;
  await client.closeSession();
});

test("the screen of a program, and its terminal from there on", limit, async (t) => {
  const { url } = await serve(t, "--no-holder");
  const client = await Client.connect(url);
  const p = await client.start(["sh", "-c", "printf 'a\\nb\\n'; read x; echo c"], { tty: { rows: 4, cols: 20 }, screen: { scrollback: 100 }, ignoreOutput: true });
  const screen = await p.screen({ restore: true, waitFor: "b", waitMs: patience });
  assert.equal(screen.matched, true);
  assert.deepEqual(screen.lines, ["a", "b", "", ""]);
  assert.match(text(screen.restore ?? new Uint8Array()), /a\r\nb/);
  const viewer = await Client.connect(url, { resumeSessionId: client.sessionId, role: "controller" });
  const view = await viewer.attach(p.id, { after: screen.seq, instance: screen.instance });
  await view.write("x\n");
  assert.match(await view.text(), /^x\r\nc\r\n$/);
  viewer.close();
  await client.closeSession();
});

test("a watch tells the state, and after a cut anew", limit, async (t) => {
  const { url } = await serve(t, "--no-holder");
  const proxy = await Proxy.start(t, url);
  const client = await Client.connect(proxy.url);
  const pieces: ServerChangedNotification[] = [];
  client.on("server/changed", (piece) => pieces.push(piece));
  try {
    await client.watch(200);
  } catch (error) {
    if (error instanceof RequestError && error.kind === "method") return t.skip("this server has no server/watch");
    throw error;
  }
  await until("the state is whole", () => pieces.some(({ whole }) => whole));
  const p = await client.start(["sleep", "1000"], { id: "p" });
  await until("the process is told", () => pieces.some(({ sessions }) => sessions?.some(({ list }) => list?.some(({ processId }) => processId === "p"))));
  pieces.length = 0;
  proxy.cut();
  await until("the state begins anew", () => pieces.some(({ anew }) => anew));
  await client.watch(0);
  await p.terminate();
  await client.closeSession();
});
