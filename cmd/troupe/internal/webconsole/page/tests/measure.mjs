// Prints the figures of the page: node tests/measure.mjs, with the binary in TROUPE. It is no test.
import { readFileSync, readdirSync } from 'node:fs'
import { Server, launch, openPage } from './harness.mjs'

const server = await Server.start(process.env.TROUPE)
const browser = await launch()
const wait = (ms) => new Promise((done) => setTimeout(done, ms))

async function metrics(page) {
  page.cdp ??= await page.context().newCDPSession(page)
  await page.cdp.send('Performance.enable')
  const all = Object.fromEntries((await page.cdp.send('Performance.getMetrics')).metrics.map((m) => [m.name, m.value]))
  return { script: all.ScriptDuration, task: all.TaskDuration, layout: all.LayoutDuration + all.RecalcStyleDuration, heap: all.JSHeapUsedSize }
}
const cpu = (pid) => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ').slice(11, 13).reduce((a, b) => a + Number(b), 0) / 100
const rss = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024

async function during(what, page, seconds, f = () => wait(seconds * 1000)) {
  const before = await metrics(page)
  const [pid, t0] = [pidOfServer(), Date.now()]
  const s0 = cpu(pid)
  await f()
  const [after, took] = [await metrics(page), (Date.now() - t0) / 1000]
  const percent = (x) => `${((x / took) * 100).toFixed(1)} %`
  console.log(`${what}: script ${percent(after.script - before.script)}, layout and style ${percent(after.layout - before.layout)}, all tasks ${percent(after.task - before.task)} of the page's thread; heap ${(after.heap / 1e6).toFixed(0)} MB; server ${percent(cpu(pid) - s0)} of a core, ${rss(pid).toFixed(0)} MiB`)
}

// frames says how long frames take for 4 s.
async function frames(page) {
  const gaps = await page.evaluate(() => new Promise((done) => {
    const gaps = []
    let last = performance.now()
    const end = last + 4000
    requestAnimationFrame(function next(t) {
      gaps.push(t - last)
      last = t
      if (t < end) requestAnimationFrame(next)
      else done(gaps.sort((a, b) => a - b))
    })
  }))
  console.log(`  frames: median ${gaps[gaps.length >> 1].toFixed(0)} ms, 99 % within ${gaps[Math.floor(gaps.length * 0.99)].toFixed(0)} ms, longest ${gaps.at(-1).toFixed(0)} ms`)
}

// The server is a child of its holder.
function pidOfServer() {
  const read = (pid, name) => {
    try {
      return readFileSync(`/proc/${pid}/${name}`, 'utf8')
    } catch {
      return ''
    }
  }
  const child = (pid) => Number(read(pid, 'stat').split(') ')[1]?.split(' ')[1]) === server.child.pid && read(pid, 'cmdline').includes('serve')
  return readdirSync('/proc').find((pid) => Number(pid) && child(pid)) ?? server.child.pid
}

// First paint, with a cold cache.
{
  const page = await openPage(browser, server.port)
  const fresh = await page.context().browser().newContext({ storageState: await page.context().storageState() })
  const p = await fresh.newPage()
  await p.goto(page.base)
  await p.getByText('● live').waitFor()
  console.log('first paint:', await p.evaluate(() => JSON.stringify(Object.fromEntries(performance.getEntriesByType('paint').map((e) => [e.name, Math.round(e.startTime)])))), 'ms; transferred:', await p.evaluate(() => performance.getEntriesByType('resource').reduce((n, e) => n + e.encodedBodySize, 0)), 'bytes')
  await fresh.close()
  await page.context().close()
}

