// The page in a real browser, against a real server: what people do, and what may go wrong. TROUPE is the binary to test.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, afterEach, before, test } from 'node:test'
import headless from '@xterm/headless'
import { Cutter, Server, complaints, download, inFirefox, launch, openPage, provider, screenText, token, until, violations } from './harness.mjs'

let server, browser
const pages = []
const open = async (options = {}) => {
  const page = await openPage(browser, options.port ?? server.port, options)
  pages.push(page)
  return page
}
const run = (name, ...args) => server.troupe('run', '--detach', '--name', name, ...args)
const row = (page, name) => page.locator('.row.process', { has: page.locator('.c-process bdi', { hasText: new RegExp(`^${name}$`) }) })
const visit = async (page, name, tab) => {
  await page.goto(`${page.base}#/`)
  await row(page, name).locator('a').click()
  if (tab) await page.getByRole('link', { name: tab }).click()
}
const shows = (page, text) => until(`the terminal shows ${text}`, async () => (await screenText(page)).some((l) => l.includes(text)))
const terminal = async (page, name) => {
  await visit(page, name)
  await page.locator('.xterm-screen').waitFor()
  await page.waitForFunction(() => globalThis.terminal && document.querySelector('.terminal small').textContent)
}

before(async () => {
  server = await Server.start(process.env.TROUPE)
  browser = await launch()
})
after(async () => {
  await browser?.close()
  await server?.stop()
})
// Whatever a test does, the page asks no other host, breaks no rule of the policy, and throws nothing.
afterEach(async () => {
  for (const page of pages.splice(0)) {
    const all = complaints(page)
    await page.context().close()
    assert.deepEqual(all, [])
  }
})

// anyBrowser is for a test whose subject is the server and the script of the page: one browser is enough.
const anyBrowser = { skip: inFirefox && 'Chromium runs it' }

test('login and logout', async () => {
  const page = await open({ login: false })
  page.expected.push(/401/)
  await page.goto(page.base)
  await page.getByLabel('Token').fill('wrong')
  await page.keyboard.press('Enter')
  await page.getByText('the server does not know this token').waitFor()
  await page.getByLabel('Token').fill(token)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByText('● live').waitFor()
  await page.reload()
  await page.getByText('● live').waitFor()
  await page.getByRole('button', { name: 'Log out' }).click()
  await page.getByRole('heading', { name: 'Log in' }).waitFor()
  assert.equal(await page.getByText('expired').count(), 0)
  assert.equal(await page.evaluate(() => document.cookie), '')
})

test('a server that does not answer at first: no word of it stays', async () => {
  const page = await open({ login: false })
  page.expected.push(/503/)
  await page.route('**/console/me', (r) => r.fulfill({ status: 503 }), { times: 1 })
  await page.goto(page.base)
  await page.getByText('The server does not answer').waitFor()
  await page.getByRole('heading', { name: 'Log in' }).waitFor()
  assert.equal(await page.getByText('does not answer').count(), 0)
})

test('the tree: changes are pushed, and say why', async () => {
  const page = await open()
  await page.waitForFunction(() => document.querySelector('.rows'))
  const dir = join(server.dir, 'tree')
  mkdirSync(dir)
  run('waits', '--', 'sh', '-c', `while ! test -e ${dir}/go; do sleep 0.05; done; exit 7`)
  await row(page, 'waits').getByText('running').waitFor()
  writeFileSync(join(dir, 'go'), '')
  await row(page, 'waits').getByText('failed').waitFor()
  await row(page, 'waits').getByText('exit code 7').waitFor()
  run('stopped', '--', 'sleep', '1000')
  await row(page, 'stopped').waitFor()
  server.troupe('signal', 'stopped', 'STOP')
  await row(page, 'stopped').getByText('paused by a signal').waitFor()
  // Filter and keyboard alone.
  await page.keyboard.press('/')
  await page.keyboard.type('paused by')
  await until('the filter', async () => (await page.locator('.row.process').count()) === 1)
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'stopped' }).waitFor()
  await page.getByText('Choose “Continue” to let it go on').waitFor()
  await page.getByText('It takes no input').waitFor()
  await page.getByRole('button', { name: 'Continue' }).click()
  await until('it goes on', async () => (await page.getByText('paused by a signal').count()) === 0)
  await page.getByLabel('Send a signal').selectOption('winch')
  await page.getByText('sent winch').waitFor()
  // What destroys is confirmed; Cancel is the first answer.
  await page.getByRole('button', { name: 'Stop…' }).click()
  await page.getByRole('button', { name: 'Cancel' }).waitFor()
  await page.keyboard.press('Enter')
  await until('the dialog is gone', async () => (await page.locator('dialog').count()) === 0)
  await page.getByRole('button', { name: 'Stop…' }).click()
  await page.getByRole('button', { name: 'Stop', exact: true }).click()
  await page.locator('.top .state', { hasText: 'ended' }).waitFor()
})

