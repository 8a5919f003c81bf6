import '@xterm/xterm/css/xterm.css'
import './xterm-style'
import { SearchAddon } from '@xterm/addon-search'
import { UnicodeGraphemesAddon } from '@xterm/addon-unicode-graphemes'
import { WebLinksAddon } from '@xterm/addon-web-links'
import { Terminal } from '@xterm/xterm'
import type { JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { follow, isGone } from './follow'
import { age, harmless } from './format'
import { Control, Keys } from './keys'
import type { Link } from './link'
import type { Process } from './store'
import { colour, colours, onTheme } from './theme'
import type { Screen } from './types'
import { Typing } from './typing'
import { Confirm, useStore, words } from './ui'

// The terminal of a process: the screen as it is, then its output from exactly that seq.

const normal = 14
const smallest = 7

// Queries of a program, such as "where is the cursor?", are answered by the page whose person has typed last, and never while old output is drawn.
const queries: { prefix?: string; intermediates?: string; final: string }[] = [
  { final: 'c' }, { prefix: '>', final: 'c' }, { prefix: '=', final: 'c' }, { final: 'n' }, { prefix: '?', final: 'n' }, { final: 't' },
  { intermediates: '$', final: 'p' }, { prefix: '?', intermediates: '$', final: 'p' }, { prefix: '>', final: 'q' },
]
const mine = 10_000

export class Drawn {
  term: Terminal
  control = new Control()
  size: { rows: number; cols: number } | undefined
  typedAt = 0
  resizing = 0 // the timer of a change of size
  private restoring = false

  constructor(readonly box: HTMLElement, readonly typing: Typing | undefined, readOnly: boolean, link: (uri: string) => void) {
    this.term = new Terminal({
      allowProposedApi: true, // of the addons
      disableStdin: readOnly,
      scrollback: 10_000,
      fontFamily: 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace',
      fontSize: normal,
      theme: colours(),
      cursorBlink: !matchMedia('(prefers-reduced-motion: reduce)').matches,
      minimumContrastRatio: 4.5,
      macOptionIsMeta: true,
      linkHandler: { activate: (_, uri) => link(uri), allowNonHttpProtocols: false },
    })
    const term = this.term
    term.loadAddon(new UnicodeGraphemesAddon())
    term.loadAddon(new WebLinksAddon((_, uri) => link(uri)))
    term.open(box)
    term.textarea?.setAttribute('aria-label', 'Terminal input. Control Shift X leaves the terminal.')
    for (const q of queries) term.parser.registerCsiHandler(q, (params) => !this.mayAnswer() && !(q.final === 't' && !asks(params)))
    for (const n of [4, 10, 11, 12]) term.parser.registerOscHandler(n, (data) => data.includes('?') && !this.mayAnswer())
    term.parser.registerDcsHandler({ intermediates: '$', final: 'q' }, () => !this.mayAnswer())
    term.onData((data) => typing?.type(this.control.of(data)))
    term.onBinary((data) => typing?.bytes(Uint8Array.from(data, (c) => c.charCodeAt(0))))
    term.onKey(() => (this.typedAt = Date.now()))
  }

  private mayAnswer(): boolean {
    return !this.restoring && Date.now() - this.typedAt < mine
  }

  // draw draws a screen, in place of all that was there.
  async draw(s: Screen): Promise<void> {
    const term = this.term
    this.restoring = true
    term.reset()
    if (term.rows !== s.rows || term.cols !== s.cols) term.resize(s.cols, s.rows)
    this.size = { rows: s.rows, cols: s.cols }
    await this.write(s.restore ?? new Uint8Array())
    this.restoring = false
  }

  write(data: Uint8Array): Promise<void> {
    return new Promise((done) => this.term.write(data, done))
  }
}

const sizeText = (s: { rows: number; cols: number }): string => `${s.cols} × ${s.rows}`

const asks = (params: (number | number[])[]): boolean => [11, 13, 14, 15, 16, 18, 19, 20, 21].includes(Number(params[0]))

export function TerminalView({ link, process, mayType }: { link: Link; process: Process; mayType: boolean }): JSX.Element {
  useStore()
  const info = process.info
  const box = useRef<HTMLDivElement>(null)
  const frame = useRef<HTMLDivElement>(null)
  const drawn = useRef<Drawn>(undefined)
  const fits = useRef<() => void>(() => {})
  const sizes = useRef(new Set<string>()) // the sizes that this window has given to the program, and the size before
  const [size, setSize] = useState('')
  const [title, setTitle] = useState('')
  const [note, setNote] = useState('')
  const [over, setOver] = useState('')
  const [own, setOwn] = useState(false)
  const [finding, setFinding] = useState(false)
  const [asked, setAsked] = useState('')
  const [reader, setReader] = useState(false)
  const [round, setRound] = useState(0) // the terminal is drawn anew: another run began after the end

  useEffect(() => {
    const typing = mayType ? new Typing(link, info.processId, setNote) : undefined
    const d = new Drawn(box.current!, typing, !mayType, setAsked)
    drawn.current = d
    if (import.meta.env.MODE === 'test' || localStorage.getItem('troupe-test')) (window as unknown as { terminal: Terminal }).terminal = d.term
    d.term.onTitleChange((t) => setTitle(t))
    d.term.attachCustomKeyEventHandler((e) => special(e, d))
    const untheme = onTheme(() => (d.term.options.theme = colours()))
    const sized = new ResizeObserver(() => fits.current())
    sized.observe(frame.current!)
    if (mayType) d.term.focus()
    return () => {
      untheme()
      sized.disconnect()
      clearTimeout(d.resizing)
      d.term.dispose()
    }
  }, [link, info.processId, mayType])

  useEffect(() => {
    const d = drawn.current!
    const abort = new AbortController()
    setOver('')
    const view = {
      screen: async (s: Screen) => {
        await d.draw(s)
        setSize(sizeText(s))
        // The last window to set the size has it: two that both fit the program to themselves would do it for ever.
        if (sizes.current.size && !sizes.current.has(sizeText(s))) {
          setOwn(false)
          setNote('The size was changed elsewhere: this window no longer sets it.')
        } else fits.current()
      },
      output: (data: Uint8Array) => d.write(data),
      caughtUp: () => checkSize(),
    }
    let looked = 0
    // Somebody else may have given the terminal another size: look, at most every 2 s, after output.
    const checkSize = async (): Promise<void> => {
      if (Date.now() - looked < 2000) return
      looked = Date.now()
      const s: Screen = await link.call('process/screen', { processId: info.processId }, { signal: abort.signal })
      if (d.size && (s.rows !== d.size.rows || s.cols !== d.size.cols)) setRound((n) => n + 1)
    }
    follow(link, info.processId, view, abort.signal).then(
      () => setOver('The program has ended.'),
      (e) => !abort.signal.aborted && setOver(isGone(e) ? 'The server has forgotten the process.' : words(e)),
    )
    return () => abort.abort(new Error('left'))
  }, [link, info.processId, mayType, round])

  // After its end a process may run again.
  const run = useRef(info.run)
  useEffect(() => {
    if (over && info.run !== run.current) setRound((n) => n + 1)
    run.current = info.run
  }, [info.run, over])

  fits.current = () => fit(drawn.current, frame.current, own && mayType, async (rows, cols) => {
    sizes.current.add(size).add(sizeText({ rows, cols }))
    await link.call('process/resize', { processId: info.processId, size: { rows, cols } })
    setRound((n) => n + 1)
  })
  useEffect(() => {
    sizes.current.clear()
    fits.current()
  }, [own])

  const lost = !link.state.up && !link.state.over
  const copy = (): void => void navigator.clipboard?.writeText(drawn.current?.term.getSelection() ?? '')
  return (
    <section class="terminal" aria-label="Terminal">
      <div class="bar">
        <span class="title">{title && <bdi>{harmless(title)}</bdi>}</span>
        <small>{size}{mayType ? '' : ' · read only'}</small>
        {mayType && (
          <label class="check">
            <input type="checkbox" checked={own} onChange={(e) => setOwn(e.currentTarget.checked)} /> Fit the program to this window
          </label>
        )}
        <button type="button" onClick={() => setFinding(!finding)} aria-expanded={finding}>Search</button>
        <button type="button" onClick={copy} title="Copy the selection. With a selection, Control C does it too">Copy</button>
        <label class="check" title="Output is read aloud, and lines can be read one by one">
          <input type="checkbox" checked={reader} onChange={(e) => (setReader(e.currentTarget.checked), (drawn.current!.term.options.screenReaderMode = e.currentTarget.checked))} /> Screen reader
        </label>
        {mayType && <small class="leave">Ctrl+Shift+X leaves the terminal</small>}
      </div>
      {lost && <p class="banner" role="status">Link lost for {age(Date.now() - link.state.lostAt)}: trying again.{mayType && ' What you type is kept, and sent then.'}{link.state.reason && ` (${harmless(link.state.reason)})`}</p>}
      {link.state.over && <p class="banner" role="alert">Disconnected: {harmless(link.state.reason)}</p>}
      {over && !link.state.over && <p class="banner" role="status">{harmless(over)}</p>}
      {note && <p class="banner" role="alert">{harmless(note)} <button type="button" onClick={() => setNote('')}>Close</button></p>}
      <div class="over">{finding && <Find term={drawn.current!.term} close={() => (setFinding(false), drawn.current?.term.focus())} />}</div>
      <div class="frame" ref={frame}>
        <div class="xterm-box" ref={box} />
      </div>
      {mayType && <Keys drawn={() => drawn.current} />}
      {asked && <Confirm title="Open this link?" text={<bdi class="code">{harmless(asked)}</bdi>} yes="Open" onanswer={(yes) => (setAsked(''), yes && window.open(asked, '_blank', 'noopener,noreferrer'))} />}
    </section>
  )

  function special(e: KeyboardEvent, d: Drawn): boolean {
    if (e.type !== 'keydown' || !e.ctrlKey) return true
    const k = e.key.toLowerCase()
    if (e.shiftKey && k === 'x') (frame.current?.parentElement?.querySelector('button') as HTMLElement | null)?.focus()
    else if (e.shiftKey && k === 'f') setFinding(true)
    else if (k === 'c' && d.term.hasSelection()) {
      void navigator.clipboard?.writeText(d.term.getSelection())
      d.term.clearSelection()
    } else if (k === 'v') return false // the browser pastes
    else return true
    e.preventDefault()
    return false
  }
}

// fit makes the terminal as large as its frame: by another size of the program, if it is own, or else by smaller letters.
function fit(d: Drawn | undefined, frame: HTMLElement | null, own: boolean, resize: (rows: number, cols: number) => Promise<void>): void {
  const screen = d?.box.querySelector('.xterm-screen')
  if (!d || !screen || !frame?.clientWidth) return
  const term = d.term
  const cell = { w: screen.clientWidth / term.cols / term.options.fontSize!, h: screen.clientHeight / term.rows / term.options.fontSize! } // at a size of 1
  const room = { w: frame.clientWidth - 16, h: frame.clientHeight - 4 }
  clearTimeout(d.resizing)
  if (!own) {
    const want = Math.min(room.w / (cell.w * term.cols), Math.max(room.h / (cell.h * term.rows), normal * 0.75))
    term.options.fontSize = Math.max(smallest, Math.min(normal, Math.floor(want * 2) / 2))
    return
  }
  term.options.fontSize = normal
  const cols = Math.max(20, Math.floor(room.w / (cell.w * normal)))
  const rows = Math.max(5, Math.floor(room.h / (cell.h * normal)))
  if (cols === d.size?.cols && rows === d.size.rows) return
  d.resizing = window.setTimeout(() => void resize(rows, cols).catch(() => {}), 150)
}

// Find lies above the terminal: beside it, Find would change the size of the program, which drops the selection.
function Find({ term, close }: { term: Terminal; close: () => void }): JSX.Element {
  const [search] = useState(() => new SearchAddon()) // one for each Find: after clearDecorations, the timer of a SearchAddon drops the selection
  const [text, setText] = useState('')
  const [found, setFound] = useState<boolean>()
  const [match, active] = [colour('--match'), colour('--match-active')]
  const options = { decorations: { matchBackground: match, matchOverviewRuler: match, activeMatchBackground: active, activeMatchColorOverviewRuler: active } }
  const go = (back: boolean): void => setFound(text ? (back ? search.findPrevious(text, options) : search.findNext(text, options)) : undefined)
  const input = useRef<HTMLInputElement>(null)
  useLayoutEffect(() => {
    term.loadAddon(search)
    input.current?.focus()
    return () => search.dispose()
  }, [])
  return (
    <form class="bar find" role="search" onSubmit={(e) => (e.preventDefault(), go(true))} onKeyDown={(e) => e.key === 'Escape' && close()}>
      <input type="search" aria-label="Search in the terminal" value={text} onInput={(e) => setText(e.currentTarget.value)} ref={input} />
      <button type="submit">Older</button>
      <button type="button" onClick={() => go(false)}>Newer</button>
      <span role="status">{found === false ? 'Not found here. Older output is in the log.' : ''}</span>
    </form>
  )
}