// 5,000 processes, of which 500 change each second: the page's own server.
{
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
  const page = await context.newPage()
  const process = (i, n) => ({ processId: `worker-${i}`, instance: `i${i}`, state: i % 97 ? 'running' : 'closed', run: 1 + (i % 13 === 0 ? n : 0), argv: ['./worker', '--shard', String(i)], cwd: 'file:///srv', tty: i % 5 === 0, startedAtMs: 1.7e12 + i, firstSeq: 1, nextSeq: 100 + n, retainedBytes: 1e5, unackedBytes: 0, quietMs: (i * 37) % 20000, waitsFor: [{ for: i % 31 ? 'itself' : 'owner', sinceMs: 100, limit: 'retention' }], pendingWrites: 0, outputBytes: 1e6 + n * 5000 * (i % 7), droppedBytes: 0, viewers: [], usage: { of: 'tree', userMs: n * 10, systemMs: 1, memoryBytes: 1e7 + i * 1000 }, ...(i % 97 ? {} : { status: { exitCode: 1, run: 1, rusage: {} } }) })
  const session = (s) => ({ sessionId: `session-${s}`, name: `fleet-${s}`, createdAtMs: 1.7e12 + s, observers: 0, processes: 100, state: 'attached' })
  await page.route('**/console/me', (r) => r.fulfill({ json: { auth: false, identity: null, oidc: false } }))
  await page.routeWebSocket(/./, (ws) => {
    let n = 0
    let timer
    ws.onMessage((text) => {
      const m = JSON.parse(text)
      const answer = (result) => m.id !== undefined && ws.send(JSON.stringify({ id: m.id, result }))
      if (m.method !== 'server/watch') return answer(m.method === 'initialize' ? { sessionId: 's', server: { name: 'troupe', version: 'x' }, limits: { maxFrameBytes: 1 << 24, maxPendingRequests: 1024 } } : {})
      answer({})
      const send = (params) => ws.send(JSON.stringify({ method: 'server/changed', params }))
      for (let s = 0; s < 50; s++) send({ anew: s === 0, whole: s === 49, sessions: [{ ...session(s), list: Array.from({ length: 100 }, (_, i) => process(s * 100 + i, 0)) }] })
      timer = setInterval(() => {
        n++
        send({ sessions: Array.from({ length: 50 }, (_, s) => ({ ...session(s), list: Array.from({ length: 10 }, (_, i) => process(s * 100 + ((n * 10 + i) % 100), n)) })) })
      }, 1000)
    })
    ws.onClose(() => clearInterval(timer))
  })
  await page.goto(`http://127.0.0.1:${server.port}/console/`)
  await page.getByText('All (5000)').waitFor({ state: 'attached' })
  await during('5,000 processes, 500 changes a second', page, 8)
  await page.locator('.rows').hover()
  await during('the same, while scrolled', page, 4, async () => {
    const measured = frames(page)
    for (let i = 0; i < 60; i++) {
      await page.mouse.wheel(0, i < 30 ? 900 : -900)
      await wait(50)
    }
    await measured
  })
  await page.getByLabel('Sort by').selectOption('rate')
  await page.getByLabel('Filter processes').fill('worker 7')
  await during('the same, filtered and sorted', page, 5)
  await context.close()
}

// A flood on a terminal and on pipes.
for (const tty of [true, false]) {
  server.troupe('run', '--detach', ...(tty ? ['--tty'] : []), '--retention', 'evict', '--name', `flood${tty}`, '--', 'yes', 'a line of output that goes on and on, as many do: 0123456789')
  const page = await openPage(browser, server.port)
  await page.locator('.row.process', { hasText: `flood${tty}` }).locator('a').click()
  await wait(2000)
  await during(`flood ${tty ? 'on a terminal' : 'in the log view'}`, page, 6, () => frames(page))
  const t0 = Date.now()
  await page.getByRole('link', { name: 'Details' }).click()
  await page.getByText('Watched by').waitFor()
  console.log(`  a click takes ${Date.now() - t0} ms; the program writes ${await page.locator('.facts div', { hasText: 'Output' }).last().textContent()}`)
  server.troupe('kill', `flood${tty}`)
  await page.context().close()
}

// Ten pages.
{
  for (let i = 0; i < 100; i++) server.troupe('run', '--detach', '--name', `w${i}`, '--', 'sh', '-c', 'while :; do echo hello; sleep 1; done')
  const pid = pidOfServer()
  const before = [cpu(pid), Date.now()]
  await wait(5000)
  console.log(`100 programs that write a line a second, no page: server ${(((cpu(pid) - before[0]) / ((Date.now() - before[1]) / 1000)) * 100).toFixed(1)} % of a core, ${rss(pid).toFixed(0)} MiB`)
  const open = []
  for (let i = 0; i < 10; i++) open.push(await openPage(browser, server.port))
  await during('ten pages with the tree of them', open[0], 6)
}
await browser.close()
await server.stop()
