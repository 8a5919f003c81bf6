import type { JSX } from 'preact'
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks'
import { type Stream, follow, isGone, parts, read } from './follow'
import { age, bytes, clock, count, date, harmless, line } from './format'
import type { Link } from './link'
import type { Process } from './store'
import type { ReadEvent, ReadResult } from './types'
import { useStore, words } from './ui'
import { exit } from './why'

// The log of a process: its output in lines, with times and streams, from the newest back to the oldest that the server holds.

type Line = { seq: number; atMs: number; stream: Stream | 'event'; text: string }

// Lines is the part of a log that the page holds: bounded, and dropped at the end away from where it grows.
class Lines {
  all: Line[] = []
  from = 0 // the first seq here; from - 1 and older are with the server
  dropped = false // newer lines were dropped while older ones were read
  private open = new Map<Stream, { line: Line; decoder: TextDecoder }>()

  constructor(readonly most = 50_000) {}

  take(data: Uint8Array, stream: Stream, atMs: number, seq: number): void {
    let o = this.open.get(stream)
    const decoder = o?.decoder ?? new TextDecoder()
    const texts = decoder.decode(data, { stream: true }).split('\n')
    texts.forEach((text, i) => {
      if (i === 0 && o?.line) o.line.text += text
      else if (i < texts.length - 1 || text) {
        const l = { seq, atMs, stream, text }
        this.all.push(l)
        o = { line: l, decoder }
      }
      if (i < texts.length - 1) o = undefined
      if (o && o.line.text.length > longest) o = undefined // a line without end goes on as another
    })
    this.open.set(stream, { line: o?.line as Line, decoder })
    this.bound()
  }

  // note adds a line about the process, in the midst of its output.
  note(seq: number, atMs: number, text: string): void {
    this.all.push({ seq, atMs, stream: 'event', text })
    this.bound()
  }

  private bound(): void {
    if (this.all.length > this.most) {
      this.all.splice(0, this.all.length - this.most + this.most / 10)
      this.from = this.all[0]!.seq
    }
  }

  event(e: ReadEvent): void {
    this.note(e.seq, e.atMs, eventText(e))
  }

  // before puts older lines in front.
  before(older: Lines): void {
    this.all = [...older.all, ...this.all]
    this.from = older.from
    if (this.all.length > 2 * this.most) {
      this.all.length = 2 * this.most
      this.dropped = true
      this.open.clear()
    }
  }
}

const longest = 4096

function eventText(e: ReadEvent): string {
  switch (e.kind) {
    case 'exited':
      return `run ${e.run} ended: ${e.status ? exit(e.status) : ''}`
    case 'restarted':
      return `run ${e.run} begins${e.reason ? `, after: ${e.reason}` : ''}`
    case 'ready':
      return `run ${e.run} is ready`
    case 'evicted':
      return `given up${e.reason ? `: ${e.reason}` : ''}`
    case 'closed':
      return 'the end of its output'
  }
  return e.kind
}

const high = 20
const back = 256 * 1024 // bytes that one step back asks for

