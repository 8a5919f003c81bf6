// What the tests share: a server of troupe with its console, a proxy that cuts connections, a browser, and checks that each page passes.
import { spawn, execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createRequire } from 'node:module'
import { chromium, firefox } from 'playwright-core'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
export const token = 'a-token-of-the-tests-0123456789'

// patience is the limit of each wait for a fact, in ms: only a dead machine reaches it.
const patience = 120_000

export async function until(what, f) {
  const end = Date.now() + patience
  for (let last; ; ) {
    try {
      const value = await f()
      if (value) return value
      last = undefined
    } catch (e) {
      last = e
    }
    if (Date.now() > end) throw new Error(`waited in vain for: ${what}${last ? ` (${last.message})` : ''}`)
    await new Promise((done) => setTimeout(done, 50))
  }
}

// Server is a troupe server of its own, in a directory of its own.
export class Server {
  static async start(binary, ...flags) {
    const s = new Server()
    s.binary = binary
    s.dir = mkdtempSync(join(tmpdir(), 'console-'))
    writeFileSync(join(s.dir, 'tokens'), `alice ${token}\n`, { mode: 0o600 })
    s.child = spawn(binary, ['serve', '--listen', 'ws://127.0.0.1:0', '--console', '--auth-token-file', join(s.dir, 'tokens'), ...flags],
      { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, HOME: s.dir, TROUPE_URL: '', TROUPE_TOKEN: '' } })
    process.on('exit', () => s.child.kill('SIGKILL'))
    s.log = ''
    s.child.stderr.on('data', (d) => (s.log += d))
    s.child.stdout.on('data', (d) => (s.url = (s.url ?? '') + d))
    await until('the address of the server', () => s.url?.includes('\n') || (s.child.exitCode !== null && Promise.reject(new Error(s.log))))
    s.url = s.url.trim()
    s.port = Number(new URL(s.url).port)
    return s
  }
  // troupe runs a command of the binary.
  troupe(...args) {
    return execFileSync(this.binary, args, { encoding: 'utf8', env: { ...process.env, TROUPE_URL: this.url, TROUPE_TOKEN: token, HOME: this.dir } })
  }
  async stop() {
    this.child.kill('SIGTERM')
    if (this.child.exitCode === null) await new Promise((done) => this.child.once('exit', done))
    rmSync(this.dir, { recursive: true, force: true })
  }
}

// provider starts a provider of OpenID Connect, and returns its address.
export async function provider() {
  const child = spawn(process.env.TESTOIDC, { stdio: ['pipe', 'pipe', 'inherit'] })
  let url = ''
  child.stdout.on('data', (d) => (url += d))
  await until('the address of the provider', () => url.includes('\n'))
  return { url: url.trim(), stop: () => child.stdin.end() }
}

// Cutter passes bytes to a port, until it cuts all connections.
export class Cutter {
  static async start(port) {
    const c = new Cutter()
    c.pairs = new Set()
    c.server = createServer((a) => {
      if (c.refusing) return a.destroy()
      const b = connect(port, '127.0.0.1')
      const pair = [a, b]
      c.pairs.add(pair)
      for (const [x, y] of [[a, b], [b, a]]) {
        x.on('data', (d) => y.write(d) || (x.pause(), y.once('drain', () => x.resume())))
        x.on('error', () => {})
        x.on('close', () => (y.destroy(), c.pairs.delete(pair)))
      }
    })
    await new Promise((done) => c.server.listen(0, '127.0.0.1', done))
    c.port = c.server.address().port
    return c
  }
  cut() {
    for (const [a, b] of this.pairs) {
      a.resetAndDestroy()
      b.destroy()
    }
  }
  stop() {
    this.cut()
    this.server.close()
  }
}

// Page is a page of a browser, with all that it complained about.
export async function openPage(browser, port, options = {}) {
  const context = await browser.newContext({ viewport: options.viewport ?? { width: 1280, height: 800 }, colorScheme: options.colorScheme ?? 'dark', deviceScaleFactor: options.scale, hasTouch: options.touch, isMobile: options.touch, ...(inFirefox ? {} : { permissions: ['clipboard-read', 'clipboard-write'] }) })
  context.setDefaultTimeout(patience)
  const page = await context.newPage()
  page.complaints = []
  // Patterns of complaints that the test causes. These: a view was left while it connected.
  page.expected = [/WebSocket is closed before the connection is established|ws:\S+ was interrupted while the page was loading|Firefox can’t establish a connection/]
  page.on('console', (m) => ['error', 'warning'].includes(m.type()) && page.complaints.push(`${m.type()}: ${m.text()} ${m.location().url}`))
  page.on('pageerror', (e) => page.complaints.push(`exception: ${e.message}`))
  page.on('request', (r) => !r.url().startsWith(`http://127.0.0.1:${port}/`) && !(options.provider && r.url().startsWith(`${options.provider}/authorize?`)) && !/^(ws:\/\/127\.0\.0\.1|blob:)/.test(r.url()) && page.complaints.push(`request to ${r.url()}`))
  await page.addInitScript((theme) => {
    if (location.protocol !== 'http:') return
    localStorage.setItem('troupe-test', '1')
    if (theme) localStorage.theme ??= theme
    addEventListener('securitypolicyviolation', (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`))
  }, inFirefox && (options.colorScheme ?? 'dark')) // Firefox takes no colour scheme from Playwright
  page.base = `http://127.0.0.1:${port}/console/`
  if (options.login !== false) {
    await page.goto(page.base)
    await page.getByLabel('Token').fill(token)
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByText('● live').waitFor()
  }
  return page
}

export function complaints(page) {
  return page.complaints.filter((c) => !page.expected.some((e) => e.test(c)))
}

// violations are what axe finds on a page. In Firefox, where axe takes seconds for each page, they are not looked for: most is in the document.
export async function violations(page) {
  if (inFirefox) return []
  await page.evaluate(axe)
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }))
  return found.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(' | ')}`)
}

// inFirefox: the tests run in Firefox as Mozilla builds it, driven by WebDriver BiDi, or else in Chromium.
export const inFirefox = process.env.BROWSER === 'firefox'

// own is a directory for what the browser writes, beside its profile.
const own = mkdtempSync(join(tmpdir(), 'console-browser-'))
process.on('exit', () => rmSync(own, { recursive: true, force: true }))

export function launch() {
  const options = { timeout: patience, downloadsPath: join(own, 'downloads'), env: { ...process.env, HOME: own } }
  if (!inFirefox) return chromium.launch({ ...options, executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] })
  return firefox.launch({ ...options, channel: 'moz-firefox', executablePath: process.env.FIREFOX ?? '/usr/bin/firefox-esr', firefoxUserPrefs: { 'dom.events.testing.asyncClipboard': true } })
}

// download returns the content of the file that a page downloads when act is done. Playwright loses this event of Firefox.
export async function download(page, name, act) {
  if (!inFirefox) return readFileSync(await (await Promise.all([page.waitForEvent('download'), act()]))[0].path())
  await act()
  return until(`the download ${name}`, () => readdirSync(join(own, 'downloads')).every((f) => !f.endsWith('.part')) && readFileSync(join(own, 'downloads', name)))
}

// screenText is the text of the terminal in sight, a line for each row.
export const screenText = (page) => page.evaluate(() => {
  const b = globalThis.terminal.buffer.active
  return Array.from({ length: globalThis.terminal.rows }, (_, i) => b.getLine(b.baseY + i)?.translateToString(true) ?? '')
})