test('a terminal: the screen, typing, paste, size, search, links', async () => {
  run('shell', '--tty', '--', 'bash', '--norc')
  const page = await open()
  await terminal(page, 'shell')
  await page.keyboard.type("printf '\\e[38;2;255;100;0mcoloured\\e[0m\\n'; seq 1 100; echo see https://example.org/x ; PS1='$ '\n")
  await shows(page, 'see https://example.org/x')
  await page.reload() // it begins with the screen
  await terminal(page, 'shell')
  await shows(page, 'see https://example.org/x')
  const scrollback = () => page.evaluate(() => Array.from({ length: terminal.buffer.active.length }, (_, i) => terminal.buffer.active.getLine(i).translateToString(true)))
  await until('the scrollback', async () => { const all = await scrollback(); return all.includes('coloured') && all.includes('42') })
  await page.evaluate(() => terminal.scrollToTop())
  await until('its colour', async () => (await page.locator('.xterm-rows span', { hasText: /^coloured$/ }).last().evaluate((e) => getComputedStyle(e).color)) === 'rgb(255, 100, 0)')
  await page.keyboard.type("echo rea''dy; cat\n")
  await shows(page, 'ready')
  await page.evaluate(() => navigator.clipboard.writeText('pasted α\nline 2'))
  await page.keyboard.press('Control+v')
  await shows(page, 'pasted α')
  await page.keyboard.press('Control+c')
  await page.getByLabel('Fit the program').check()
  await until('another size', async () => !/80 × 24/.test(await page.locator('.terminal .bar small').first().textContent()))
  await page.locator('.xterm').click()
  await page.keyboard.type('stty size\n')
  const size = await page.evaluate(() => `${terminal.rows} ${terminal.cols}`)
  await shows(page, size)
  const height = () => page.locator('.frame').evaluate((e) => e.clientHeight)
  const before = await height()
  await page.keyboard.press('Control+Shift+F')
  await page.getByLabel('Search in the terminal').fill('https://example')
  assert.equal(await height(), before) // otherwise the program gets another size, and the selection is lost
  await page.keyboard.press('Enter')
  await until('the match is selected', () => page.evaluate(() => terminal.getSelection() === 'https://example'))
  // An empty search leaves the keys to the terminal, although the page is drawn each second.
  await page.getByLabel('Search in the terminal').fill('')
  await page.locator('.xterm').click()
  await page.keyboard.type('echo typed by-$((2+3))\n', { delay: 100 })
  await shows(page, 'typed by-5')
  await page.keyboard.press('Control+Shift+F')
  await page.getByLabel('Search in the terminal').fill('https://example')
  await page.keyboard.press('Enter')
  await until('the match is selected', () => page.evaluate(() => terminal.getSelection() === 'https://example'))
  await page.keyboard.press('Escape')
  await page.keyboard.press('Control+c') // copies
  await until('the copy', () => page.evaluate(async () => (await navigator.clipboard.readText()) === 'https://example'))
  await page.keyboard.press('Control+Shift+X')
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'BUTTON')
})

test('a phone has the keys that its keyboard lacks', { skip: inFirefox && 'Playwright has no touch screen in Firefox' }, async () => {
  run('keys', '--tty', '--', 'bash', '--norc')
  const page = await open({ viewport: { width: 360, height: 740 }, touch: true })
  await terminal(page, 'keys')
  await page.keyboard.type("echo bef''ore; cat -v\n")
  await shows(page, 'before')
  const key = (name) => page.getByRole('toolbar').getByRole('button', { name, exact: true }).tap()
  await key('Escape')
  await key('Left')
  await key('Ctrl')
  await page.keyboard.type('g')
  await page.keyboard.press('Enter')
  await shows(page, '^[^[[D^G')
  await key('Ctrl')
  await page.keyboard.type('c')
  await page.keyboard.type("echo af''ter\n")
  await shows(page, 'after')
  await key('Up')
  await page.keyboard.press('Enter')
  await until('the line before, again', async () => (await screenText(page)).filter((l) => l === 'after').length === 2)
})

