// Cuts: every byte of output comes once, every byte of input arrives once, and every program starts once.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { Client, type Codec, type ConnectOptions } from "@troupe/client";
import { msgpack } from "@troupe/client/msgpack";
import { content, stream } from "./oracle.js";
import { limit, Proxy, serve, serverBelow, troupe, until, type Direction, type Fate, type Passing, type Server } from "./server.js";

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
const codecs: [string, Codec | undefined][] = [
  ["json", undefined],
  ["msgpack", msgpack],
];

/** What one scenario has on the wire without a cut. */
const numbers = Array.from({ length: 3_000 }, (_, i) => `${i + 1}\n`).join("");
const spoken = Array.from({ length: 12 }, (_, i) => `${i}:${"x".repeat(1_000)}\n`);

/** Runs a program that counts and one that echoes over a network with a fate, and returns how many messages there were. */
async function scenario(t: TestContext, server: Server, name: string, options: ConnectOptions, fate: (message: Passing) => Fate): Promise<Proxy> {
  const proxy = await Proxy.start(t, server.url);
  proxy.fate = fate;
  const log = join(server.dir, name);
  writeFileSync(log, "");
  const client = await Client.connect(proxy.url, { session: { maxChunkBytes: 1024 }, name, ...options });
  try {
    const [counting, echo] = await Promise.all([client.shell(`echo counting >>${log}; seq 1 3000`), client.start(["sh", "-c", `echo echo >>${log}; cat`], { stdin: "pipe" })]);
    const speak = async (): Promise<void> => {
      await Promise.all(spoken.map((line) => echo.write(line)));
      await echo.closeStdin();
    };
    const [counted, echoed] = await Promise.all([counting.output(), echo.output(), speak()]);
    assert.equal(text(counted.stdout), numbers);
    assert.equal(text(echoed.stdout), spoken.join(""));
    assert.deepEqual(readFileSync(log, "utf8").split("\n").sort(), ["", "counting", "echo"]);
  } finally {
    await client.closeSession();
  }
  proxy.cut();
  return proxy;
}

for (const [encoding, codec] of codecs) {
  test(`a cut before and after every message: ${encoding}`, limit, async (t) => {
    const server = await serve(t, "--no-holder");
    const whole = await scenario(t, server, "whole", { codec }, () => "pass");
    const cases: [Direction, number, Fate][] = [];
    for (const direction of ["up", "down"] as const) {
      for (let n = 1; n <= whole.messages[direction]; n++) cases.push([direction, n, "before"], [direction, n, "after"]);
    }
    assert.ok(cases.length > 60, `${cases.length} places for a cut`);
    let cuts = 0;
    const work = async (): Promise<void> => {
      for (let next; (next = cases.pop()); ) {
        const [direction, n, fate] = next;
        // Each third message of the resumed connection is cut, too, until one goes through.
        const again = n % 5;
        const proxy = await scenario(t, server, `${encoding}-${direction}-${n}-${fate}`, { codec }, (m) =>
          (m.connection === 1 && m.direction === direction && m.n === n) || (m.connection === 2 && m.direction === direction && m.n === again) ? fate : "pass",
        );
        cuts += proxy.cuts;
      }
    };
    await Promise.all(Array.from({ length: 6 }, work));
    t.diagnostic(`${cuts} cuts`);
    assert.ok(cuts > 100, `${cuts} cuts`);
  });

  test(`streams of the oracle over a network that cuts each connection after some bytes: ${encoding}`, limit, async (t) => {
    const server = await serve(t, "--no-holder");
    const proxy = await Proxy.start(t, server.url);
    let seed = 12345;
    const random = (): number => (seed = (seed * 1103515245 + 12345) % 2 ** 31) / 2 ** 31;
    proxy.bytes = () => ({ up: 100_000 + random() * 200_000, down: 100_000 + random() * 600_000 });
    const client = await Client.connect(proxy.url, { codec, reconnectForMs: Infinity });
    const size = 2_000_000;
    const input = stream(0xfeedn, 0, "stdin", size / 4);
    const [burst, echo, pty] = await Promise.all([
      client.exec([troupe, "load-program", "burst", "key=abc", `bytes=${size}`, `stderr=${size / 4}`, "code=7"], { check: false }),
      client.exec([troupe, "load-program", "echo", "key=feed"], { stdin: input }),
      client.exec([troupe, "load-program", "burst", "key=77", `bytes=${size / 4}`], { tty: true }),
    ]);
    same(content(burst.stdout), stream(0xabcn, 1, "stdout", size));
    same(content(burst.stderr, false), stream(0xabcn, 1, "stderr", size / 4));
    same(content(echo.stdout), input);
    same(content(pty.stdout), stream(0x77n, 1, "stdout", size / 4));
    assert.deepEqual([burst.exit.exitCode, echo.exit.exitCode, pty.exit.exitCode], [7, 0, 0]);
    assert.ok(proxy.cuts > 3, `${proxy.cuts} cuts`);
    t.diagnostic(`${proxy.cuts} cuts`);
    await client.closeSession();
  });
}

