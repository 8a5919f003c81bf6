// The client in a page: bundled for browsers, in a headless Chromium, against the real server.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import type * as troupe from "@troupe/client";
import { limit, Proxy, serve } from "./server.js";

const path = process.env["CHROMIUM"] ?? "/usr/bin/chromium";

async function bundle(entry: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents: entry, resolveDir: import.meta.dirname },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    write: false,
  });
  return outputFiles[0]?.text ?? "";
}

test("the bundle for browsers is small, and has nothing of Node", async (t) => {
  const code = await bundle(`import { Client } from "@troupe/client"; globalThis.Client = Client`);
  const size = gzipSync(code, { level: 9 }).length;
  t.diagnostic(`${code.length} bytes minified, ${size} with gzip`);
  assert.ok(size < 15_000, `${size} bytes with gzip`);
  assert.doesNotMatch(code, /node:|require\(/);
});

declare const module: typeof troupe & { msgpack: troupe.Codec };

test("a page resumes, and reads every byte once", limit, async (t) => {
  const code = await bundle(`import * as client from "@troupe/client"; import { msgpack } from "@troupe/client/msgpack"; globalThis.module = { ...client, msgpack }`);
  const site = createServer((request, response) => {
    response.setHeader("Content-Type", request.url === "/client.js" ? "text/javascript" : "text/html");
    response.end(request.url === "/client.js" ? code : `<!doctype html><script type="module" src="/client.js"></script>`);
  });
  await new Promise<void>((resolve) => site.listen(0, "127.0.0.1", resolve));
  t.after(() => site.close());
  const origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
  const { url, dir } = await serve(t, "--no-holder", "--allow-origin", origin);
  const proxy = await Proxy.start(t, url);
  proxy.bytes = () => ({ up: 300_000, down: 700_000 });
  const browser = await chromium.launch({ executablePath: path, args: ["--no-sandbox"], env: { ...process.env, HOME: dir } as { [name: string]: string } });
  t.after(() => browser.close());
  const page = await browser.newPage();
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(origin);
  await page.waitForFunction("globalThis.module");
  for (const encoding of ["json", "msgpack"]) {
    const result = await page.evaluate(
      async ({ url, encoding }) => {
        const client = await module.Client.connect(url, { codec: encoding === "msgpack" ? module.msgpack : module.json });
        const states: string[] = [];
        client.on("link", (link) => states.push(link.state));
        const input = Array.from({ length: 30_000 }, (_, i) => `in ${i}\n`).join("");
        const [numbers, echo] = await Promise.all([client.start(["seq", "300000"]).then((p) => p.text()), client.start(["cat"], { stdin: input }).then((p) => p.text())]);
        const token = await module.Client.connect(url, { token: "x" }).then(
          () => "none",
          (e: troupe.TroupeError) => e.kind,
        );
        await client.closeSession();
        return { right: numbers === Array.from({ length: 300_000 }, (_, i) => `${i + 1}\n`).join(""), echoed: echo === input, lost: states.includes("lost"), end: states.at(-1), token };
      },
      { url: proxy.url, encoding },
    );
    assert.deepEqual(result, { right: true, echoed: true, lost: true, end: "closed", token: "unsupported" });
  }
  assert.ok(proxy.cuts > 2, `${proxy.cuts} cuts`);
  assert.deepEqual(problems, []);
});