test('a terminal that fits the window comes to rest', async () => {
  for (const [width, height] of [[1000, 700], [360, 740]]) {
    run(`fits-${width}`, '--tty', '--', 'bash', '--norc')
    const page = await open({ viewport: { width, height } })
    await terminal(page, `fits-${width}`)
    await page.evaluate(() => { globalThis.sizes = []; terminal.onResize((s) => sizes.push(`${s.cols}×${s.rows}`)) })
    await page.getByLabel('Fit the program').check()
    await until('another size', () => page.evaluate(() => sizes.length > 0))
    await page.locator('.xterm').click()
    for (let i = 1; i <= 10; i++) {
      await page.keyboard.type(`echo ${width}-$((${i}+0))\n`)
      await shows(page, `${width}-${i}`)
    }
    const sizes = await page.evaluate(() => sizes)
    assert.ok(sizes.length < 4, `at ${width} × ${height} it has had the sizes ${sizes}`)
  }
})

test('many cuts: the terminal is that of a reference without any', async () => {
  const cutter = await Cutter.start(server.port)
  const stop = join(server.dir, 'stop')
  run('counter', '--tty', '--', 'sh', '-c', `i=0; while :; do i=$((i+1)); printf '\\033[3%dm%d\\033[m αβγ \\033[s\\033[1;60H%06d\\033[u\\r\\n' $((i%8)) $i $i; [ $((i%8)) = 0 ] && { test -e ${stop} && break; sleep 0.02; }; done; printf 'last %d' $i; sleep 1000`)
  const page = await open({ port: cutter.port })
  page.expected.push(/WebSocket|ERR_|401/)
  await terminal(page, 'counter')
  for (let cuts = 0; cuts < (inFirefox ? 40 : 100); cuts++) {
    await until('a connection', () => cutter.pairs.size > 0)
    await new Promise((done) => setTimeout(done, (cuts % 7) * 10))
    cutter.cut()
  }
  await until('more than 500 lines', async () => (await screenText(page)).some((l) => Number.parseInt(l) > 500))
  writeFileSync(stop, '')
  await shows(page, 'last ')
  const last = Number(/last (\d+)/.exec((await screenText(page)).join(' '))[1])
  assert.ok(last > 500)
  const want = new headless.Terminal({ rows: 24, cols: 80, allowProposedApi: true, scrollback: 10_000 })
  let text = ''
  for (let i = 1; i <= last; i++) text += `\x1b[3${i % 8}m${i}\x1b[m αβγ \x1b[s\x1b[1;60H${String(i).padStart(6, '0')}\x1b[u\r\n`
  await new Promise((done) => want.write(`${text}last ${last}`, done))
  const cells = (t) => {
    const b = t.buffer.active
    const rows = []
    for (let y = 0; y < t.rows; y++) {
      const line = b.getLine(b.baseY + y)
      rows.push(line.translateToString(true) + ' ' + Array.from({ length: 80 }, (_, x) => line.getCell(x).getFgColor()).join(''))
    }
    return { rows, cursor: [b.cursorX, b.cursorY] }
  }
  await until('the same screen', async () => {
    const got = await page.evaluate(`(${cells})(terminal)`)
    return JSON.stringify(got) === JSON.stringify(cells(want))
  }).catch(async () => assert.deepEqual(await page.evaluate(`(${cells})(terminal)`), cells(want)))
  // A longer loss is told, with its length; what is typed meanwhile arrives once.
  cutter.refusing = true
  cutter.cut()
  await page.getByText(/^Link lost for/).waitFor()
  cutter.refusing = false
  await until('the link is back', async () => (await page.getByText(/^Link lost for/).count()) === 0)
  // So is the tree.
  await page.goto(`${page.base}#/`)
  run('after-cuts', '--', 'sleep', '1000')
  await row(page, 'after-cuts').waitFor()
  cutter.stop()
})

test('vim, driven from the page', async () => {
  const file = join(server.dir, 'vim.txt')
  run('vim', '--tty', '--', 'vim', '-u', 'NONE', '-n', file)
  const page = await open()
  await terminal(page, 'vim')
  await shows(page, '~')
  await page.keyboard.type('ihello from the page')
  await page.keyboard.press('Escape')
  await page.keyboard.type('yyp')
  await until('two lines', async () => (await screenText(page)).filter((l) => l === 'hello from the page').length === 2)
  await page.reload()
  await terminal(page, 'vim')
  await until('two lines', async () => (await screenText(page)).filter((l) => l === 'hello from the page').length === 2)
  await page.keyboard.type(':wq\n')
  await page.locator('.top .state', { hasText: 'ended' }).waitFor()
  assert.equal(readFileSync(file, 'utf8'), 'hello from the page\nhello from the page\n')
})