/** Compares long texts without printing them. */
function same(got: Uint8Array, want: Uint8Array): void {
  assert.equal(got.length, want.length);
  assert.ok(Buffer.compare(got, want) === 0, "a byte is wrong");
}

test("the server is killed, and the next one goes on", limit, async (t) => {
  const server = await serve(t);
  const holder = server.process.pid as number;
  await until("the holder is ready", () => server.log().includes("msg=ready"));
  const client = await Client.connect(server.url);
  const echo = await client.start([troupe, "load-program", "echo", "key=1"], { stdin: "pipe" });
  const lines = await client.start(["sh", "-c", "i=0; while [ $i -lt 400 ]; do echo $i; i=$((i+1)); sleep 0.005; done"]);
  const input = stream(1n, 0, "stdin", 400_000);
  const outputs = Promise.all([echo.output(), lines.text()]);
  let kills = 0;
  for (let at = 0; at < input.length; at += 20_000) {
    await echo.write(input.subarray(at, at + 20_000));
    if (at % 100_000 !== 0) continue;
    const pid = await until("there is a server", () => serverBelow(holder));
    process.kill(pid, "SIGKILL");
    kills++;
    await until("the next server serves", () => server.log().split("serves in place of a server that died").length - 1 === kills);
  }
  await echo.closeStdin();
  const [echoed, counted] = await outputs;
  same(content(echoed.stdout), input);
  assert.equal(counted, Array.from({ length: 400 }, (_, i) => `${i}\n`).join(""));
  assert.equal(kills, 4);
  await client.closeSession();
});

test("a network that falls silent is a cut, and the page can tell", limit, async (t) => {
  const server = await serve(t, "--no-holder");
  const proxy = await Proxy.start(t, server.url);
  const client = await Client.connect(proxy.url, { pingEveryMs: 50, deadAfterMs: 150 });
  const states: string[] = [];
  const problems: string[] = [];
  client.on("link", (link) => {
    states.push(link.state === "connected" && link.silentMs > 0 ? "silent" : link.state);
    if (link.state === "lost") problems.push(link.error.kind);
  });
  const p = await client.start(["sh", "-c", "while read x; do echo got $x; done"], { stdin: "pipe" });
  const events = p.events();
  await p.write("one\n");
  assert.equal((await events.next()).value?.type, "output");
  proxy.silent = true;
  const written = p.write("two\n");
  await until("the connection is lost", () => states.includes("lost"));
  const lost = client.link;
  assert.ok(lost.state !== "lost" || (lost.attempt >= 1 && lost.since <= Date.now() && lost.error.kind === "lost"));
  // The server takes the old connection for alive.
  proxy.halfOpen = true;
  proxy.silent = false;
  await written;
  const next = (await events.next()).value;
  assert.ok(next?.type === "output" && text(next.data) === "got two\n");
  assert.ok(states.indexOf("silent") >= 0 && states.indexOf("silent") < states.indexOf("lost"), states.join());
  assert.ok(!problems.includes("attached"), "the client takes its session from its own old connection");
  await client.closeSession();
  assert.equal(client.link.state, "closed");
});

test("a request that the server cannot recognize is not sent again", limit, async (t) => {
  const server = await serve(t, "--no-holder");
  const proxy = await Proxy.start(t, server.url);
  const client = await Client.connect(proxy.url);
  const path = join(server.dir, "f");
  await client.files.write(path, "1");
  let before = 0;
  proxy.fate = ({ direction, n, connection }) => {
    before ||= connection;
    return direction === "down" && connection === before && n > 0 ? "before" : "pass";
  };
  await assert.rejects(client.files.rename(path, path + "2"), { kind: "lost" });
  proxy.fate = () => "pass";
  assert.equal(await client.files.readText(path + "2"), "1");
  await client.closeSession();
});

