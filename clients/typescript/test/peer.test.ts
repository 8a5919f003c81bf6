// The peer's server, imitated: troupe behind a relay that knows only what the peer knows. Such a server has no acknowledgements and no replay,
// and ends a connection that sends a notification that it does not know.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { Client } from "@troupe/client";
import { WebSocket, WebSocketServer } from "ws";
import { limit, serve } from "./server.js";

/** The members of params that the peer knows, by method. */
const known: { [method: string]: readonly string[] | undefined } = {
  initialize: ["clientName", "resumeSessionId"],
  "environment/info": [],
  "environment/status": [],
  "process/start": ["processId", "argv", "cwd", "env", "envPolicy", "tty", "pipeStdin", "arg0"],
  "process/read": ["processId", "afterSeq", "maxBytes", "waitMs"],
  "process/write": ["processId", "chunk", "writeId"],
  "process/signal": ["processId", "signal"],
  "process/terminate": ["processId"],
  "fs/readFile": ["path"],
  "fs/writeFile": ["path", "dataBase64"],
};

type Json = { [name: string]: unknown };

class Peer {
  readonly asked: string[] = [];
  connections = 0;
  /** How long the server takes a connection for alive after a cut. */
  lingerMs = 0;
  /** As the peer may: the exit comes before the last output. */
  exitFirst = false;
  /** Called before a message of the server goes on; true: the connection is cut in its place. */
  cutBefore: (n: number, connection: number) => boolean = () => false;

  constructor(
    readonly url: string,
    readonly server: WebSocketServer,
    target: string,
  ) {
    server.on("connection", (client) => {
      const connection = ++this.connections;
      const real = new WebSocket(target);
      const waiting: string[] = [];
      real.on("open", () => waiting.forEach((text) => real.send(text)));
      real.on("error", () => {});
      real.on("close", () => client.terminate());
      client.on("close", () => setTimeout(() => real.terminate(), this.lingerMs));
      const methods = new Map<unknown, string>();
      client.on("message", (data) => {
        const message = JSON.parse(String(data)) as { id?: unknown; method: string; params: Json };
        const members = known[message.method];
        this.asked.push(message.method);
        if (message.id === undefined && message.method !== "initialized") return client.terminate();
        if (message.method !== "initialized") {
          if (!members) {
            const text = `exec-server stub does not implement \`${message.method}\` yet`;
            return client.send(JSON.stringify({ id: message.id, error: { code: -32601, message: text } }));
          }
          message.params = Object.fromEntries(members.filter((name) => name in message.params).map((name) => [name, message.params[name]]));
          methods.set(message.id, message.method);
        }
        const text = JSON.stringify(message);
        if (real.readyState === WebSocket.OPEN) real.send(text);
        else waiting.push(text);
      });
      let n = 0;
      let last: string | undefined; // output that waits for the exit
      real.on("message", (data) => {
        const message = JSON.parse(String(data)) as { id?: unknown; method?: string; result?: Json; params?: Json; error?: Json };
        if (message.method !== undefined && !["process/output", "process/exited", "process/closed"].includes(message.method)) return;
        if (message.error) delete message.error["data"];
        if (methods.get(message.id) === "initialize") message.result = { sessionId: message.result?.["sessionId"] };
        delete message.result?.["firstSeq"];
        if (message.method === "process/exited") {
          const { processId, seq, exitCode } = message.params as Json;
          message.params = { processId, seq, exitCode };
        }
        if (this.cutBefore(++n, connection)) return client.terminate();
        if (this.exitFirst && message.method === "process/output") {
          if (last) client.send(last);
          last = JSON.stringify(message);
          return;
        }
        client.send(JSON.stringify(message));
        if (last && message.method === "process/exited") client.send(last);
      });
    });
  }

  static async start(t: TestContext, target: string): Promise<Peer> {
    const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
    await new Promise((resolve) => server.on("listening", resolve));
    t.after(() => {
      for (const client of server.clients) client.terminate();
      server.close();
    });
    return new Peer(`ws://127.0.0.1:${(server.address() as { port: number }).port}`, server, target);
  }
}

test("an exit that comes before output", limit, async (t) => {
  const peer = await Peer.start(t, (await serve(t, "--no-holder")).url);
  peer.exitFirst = true;
  const client = await Client.connect(peer.url);
  const p = await client.start(["seq", "20000"]);
  const types: string[] = [];
  for await (const { type } of p.events()) if (types.at(-1) !== type) types.push(type);
  assert.deepEqual(types, ["output", "exited", "closed"]);
  const q = await client.start(["seq", "20000"]);
  assert.equal(await q.text(), numbers);
  client.close();
});

const numbers = Array.from({ length: 20_000 }, (_, i) => `${i + 1}\n`).join("");

test("a server that knows no extension", limit, async (t) => {
  const peer = await Peer.start(t, (await serve(t, "--no-holder")).url);
  const client = await Client.connect(peer.url);
  assert.equal(client.server, undefined);
  const p = await client.start(["sh", "-c", "read x; echo got $x; seq 1 20000; exit 3"], { stdin: "pipe" });
  await p.write("it\n");
  const { stdout, exit } = await p.output({ check: false });
  assert.equal(Buffer.from(stdout).toString(), "got it\n" + numbers);
  assert.equal(exit.exitCode, 3);
  await assert.rejects(client.attach("nobody").then((q) => q.closed), { kind: "unknownProcess" });
  await assert.rejects(client.process(p.id).wait(), { kind: "unsupported" });
  await assert.rejects(client.processes(), { kind: "method" });
  const again = await client.attach(p.id);
  assert.equal((await again.text().catch((e: { stdout: Uint8Array }) => Buffer.from(e.stdout).toString())).length, numbers.length + 7);
  assert.ok(!peer.asked.includes("session/ack") && !peer.asked.includes("process/subscribe"), peer.asked.join());
  client.close();
});

test("cuts of a server without replay", limit, async (t) => {
  const { url } = await serve(t, "--no-holder");
  const cases = [3, 4, 5, 6, 7, 8, 9];
  let refused = 0;
  for (const cut of cases) {
    const peer = await Peer.start(t, url);
    peer.lingerMs = 50;
    peer.cutBefore = (n, connection) => connection < 6 && n === cut + connection;
    const client = await Client.connect(peer.url);
    client.on("link", (link) => link.state === "lost" && link.error.kind === "attached" && refused++);
    const p = await client.start(["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.01; done; seq 1 20000; exit 3"]);
    const types: string[] = [];
    let out = "";
    for await (const event of p.events()) {
      if (event.type === "output") out += Buffer.from(event.data).toString();
      else types.push(event.type);
    }
    assert.equal(out, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n" + numbers);
    assert.deepEqual(types, ["exited", "closed"]);
    assert.equal((await p.closed).exitCode, 3);
    assert.ok(peer.connections > 1, `cut ${cut}: ${peer.connections} connections`);
    client.close();
  }
  assert.ok(refused > 0, "a resume was refused while the server took the old connection for alive");
});