test('two people in one terminal', anyBrowser, async () => {
  run('both', '--tty', '--', 'bash', '--norc')
  const [a, b] = [await open(), await open()]
  await terminal(a, 'both')
  await terminal(b, 'both')
  await a.keyboard.type('echo from-$((1+1))\n')
  await shows(b, 'from-2')
  await b.keyboard.type('stty rows 30 cols 100; echo from-$((2+2))\n')
  await shows(a, 'from-4')
  await a.getByLabel('Fit the program').check()
  await until('the other terminal has the size, too', async () => {
    await b.keyboard.type(' \n') // output, after which a page looks
    const size = (p) => p.evaluate(() => `${terminal.rows}×${terminal.cols}`)
    return (await size(a)) !== '24×80' && (await size(a)) === (await size(b))
  })
  await until('the same screen', async () => JSON.stringify(await screenText(a)) === JSON.stringify(await screenText(b)))
  // The last window to fit the program to itself sets the size.
  await b.setViewportSize({ width: 900, height: 640 })
  await b.getByLabel('Fit the program').check()
  await until('the first window has given in', async () => {
    await b.locator('.xterm').click()
    await b.keyboard.type(' \n')
    return !(await a.getByLabel('Fit the program').isChecked())
  })
  await a.getByText('changed elsewhere').waitFor()
  assert.ok(await b.getByLabel('Fit the program').isChecked())
})

test('a flood: the page stays usable, and ends with the screen of the server', async () => {
  run('flood', '--tty', '--', 'bash', '--norc')
  const page = await open()
  await terminal(page, 'flood')
  await page.getByRole('button', { name: 'Stop…' }).waitFor()
  await page.keyboard.type("yes 'a line of the flood' & sleep 1; kill %1; echo the e''nd\n")
  await shows(page, 'a line of the flood')
  const began = Date.now()
  await page.getByRole('link', { name: 'Details' }).click()
  await page.getByText('Watched by').waitFor()
  await page.getByRole('link', { name: 'Terminal' }).click()
  assert.ok(Date.now() - began < 60_000) // it would take minutes if all of the flood were drawn first
  await shows(page, 'the end')
  await until('the screen of the server', async () => (await screenText(page)).join('\n').trimEnd() === server.troupe('screen', 'flood').trimEnd())
})

test('shares: a guest sees one session, watches or types, until the end', anyBrowser, async () => {
  run('shared', '--tty', '--', 'bash', '--norc')
  const page = await open()
  await visit(page, 'shared')
  await page.getByRole('link', { name: 'Share…' }).click()
  await page.getByLabel('Name').fill('ann')
  await page.getByRole('button', { name: 'Make a link' }).click()
  const link = await page.getByLabel('The link').inputValue()
  const guest = await open({ login: false })
  guest.expected.push(/401|WebSocket/)
  await guest.goto(link)
  await guest.getByText('● live').waitFor()
  assert.ok(!guest.url().includes('share'))
  await row(guest, 'shared').waitFor()
  assert.equal(await guest.locator('.row.process').count(), 1)
  assert.equal(await guest.getByRole('link', { name: 'Files' }).count(), 0)
  await terminal(guest, 'shared')
  await guest.getByText('read only').waitFor()
  assert.equal(await guest.getByRole('button', { name: 'Stop…' }).count(), 0)
  await page.getByRole('button', { name: 'Revoke ann' }).click()
  await guest.getByText('The share has ended').waitFor()
  // One that types, and expires.
  let typist, share
  // On a slow machine a share of 6 s ends before anything is typed: then a longer share is tried.
  for (let seconds = 6, typed = false; !typed; seconds *= 4) {
    assert.ok(seconds < 100, 'no share has lasted until something was typed')
    const page = await open({ login: false })
    page.expected.push(/401|WebSocket/)
    const { token } = JSON.parse(server.troupe('sessions', 'share', 'shared', '--type', '--for', `${seconds}s`, '--json'))
    const types = async () => {
      await page.goto(`${page.base}#share=${token}`)
      await page.getByText('● live').waitFor()
      await terminal(page, 'shared')
      await page.keyboard.type(`echo typed-$((${seconds}+0))\n`)
      await shows(page, `typed-${seconds}`)
      return true
    }
    typed = await Promise.race([types(), page.getByText(/This link cannot be used|The share has ended/).waitFor().then(() => false)])
    typist = page
    share = token
  }
  await typist.getByText('The share has ended').waitFor()
  await typist.goto('about:blank')
  await typist.goto(`${typist.base}#share=${share}`)
  await typist.getByText('This link cannot be used').waitFor()
})