export function LogView({ link, process }: { link: Link; process: Process }): JSX.Element {
  useStore()
  const id = process.info.processId
  const [, redraw] = useReducer<number, void>((x) => x + 1, 0)
  const [over, setOver] = useState('')
  const [filter, setFilter] = useState('')
  const [stream, setStream] = useState('')
  const [following, setFollowing] = useState(true)
  const [loading, setLoading] = useState(false)
  const [round, setRound] = useState(0)
  const [top, setTop] = useState(0)
  const [missing, setMissing] = useState('')
  const box = useRef<HTMLDivElement>(null)
  const lines = useRef(new Lines())

  useEffect(() => {
    const abort = new AbortController()
    const l = (lines.current = new Lines())
    let due = 0
    const draw = (): void => void (due ||= requestAnimationFrame(() => ((due = 0), redraw())))
    const i = process.info
    // Begin with the newest part: about 1 MiB.
    const start = Math.max(i.firstSeq - 1, i.nextSeq - 1 - Math.ceil(((i.nextSeq - i.firstSeq) * 1024 * 1024) / Math.max(1, i.retainedBytes, 1)), 0)
    l.from = start + 1
    setOver('')
    follow(link, id, {
      output: (data, s, atMs, seq) => (l.take(data, s, atMs, seq), draw()),
      event: (e) => (l.event(e), draw()),
      missing: (after, first) => {
        if (l.all.length) l.note(first, 0, `output is missing here: ${count(first - after - 1)} pieces came faster than the page could read, and the server no longer holds them`)
        else l.from = first
      },
      caughtUp: () => new Promise<void>((done) => setTimeout(done, 30)), // a flood of small lines is drawn some 30 times a second
    }, abort.signal, start).then(
      () => setOver('the end'),
      (e) => !abort.signal.aborted && setOver(isGone(e) ? 'The server has forgotten the process.' : words(e)),
    )
    return () => abort.abort(new Error('left'))
  }, [link, id, round])

  const run = useRef(process.info.run)
  useEffect(() => {
    if (over && process.info.run !== run.current) setRound((n) => n + 1)
    run.current = process.info.run
  }, [process.info.run, over])

  const l = lines.current
  const wanted = filter.toLowerCase()
  const shown = wanted || stream ? l.all.filter((x) => (!stream || x.stream === stream) && (!wanted || x.text.toLowerCase().includes(wanted))) : l.all

  const older = async (): Promise<void> => {
    setLoading(true)
    const height = box.current!.scrollHeight
    try {
      await readBefore(link, id, l, process)
      setMissing('')
    } catch (e) {
      setMissing(words(e))
    }
    setLoading(false)
    redraw()
    requestAnimationFrame(() => box.current && (box.current.scrollTop += box.current.scrollHeight - height)) // the same lines stay in sight
  }

  useLayoutEffect(() => {
    if (following && box.current) box.current.scrollTop = box.current.scrollHeight
  })
  const scrolled = (el: HTMLElement): void => {
    setTop(el.scrollTop)
    setFollowing(el.scrollTop + el.clientHeight >= el.scrollHeight - high)
  }
  const height = box.current?.clientHeight ?? 600
  const first = Math.max(0, following ? shown.length - Math.ceil(height / high) - 10 : Math.floor(top / high) - 10)
  const seen = shown.slice(first, first + Math.ceil(height / high) + 20)
  const more = l.from > Math.max(1, process.info.firstSeq)
  const lost = !link.state.up && !link.state.over
  const save = (): void => {
    const blob = new Blob(l.all.map((x) => (x.stream === 'event' ? '' : `${x.text}\n`)), { type: 'text/plain' })
    const a = Object.assign(document.createElement('a'), { href: URL.createObjectURL(blob), download: `${harmless(id).replaceAll('/', '_')}.log` })
    a.click()
    setTimeout(() => URL.revokeObjectURL(a.href), 1000)
  }
  return (
    <section class="log" aria-label="Log">
      <div class="bar" role="search">
        <input type="search" aria-label="Search in the log" placeholder="Show lines with…" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />
        {!process.info.tty && (
          <select aria-label="Stream" value={stream} onChange={(e) => setStream(e.currentTarget.value)}>
            <option value="">All streams</option>
            <option value="stdout">stdout</option>
            <option value="stderr">stderr</option>
          </select>
        )}
        <label class="check">
          <input type="checkbox" checked={following} onChange={(e) => setFollowing(e.currentTarget.checked)} /> Follow
        </label>
        <button type="button" disabled={!more || loading} onClick={() => void older()}>{loading ? 'Reading…' : 'Older'}</button>
        <button type="button" onClick={save}>Save</button>
        <small>
          {count(shown.length)} of {count(l.all.length)} lines{more ? '' : process.info.droppedBytes > 0 ? `; ${bytes(process.info.droppedBytes)} before are no longer held` : ', all'}
        </small>
      </div>
      {lost && <p class="banner" role="status">Link lost for {age(Date.now() - link.state.lostAt)}: trying again.</p>}
      {l.dropped && <p class="banner">The newest lines were dropped to make room for older ones. <button type="button" onClick={() => setRound(round + 1)}>Newest</button></p>}
      {(over && over !== 'the end') || missing ? <p class="banner" role="alert">{harmless(over === 'the end' ? missing : over || missing)}</p> : null}
      <div class="lines" ref={box} tabIndex={0} role="log" aria-live="off" aria-label="Output" onScroll={(e) => scrolled(e.currentTarget)}>
        <div class="space" style={{ height: `${shown.length * high}px` }}>
          <div class="window" style={{ transform: `translateY(${first * high}px)` }}>
            {seen.map((x, i) => (
              <div class={`line ${x.stream}`} key={first + i} title={x.atMs ? `${date(x.atMs)}, ${x.stream}, seq ${x.seq}` : undefined}>
                <time>{x.atMs ? clock(x.atMs) : ''}</time>
                <span class="stream">{x.stream === 'stderr' ? 'err' : x.stream === 'event' ? '—' : ''}</span>
                <bdi class="text">{line(x.text)}</bdi>
              </div>
            ))}
          </div>
        </div>
        {!l.all.length && <p class="page">{over ? 'The process has written nothing.' : 'No output yet.'}</p>}
      </div>
    </section>
  )
}

// readBefore reads the part of the log before l.
async function readBefore(link: Link, id: string, l: Lines, process: Process): Promise<void> {
  const i = process.info
  const each = Math.max(1, i.retainedBytes / Math.max(1, i.nextSeq - i.firstSeq))
  const end = l.from - 1
  let seq = Math.max(0, i.firstSeq - 1, end - Math.ceil(back / each))
  const older = new Lines(Infinity)
  older.from = seq + 1
  while (seq < end) {
    const r: ReadResult = await read(link, id, seq, back, 0, i.instance)
    if (r.firstSeq > seq + 1) older.from = Math.max(older.from, r.firstSeq)
    for (const p of parts(r)) {
      if (p.seq > end) break
      if ('event' in p) older.event(p.event)
      else older.take(p.data, p.stream, p.atMs, p.seq)
    }
    if (r.nextSeq - 1 <= seq) break
    seq = r.nextSeq - 1
  }
  l.before(older)
}
