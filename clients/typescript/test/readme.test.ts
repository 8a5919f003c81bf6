// The lines of README.md work as written, from the package as npm packs it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { limit, patience, serve } from "./server.js";

const here = join(import.meta.dirname, "../..");

test("the example of the README, with the package as it is packed", limit, async (t) => {
  const { url, dir } = await serve(t, "--no-holder");
  const readme = readFileSync(join(here, "README.md"), "utf8");
  const program = /\n```js\n(.*?)```\n/s.exec(readme)?.[1];
  assert.ok(program && program.split("\n").length < 12, "README.md has ten lines");
  const [packed] = JSON.parse(execFileSync("npm", ["pack", "--json", "--loglevel=silent", "--pack-destination", dir], { cwd: here, encoding: "utf8" })) as [{ filename: string }];
  const modules = join(dir, "node_modules");
  mkdirSync(join(modules, "@troupe/client"), { recursive: true });
  execFileSync("tar", ["-xzf", join(dir, packed.filename), "--strip-components=1", "-C", join(modules, "@troupe/client")]);
  symlinkSync(join(here, "node_modules/ws"), join(modules, "ws"));
  writeFileSync(join(dir, "example.mjs"), program);
  const output = execFileSync("node", ["example.mjs", url], { cwd: dir, encoding: "utf8", timeout: patience });
  assert.equal(output, "hello world\nexit code 3\n1\n2\n3\n\n");
  assert.ok(existsSync(join(modules, "@troupe/client/dist/index.d.ts")));
  assert.ok(existsSync(join(modules, "@troupe/client/LICENSE")));
});