test('logs: times, streams, search, all of it', async () => {
  run('logs', '--', 'sh', '-c', 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); echo line $i of a log that is long; done; echo wrong >&2; printf "\\033[31mred \\342\\200\\256rtl\\n"; sleep 1000')
  const page = await open()
  await visit(page, 'logs')
  await page.locator('.line', { hasText: 'wrong' }).waitFor()
  await page.locator('.line.stderr', { hasText: 'wrong' }).waitFor()
  await page.locator('.line', { hasText: 'red \\u202ertl' }).waitFor()
  assert.match(await page.locator('.line.stderr time').textContent(), /^\d\d:\d\d:\d\d\.\d{3}$/)
  await page.getByLabel('Stream').selectOption('stderr')
  await until('one line', async () => (await page.locator('.line').count()) === 1)
  await page.getByLabel('Stream').selectOption('')
  await until('all of the log', async () => {
    const older = page.getByRole('button', { name: 'Older' })
    if (await older.isEnabled()) await older.click()
    return /^30,00\d of/.test(await page.locator('.log .bar small').textContent())
  })
  await page.getByLabel('Search in the log').fill('line 17 of')
  await until('the line', async () => (await page.locator('.line').count()) === 1)
})

test('a program that waits for its owner goes on when a person reads its output', anyBrowser, async () => {
  run('full', '--retention', 'block', '--', 'sh', '-c', 'yes | head -c 4000000; echo; echo went on; sleep 1000')
  const page = await open()
  await row(page, 'full').getByText('output full').waitFor()
  await visit(page, 'full')
  await page.getByText('its owner does not read it').waitFor()
  await page.getByRole('button', { name: 'Read its output' }).click()
  await page.locator('.line', { hasText: 'went on' }).waitFor()
  await page.getByRole('link', { name: 'Details' }).click()
  await page.getByText('Watched by').waitFor()
  await page.getByText('This page owns the session now').waitFor()
})