test("a change whose answer was lost is done once", limit, async (t) => {
  const server = await serve(t, "--no-holder");
  const proxy = await Proxy.start(t, server.url);
  const client = await Client.connect(proxy.url);
  const p = await client.start(["sleep", "1000"], { restart: { policy: "permanent", backoff: { initialMs: 0 } } });
  const runs: number[] = [];
  const reading = (async () => {
    for await (const event of p.events()) if (event.type === "restarted") runs.push(event.run);
  })();
  for (let i = 2; i <= 4; i++) {
    const connection = proxy.connections;
    proxy.fate = (m) => (m.connection === connection && m.direction === "down" ? "before" : "pass");
    await p.restart();
    await until("the next run has begun", async () => (await p.info()).state === "running" && runs.length === i - 1);
  }
  await p.terminate();
  await reading;
  assert.deepEqual(runs, [2, 3, 4]);
  await client.closeSession();
});

test("a lost acknowledgement is sent again", limit, async (t) => {
  const server = await serve(t, "--no-holder", "--closed-retention", "1ms");
  const proxy = await Proxy.start(t, server.url);
  const client = await Client.connect(proxy.url, { pingEveryMs: 0 });
  const p = await client.start(["true"]);
  await p.closed;
  proxy.silent = true;
  for await (const _ of p.events());
  await until("the acknowledgement is on its way", () => proxy.dropped > 0);
  proxy.silent = false;
  proxy.cut();
  // The server forgets a process whose end its owner has read.
  await until("the process is forgotten", async () => (await client.processes()).length === 0);
  await client.closeSession();
});

test("a process that was forgotten during a cut is gone", limit, async (t) => {
  const server = await serve(t, "--no-holder", "--closed-retention", "1ms");
  const owner = await Client.connect(server.url);
  await owner.start(["sleep", "1000"], { id: "p", ignoreOutput: true });
  const proxy = await Proxy.start(t, server.url);
  const observer = await Client.connect(proxy.url, { resumeSessionId: owner.sessionId, role: "observer", reconnectForMs: Infinity });
  const p = await observer.attach("p");
  proxy.fate = () => "before";
  proxy.cut();
  await owner.process("p").terminate();
  await until("the process is forgotten", async () => (await owner.processes()).length === 0);
  proxy.fate = () => "pass";
  await assert.rejects(p.closed, { kind: "unknownProcess" });
  observer.close();
  await owner.closeSession();
});

test("a controller that holds a process misses nothing, and takes no other process with its id", limit, async (t) => {
  const server = await serve(t, "--no-holder", "--closed-retention", "1ms");
  const owner = await Client.connect(server.url);
  const size = 3_000_000;
  await owner.start(["sh", "-c", `read x; ${troupe} load-program flood key=8 size=4096 bytes=${size}; read x`], {
    id: "p",
    stdin: "pipe",
    ignoreOutput: true,
    retention: { bytes: 65_536, onFull: "evict", holdMs: 60_000 },
  });
  const [info] = await owner.processes();
  const proxy = await Proxy.start(t, server.url);
  const controller = await Client.connect(proxy.url, { resumeSessionId: owner.sessionId, role: "controller", reconnectForMs: Infinity });
  const p = await controller.attach("p", { hold: true, instance: info?.instance });
  await p.write("begin\n");
  const want = stream(8n, 1, "stdout", size);
  let got = Buffer.alloc(0);
  for await (const part of p.stdout) {
    const first = got.length === 0;
    got = Buffer.concat([got, part]);
    if (first) await until("the program waits for this client", async () => (await p.info()).waitsFor?.some((w) => w.for === "owner"));
    if (got.length > size / 3 && proxy.connections === 1) proxy.cut();
    if (got.length > size + 100) break; // a first line is longer
  }
  same(content(got), want);
  assert.equal(proxy.connections, 2);
  proxy.fate = () => "before";
  proxy.cut();
  await owner.process("p").terminate();
  await until("the process is forgotten", async () => (await owner.processes()).length === 0);
  const other = await owner.start(["sh", "-c", "echo other; sleep 1000"], { id: "p" });
  await other.events().next();
  proxy.fate = () => "pass";
  await assert.rejects(p.closed, { kind: "unknownProcess" });
  controller.close();
  await owner.closeSession();
});