test('files: list, look, download, upload', async () => {
  const dir = join(server.dir, 'files')
  mkdirSync(dir)
  writeFileSync(join(dir, 'text.txt'), 'hello\n\u202eevil\n')
  writeFileSync(join(dir, 'bytes.bin'), Buffer.from([0, 1, 2, 255, 254]))
  writeFileSync(join(dir, 'dot.png'), Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64'))
  const large = Buffer.alloc(3 << 20, 'abcdefg')
  writeFileSync(join(dir, 'large.bin'), large)
  const page = await open()
  await page.goto(`${page.base}#/files/${encodeURIComponent(`file://${dir}`)}`)
  await page.getByRole('button', { name: 'text.txt', exact: true }).click()
  await page.getByText('\\u202eevil').waitFor()
  await page.getByRole('button', { name: 'bytes.bin', exact: true }).click()
  await page.getByText('00000000  00 01 02 ff fe').waitFor()
  await page.getByRole('button', { name: 'dot.png', exact: true }).click()
  await page.locator('canvas:visible').waitFor()
  assert.ok((await download(page, 'large.bin', () => page.getByRole('button', { name: 'Download large.bin' }).click())).equals(large))
  await page.setInputFiles('input[type=file]', { name: 'up.bin', mimeType: 'application/octet-stream', buffer: large })
  await page.getByText('up.bin is there').waitFor()
  assert.ok(readFileSync(join(dir, 'up.bin')).equals(large))
  await page.setInputFiles('input[type=file]', { name: 'text.txt', mimeType: 'text/plain', buffer: Buffer.from('new') })
  await page.getByRole('button', { name: 'Replace' }).click()
  await page.getByText('text.txt is there').waitFor()
  assert.equal(readFileSync(join(dir, 'text.txt'), 'utf8'), 'new')
})

test('files: a file that comes late does not take the place of the file that is looked at', async () => {
  const dir = join(server.dir, 'late')
  mkdirSync(dir)
  writeFileSync(join(dir, 'late.txt'), 'too late')
  writeFileSync(join(dir, 'now.txt'), 'in time')
  const page = await open()
  let pass // what opens late.txt waits for it
  let closed = false
  await page.routeWebSocket(/./, (ws) => {
    const real = ws.connectToServer()
    let handle
    ws.onMessage((text) => {
      const { method, params } = JSON.parse(text)
      if (method === 'fs/close' && params.handleId === handle) closed = true
      if (method !== 'fs/open' || !params.path.endsWith('late.txt')) return real.send(text)
      handle = params.handleId
      pass = () => real.send(text)
    })
  })
  await page.goto(`${page.base}#/files/${encodeURIComponent(`file://${dir}`)}`)
  await page.reload()
  await page.getByRole('button', { name: 'late.txt', exact: true }).click()
  await until('late.txt is being opened', () => pass)
  await page.getByRole('button', { name: 'now.txt', exact: true }).click()
  await page.getByText('in time').waitFor()
  pass()
  await until('late.txt was read', () => closed)
  await download(page, 'now.txt', () => page.getByRole('button', { name: 'Download now.txt' }).click()) // what was read is drawn by then
  assert.equal(await page.locator('.look pre').textContent(), 'in time')
})

test('start a program with options; its name cannot lie', anyBrowser, async () => {
  const page = await open()
  await page.getByRole('link', { name: 'Start' }).click()
  await page.getByLabel('Shell line').fill('echo "in $PWD with $FOO"; cat')
  await page.locator('[name=name]').fill('\u202egnp.exe')
  await page.getByRole('textbox', { name: 'Directory' }).fill(server.dir)
  await page.getByLabel('Environment').fill('FOO=bar baz')
  await page.getByText('More: restarts').click()
  await page.getByLabel('Run it again').selectOption('transient')
  await page.getByLabel('Sandbox').selectOption('')
  await page.getByRole('button', { name: 'Start', exact: true }).click()
  await page.getByRole('heading', { name: '\\u202egnp.exe' }).waitFor()
  await page.waitForFunction(() => globalThis.terminal)
  await shows(page, `in ${server.dir} with bar baz`)
  await page.getByRole('button', { name: 'Restart…' }).click()
  await page.getByRole('button', { name: 'Restart', exact: true }).click()
  await page.getByRole('link', { name: 'Details' }).click()
  await page.getByText('2, after 1 restarts').waitFor()
  // What the server refuses is said, with its advice.
  await page.goto(`${page.base}#/start`)
  await page.getByLabel('How').selectOption('argv')
  await page.getByLabel('Program and arguments').fill('/no/such/program\n--flag')
  await page.getByRole('button', { name: 'Start', exact: true }).click()
  await page.getByRole('alert').getByText('/no/such/program').waitFor()
})

const report = { version: 1, began: '2026-01-01T00:00:00Z', took: 1e9, plan: { sessions: 1, processes: 1, encoding: 'json', servers: [] }, counts: { starts: 1 }, latency: { echo: { count: 1, mean: 1, p50: 1, p90: 1, p99: 1, 'p99.9': 1, max: 1 } }, slos: [{ slo: 'echo.p99<1ns', met: false, got: 2, unit: 'ns' }], problems: ['it was slow'] }

// everyPage calls check on each page. Axe finds nothing, and no page is wider than the window.
async function everyPage(options, check = () => {}) {
  const page = await open(options)
  const look = async (name) => {
    assert.deepEqual(await violations(page), [], `${name}, ${options.colorScheme}`)
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than ${options.viewport.width}`)
    await check(page, name)
  }
  const [plain, tty] = [`plain-${options.viewport.width}`, `tty-${options.viewport.width}`]
  run(plain, '--', 'sh', '-c', 'echo out; echo err >&2; exit 1')
  run(tty, '--tty', '--', 'sh', '-c', 'echo screen; sleep 1000')
  await page.getByLabel('Filter processes').fill(`-${options.viewport.width}`) // only rows in sight are in the document
  await row(page, plain).getByText('failed').waitFor()
  await look('tree')
  await visit(page, plain)
  await page.locator('.line').first().waitFor()
  await look('log')
  await page.getByRole('link', { name: 'Details' }).click()
  await look('details')
  await terminal(page, tty)
  await shows(page, 'screen')
  await look('terminal')
  await page.getByRole('button', { name: 'Stop…' }).click()
  await look('confirm')
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('link', { name: 'Share…' }).click()
  await page.getByRole('button', { name: 'Make a link' }).click()
  await page.getByLabel('The link').waitFor()
  await look('session')
  await page.goto(`${page.base}#/start`)
  await page.getByText('More: restarts').click()
  await look('start')
  await page.goto(`${page.base}#/files/${encodeURIComponent(`file://${server.dir}`)}`)
  await page.getByRole('button', { name: 'tokens', exact: true }).click()
  await page.getByText('alice').waitFor()
  await look('files')
  await page.goto(`${page.base}#/report`)
  await page.setInputFiles('input[type=file]', { name: 'r.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(report)) })
  await page.getByText('it was slow').waitFor()
  await look('report')
  await page.getByRole('button', { name: 'Log out' }).click()
  await page.getByRole('heading', { name: 'Log in' }).waitFor()
  await look('login')
}

test('every page: nothing for axe to find, in both themes and on a phone', anyBrowser, async () => {
  await everyPage({ colorScheme: 'dark', viewport: { width: 1280, height: 740 } })
  await everyPage({ colorScheme: 'light', viewport: { width: 360, height: 740 } })
})

// A window of 1280 × 720 has 640 × 360 at 200 %.
test('every page at 200 %: Tab reaches each control, and shows it', async () => {
  await everyPage({ colorScheme: 'light', viewport: { width: 640, height: 360 }, scale: 2 }, async (page, name) => {
    // In a terminal, Tab is for the program.
    if (name === 'terminal') return page.keyboard.press('Control+Shift+X')
    const count = await page.evaluate(() => {
      const root = document.querySelector('dialog[open]') ?? document
      const all = [...root.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')]
      globalThis.controls = new Set(all.filter((e) => e.tabIndex >= 0 && !e.disabled && e.checkVisibility()))
      return controls.size
    })
    const hidden = []
    for (let i = 0; i < count + 20 && (await page.evaluate(() => controls.size)) > 0; i++) {
      await page.keyboard.press('Tab')
      hidden.push(...(await page.evaluate(async () => {
        await new Promise((done) => requestAnimationFrame(done))
        const e = document.activeElement
        controls.delete(e)
        const shown = e.closest('label.button') ?? e // a file is chosen by its label
        const r = shown.getBoundingClientRect()
        // Past the last control, Firefox gives the focus to its own buttons for a while, and shows no focus in the page.
        return !document.hasFocus() || e === document.body || (r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth) ? [] : [e.outerHTML.slice(0, 200)]
      })))
    }
    assert.deepEqual(await page.evaluate(() => [...controls].map((e) => e.outerHTML.slice(0, 200))), [], `${name}: Tab does not reach`)
    assert.deepEqual(hidden, [], `${name}: has the focus, and is not in sight`)
  })
})

test('groups and probes: their state, restarts and reasons change as they do', anyBrowser, async () => {
  const dir = join(server.dir, 'shop')
  mkdirSync(dir)
  writeFileSync(join(dir, 'troupe.yaml'), `name: shop
processes:
  web:
    working_dir: ${dir}
    command: 'while ! test -e fail; do sleep 0.05; done; rm fail; exit 3'
    restart: {policy: on_failure, backoff: 1ms, max_restarts: 2}
  db:
    working_dir: ${dir}
    command: sleep 1000
    restart: {policy: on_failure, backoff: 10m}
    liveness_probe: {exec: '! rm sick', period: 200ms, failure_threshold: 1}
  cache:
    working_dir: ${dir}
    command: sleep 1000
    readiness_probe: {file: warm, period: 100ms, start_timeout: 10m}
`)
  const page = await open()
  server.troupe('up', '--detach', '--file', join(dir, 'troupe.yaml'))
  const restarts = (name) => row(page, name).locator('.c-restarts')
  await row(page, 'web').getByText('running').waitFor()
  const group = (state) => page.locator('.row.group .c-state', { hasText: state }).waitFor()
  await group('starting')
  await row(page, 'cache').getByText('not ready yet').waitFor()
  writeFileSync(join(dir, 'warm'), '')
  await until('cache is ready', async () => (await row(page, 'cache').getByText('not ready yet').count()) === 0)
  await group('ready')
  writeFileSync(join(dir, 'sick'), '')
  await row(page, 'db').getByText(/restarts in .*its probe failed 1 times: exit code 1/).waitFor()
  for (const n of ['1', '2']) {
    writeFileSync(join(dir, 'fail'), '')
    await until(`restart ${n}`, async () => (await restarts('web').textContent()) === n)
  }
  writeFileSync(join(dir, 'fail'), '')
  await row(page, 'web').getByText('failed').waitFor()
  await row(page, 'web').getByText('exit code 3').waitFor()
  server.troupe('down', '--file', join(dir, 'troupe.yaml'))
  await until('they are gone', async () => (await row(page, 'db').count()) === 0)
})

test('a cluster: the tree has the sessions of all nodes', anyBrowser, async () => {
  const certs = join(server.dir, 'certs')
  server.troupe('node-certs', certs, 'a', 'b')
  const roles = join(server.dir, 'roles')
  writeFileSync(roles, 'alice operator\n', { mode: 0o600 })
  const addresses = [0, 1].map(() => `127.${[0, 0, 0].map(() => 1 + Math.floor(Math.random() * 250)).join('.')}:7767`) // nobody else has one of these
  const nodes = await Promise.all(['a', 'b'].map((name, i) => Server.start(process.env.TROUPE, '--auth-roles-file', roles, '--cluster', `static:${addresses}`, '--node', name, '--advertise', addresses[i],
    '--cluster-cert', join(certs, `${name}.pem`), '--cluster-key', join(certs, `${name}-key.pem`), '--cluster-ca', join(certs, 'ca.pem'))))
  try {
    for (const [i, name] of ['here', 'there'].entries()) nodes[i].troupe('run', '--detach', '--node', 'ab'[i], '--name', name, '--', 'sleep', '1000')
    const page = await open({ port: nodes[0].port })
    await page.getByText('● live, 2 of 2 nodes').waitFor()
    await row(page, 'here').waitFor()
    await row(page, 'there').waitFor()
    nodes[1].troupe('run', '--detach', '--node', 'b', '--name', 'later', '--', 'sleep', '1000')
    await row(page, 'later').waitFor()
    await row(page, 'there').locator('a').click()
    await page.getByRole('button', { name: 'Stop…' }).click()
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await page.locator('.top .state', { hasText: 'ended' }).waitFor()
    await page.goto(`${page.base}#/`)
    nodes[0].troupe('drain', 'b', '--for', '1h')
    await page.getByText('▲ live, 1 of 2 nodes').waitFor() // its own session would keep b
    assert.equal(await row(page, 'later').count(), 0)
    nodes[0].troupe('drain', 'b', '--cancel')
    await row(page, 'later').waitFor()
    await nodes[1].stop()
    await until('no session of b is there', async () => (await row(page, 'later').count()) === 0)
    await row(page, 'here').waitFor()
  } finally {
    await Promise.all(nodes.map((n) => n.stop()))
  }
})

test('a login by a provider: there, back, and what goes wrong in words', async () => {
  const at = await provider()
  const secret = join(server.dir, 'client')
  writeFileSync(secret, 'the-secret-of-the-client', { mode: 0o600 })
  const own = await Server.start(server.binary, '--console-oidc-issuer', at.url, '--console-oidc-client-id', 'troupe-test', '--console-oidc-client-secret-file', secret, '--console-oidc-allow', 'groups=troupe')
  try {
    const page = await open({ port: own.port, login: false, provider: at.url })
    page.expected.push(/401/)
    await page.goto(page.base)
    const button = page.getByRole('link', { name: 'Log in with your organisation' })
    const refused = async (query, words) => {
      await page.goto(`${page.base}oidc/callback?${query}`)
      await page.getByText(words).waitFor()
      assert.deepEqual(await violations(page), [])
      await page.getByRole('link', { name: 'Back to the console' }).click()
      await button.waitFor()
    }
    // The person cancels, or comes back from a login that somebody else began. Each time, the browser has begun a login.
    for (const [answer, words] of [['error=access_denied', 'the provider refuses the login: "access_denied"'], ['code=x', 'begin again']]) {
      const begun = await page.context().request.get(`${page.base}oidc`, { maxRedirects: 0 })
      const state = new URL(begun.headers().location).searchParams.get('state')
      await refused(`${answer}&state=${answer === 'code=x' ? 'another' : state}`, words)
    }
    await button.click()
    await page.getByText('● live').waitFor()
    assert.equal(page.url(), page.base)
    await page.getByTitle('You are oidc:erin').waitFor()
    await page.getByRole('button', { name: 'Log out' }).click()
    await button.waitFor()
  } finally {
    await own.stop()
    at.stop()
  }
})