test("an observer that falls behind gets a gap, and holds a bounded part", limit, async (t) => {
  const server = await serve(t, "--no-holder");
  const owner = await Client.connect(server.url);
  const p = await owner.start(["sh", "-c", "read x; head -c 30000000 /dev/zero"], { stdin: "pipe", ignoreOutput: true });
  const observer = await Client.connect(server.url, { resumeSessionId: owner.sessionId, role: "observer" });
  const watched = await observer.attach(p.id);
  const events = watched.events();
  await p.write("begin\n");
  await p.closed;
  await until("the observer has all that it takes", () => watched.queuedBytes > 4 << 20);
  assert.ok(watched.queuedBytes < 5 << 20, `${watched.queuedBytes} bytes were held`);
  const types: string[] = [];
  let bytes = 0;
  for await (const event of events) {
    if (event.type === "output") bytes += event.data.length;
    else types.push(event.type);
  }
  assert.equal(types[0], "gap");
  assert.deepEqual(
    types.filter((type) => type !== "gap"),
    ["exited", "closed"],
  );
  assert.ok(bytes < 30_000_000, `${bytes} bytes`);
  observer.close();
  await owner.closeSession();
});

test("a reader that is behind a spool holds a bounded part, and misses nothing", limit, async (t) => {
  const server = await serve(t, "--no-holder");
  const proxy = await Proxy.start(t, server.url);
  const client = await Client.connect(proxy.url);
  const size = 12_000_000;
  const p = await client.start([troupe, "load-program", "burst", "key=51", `bytes=${size}`, "code=4"], { retention: { bytes: 65_536, onFull: "spool" } });
  await until("the client has all that it takes", () => p.queuedBytes > 4 << 20);
  let most = p.queuedBytes;
  const parts: Uint8Array[] = [];
  let n = 0;
  for await (const event of p.events()) {
    most = Math.max(most, p.queuedBytes);
    if (event.type === "output") {
      parts.push(event.data);
      if (++n % 100 === 50) proxy.cut();
    }
  }
  assert.ok(most < 6 << 20, `${most} bytes were held`);
  same(content(Buffer.concat(parts)), stream(0x51n, 1, "stdout", size));
  assert.equal((await p.closed).exitCode, 4);
  await client.closeSession();
});

test("pauses between attempts grow", limit, async (t) => {
  const server = await serve(t, "--no-holder");
  const client = await Client.connect(server.url, { reconnectForMs: 1_500 });
  let attempts = 0;
  client.on("link", (link) => link.state === "lost" && (attempts = link.attempt));
  server.process.kill("SIGKILL");
  await until("the client has given up", () => client.link.state === "closed");
  assert.ok(attempts >= 2 && attempts < 9, `${attempts} attempts`);
});

test("the client gives up when the server says so", limit, async (t) => {
  const server = await serve(t, "--no-holder");
  const client = await Client.connect(server.url);
  const p = await client.start(["sleep", "1000"]);
  const thief = await Client.connect(server.url, { resumeSessionId: client.sessionId, takeover: true });
  await assert.rejects(p.closed, { kind: "evicted" });
  assert.equal(client.link.state, "closed");
  await assert.rejects(client.processes(), { kind: "evicted" });
  await assert.rejects(Client.connect(server.url, { resumeSessionId: thief.sessionId }), { kind: "attached" });
  assert.equal((await thief.processes()).length, 1);
  const id = thief.sessionId;
  await thief.closeSession();
  await assert.rejects(Client.connect(server.url, { resumeSessionId: id }), { kind: "unknownSession" });
});

test("a session that ends during a cut ends the client", limit, async (t) => {
  const server = await serve(t, "--no-holder");
  const proxy = await Proxy.start(t, server.url);
  const client = await Client.connect(proxy.url, { session: { detachedTtlMs: 1 } });
  const p = await client.start(["sleep", "1000"]);
  proxy.fate = () => "before";
  proxy.cut();
  const other = await Client.connect(server.url);
  await until("the session is gone", async () => (await other.sessions()).length === 1);
  proxy.fate = () => "pass";
  await assert.rejects(p.closed, { kind: "unknownSession" });
  await other.closeSession();
});

test("a client gives up when the server does not come back", limit, async (t) => {
  const server = await serve(t, "--no-holder");
  const client = await Client.connect(server.url, { reconnectForMs: 300 });
  const waiting = client.request("process/wait", { processId: (await client.start(["sleep", "1000"])).id });
  server.process.kill("SIGKILL");
  await assert.rejects(waiting, { kind: "lost" });
  assert.equal(client.link.state, "closed");
});
