import type { JSX } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { href } from './route'
import { age, bytes, command } from './format'
import { type Process, type Session, cpu, quietMs, rate, store } from './store'
import type { GroupInfo } from './types'
import { Name, State, useStore } from './ui'
import { ended, join, left, quiet, state, tone } from './why'

// The tree: sessions, their groups, their processes. Only the rows in sight are in the document.

type Row =
  | { kind: 'session'; key: string; level: number; session: Session; open: boolean; shown: number }
  | { kind: 'group'; key: string; level: number; session: Session; group: GroupInfo; open: boolean }
  | { kind: 'process'; key: string; level: number; p: Process }

type Sort = 'start' | 'name' | 'state' | 'rate' | 'memory' | 'restarts'
type Show = 'all' | 'attention' | 'running' | 'ended'

// What outlives a visit of another page.
const kept = { filter: '', show: 'all' as Show, sort: 'start' as Sort, closed: new Set<string>(), active: '', top: 0 }

export const sessionName = (s: Session): string => s.summary.name || s.summary.sessionId.slice(0, 8)

// alone reports whether a session is there for its only process, and needs no row of its own.
const alone = (s: Session): boolean => s.processes.size === 1 && s.groups.size === 0 && s.processes.has(s.summary.name ?? '')

const rank = { bad: 0, warn: 1, good: 2, dim: 3 }

function wanted(p: Process, words: string[], show: Show, now: number): boolean {
  const t = tone(p.info)
  if (show === 'attention' && t !== 'bad' && t !== 'warn') return false
  if (show === 'running' && ended(p.info)) return false
  if (show === 'ended' && !ended(p.info)) return false
  if (!words.length) return true
  const text = `${p.info.processId} ${sessionName(p.session)} ${p.info.group ?? ''} ${state(p.info)} ${p.info.argv.join(' ')} ${quiet(p.info, quietMs(p, now), cpu(p, now))}`.toLowerCase()
  return words.every((w) => text.includes(w))
}

function order(sort: Sort, now: number): ((a: Process, b: Process) => number) {
  switch (sort) {
    case 'name':
      return (a, b) => (a.info.processId < b.info.processId ? -1 : 1)
    case 'state':
      return (a, b) => rank[tone(a.info)] - rank[tone(b.info)]
    case 'rate':
      return (a, b) => rate(b, now) - rate(a, now)
    case 'memory':
      return (a, b) => (b.info.usage?.memoryBytes ?? 0) - (a.info.usage?.memoryBytes ?? 0)
    case 'restarts':
      return (a, b) => b.info.run - a.info.run
  }
  return (a, b) => a.info.startedAtMs - b.info.startedAtMs
}

function flatten(now: number): { rows: Row[]; total: number; attention: number } {
  const words = kept.filter.toLowerCase().split(/\s+/).filter(Boolean)
  const by = order(kept.sort, now)
  const rows: Row[] = []
  const filtered = words.length > 0 || kept.show !== 'all'
  let total = 0
  let attention = 0
  const sessions: { session: Session; found: Process[] }[] = []
  for (const session of [...store.sessions.values()].sort((a, b) => a.summary.createdAtMs - b.summary.createdAtMs)) {
    const found: Process[] = []
    for (const p of session.processes.values()) {
      total++
      const t = tone(p.info)
      if (t === 'bad' || t === 'warn') attention++
      if (wanted(p, words, kept.show, now)) found.push(p)
    }
    if (filtered && !found.length && !(words.length && words.every((w) => sessionName(session).toLowerCase().includes(w)))) continue
    found.sort(by)
    sessions.push({ session, found })
  }
  // A session is where its first process would be.
  if (kept.sort !== 'start') sessions.sort((a, b) => (a.found[0] && b.found[0] ? by(a.found[0], b.found[0]) : b.found.length - a.found.length))
  for (const { session, found } of sessions) {
    const id = session.summary.sessionId
    if (alone(session)) {
      for (const p of found) rows.push({ kind: 'process', key: `${id}/p/${p.info.processId}`, level: 1, p })
      continue
    }
    const open = !kept.closed.has(id)
    rows.push({ kind: 'session', key: id, level: 1, session, open, shown: found.length })
    if (!open) continue
    for (const group of session.groups.values()) {
      const members = found.filter((p) => p.info.group === group.groupId)
      if (filtered && !members.length) continue
      const key = `${id}/g/${group.groupId}`
      const groupOpen = !kept.closed.has(key)
      rows.push({ kind: 'group', key, level: 2, session, group, open: groupOpen })
      if (groupOpen) for (const p of members) rows.push({ kind: 'process', key: `${id}/p/${p.info.processId}`, level: 3, p })
    }
    for (const p of found) if (!p.info.group || !session.groups.has(p.info.group)) rows.push({ kind: 'process', key: `${id}/p/${p.info.processId}`, level: 2, p })
  }
  return { rows, total, attention }
}

const narrow = matchMedia('(max-width: 760px)')
const columns = ['Process', 'State', 'Why', 'Restarts', 'Output', 'CPU', 'Memory', 'Watchers', 'Age']

export function Tree(): JSX.Element {
  const tick = useStore()
  const [, redraw] = useState(0)
  const [top, setTop] = useState(0)
  const [height, setHeight] = useState(600)
  const box = useRef<HTMLDivElement>(null)
  const search = useRef<HTMLInputElement>(null)
  const change = (f: () => void): void => {
    f()
    redraw((n) => n + 1)
  }
  const now = Date.now()
  const { rows, total, attention } = useMemo(() => flatten(now), [tick, kept.filter, kept.show, kept.sort, kept.closed.size])
  const high = narrow.matches ? 58 : 30

  useLayoutEffect(() => {
    const el = box.current
    if (!el) return
    el.scrollTop = kept.top
    const sized = new ResizeObserver(() => setHeight(el.clientHeight))
    sized.observe(el)
    return () => sized.disconnect()
  }, [])
  useEffect(() => {
    const slash = (e: KeyboardEvent): void => {
      if (e.key !== '/' || (e.target as HTMLElement).matches('input, select, textarea')) return
      e.preventDefault()
      search.current?.focus()
    }
    addEventListener('keydown', slash)
    return () => removeEventListener('keydown', slash)
  }, [])

  const active = Math.max(0, rows.findIndex((r) => r.key === kept.active))
  const go = (i: number): void => {
    i = Math.max(0, Math.min(rows.length - 1, i))
    const el = box.current
    if (!rows[i] || !el) return
    kept.active = rows[i].key
    const y = i * high
    if (y < el.scrollTop) el.scrollTop = y
    else if (y + high > el.scrollTop + el.clientHeight - high) el.scrollTop = y + 2 * high - el.clientHeight
    redraw((n) => n + 1)
  }
  const toggle = (r: Row, open?: boolean): void => {
    if (r.kind === 'process' || open === r.open) return
    if (r.open) kept.closed.add(r.key)
    else kept.closed.delete(r.key)
    redraw((n) => n + 1)
  }
  const key = (e: KeyboardEvent): void => {
    const r = rows[active]
    const page = Math.max(1, Math.floor(height / high) - 2)
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length }[e.key]
    if (step) go(active + step)
    else if (!r) return
    else if (e.key === 'ArrowRight') toggle(r, true)
    else if (e.key === 'ArrowLeft') {
      if (r.kind !== 'process' && r.open) toggle(r, false)
      else {
        let i = active
        while (i > 0 && rows[i]!.level >= r.level) i--
        go(i)
      }
    } else if (e.key === 'Enter') location.hash = target(r)
    else if (e.key === ' ') toggle(r)
    else return
    e.preventDefault()
  }

  const first = Math.max(0, Math.floor(top / high) - 6)
  const seen = rows.slice(first, Math.ceil((top + height) / high) + 6)
  const sort = (s: Sort, text: string): JSX.Element => <option value={s}>{text}</option>
  return (
    <section class="tree" aria-label="Processes">
      <h1 class="hidden">Processes</h1>
      <div class="bar" role="search">
        <input
          ref={search}
          type="search"
          aria-label="Filter processes"
          placeholder="Filter: name, session, command, why…  ( / )"
          value={kept.filter}
          onInput={(e) => change(() => (kept.filter = e.currentTarget.value))}
          onKeyDown={(e) => e.key === 'ArrowDown' && (e.preventDefault(), box.current?.focus())}
        />
        <select aria-label="Show" value={kept.show} onChange={(e) => change(() => (kept.show = e.currentTarget.value as Show))}>
          <option value="all">All ({total})</option>
          <option value="attention">Needs a look ({attention})</option>
          <option value="running">Not ended</option>
          <option value="ended">Ended</option>
        </select>
        <select aria-label="Sort by" value={kept.sort} onChange={(e) => change(() => (kept.sort = e.currentTarget.value as Sort))}>
          {sort('start', 'Oldest first')}
          {sort('name', 'By name')}
          {sort('state', 'Trouble first')}
          {sort('rate', 'Most output')}
          {sort('memory', 'Most memory')}
          {sort('restarts', 'Most restarts')}
        </select>
      </div>
      <div class="rows" ref={box} role="treegrid" aria-label="Sessions, groups and processes" aria-rowcount={rows.length + 1} tabIndex={0} aria-activedescendant={rows.length ? `row-${active}` : undefined}
        onKeyDown={key} onScroll={(e) => (setTop((kept.top = e.currentTarget.scrollTop)))}>
        <div class="row head" role="row" aria-rowindex={1}>
          {columns.map((c) => (
            <span role="columnheader" class={`c-${c.toLowerCase()}`} key={c}>
              {c}
            </span>
          ))}
        </div>
        <div class="space" role="presentation" style={{ height: `${rows.length * high}px` }}>
          <div role="rowgroup" class="window" style={{ transform: `translateY(${first * high}px)` }}>
            {seen.map((r, i) => (
              <RowView key={r.key} row={r} index={first + i} active={first + i === active} now={now} onclick={() => ((kept.active = r.key), r.kind === 'process' ? (location.hash = target(r)) : toggle(r))} />
            ))}
          </div>
        </div>
        {!rows.length && <Nothing total={total} />}
      </div>
    </section>
  )
}

function Nothing({ total }: { total: number }): JSX.Element {
  if (!store.whole) return <p class="page">Asking the server…</p>
  if (total) return <p class="page">No process matches the filter.</p>
  return <p class="page">There are no processes. {!store.guest && <>Start one <a href={href('start')}>here</a>, or with <code>troupe run</code>.</>}</p>
}

function target(r: Row): string {
  if (r.kind === 'process') return href('process', r.p.session.summary.sessionId, r.p.info.processId)
  return href('session', r.session.summary.sessionId)
}

function RowView({ row, index, active, now, onclick }: { row: Row; index: number; active: boolean; now: number; onclick: () => void }): JSX.Element {
  const common = { role: 'row' as const, id: `row-${index}`, 'aria-rowindex': index + 2, 'aria-level': row.level, onClick: onclick }
  const c = `row ${row.kind} level${row.level}${active ? ' active' : ''}`
  if (row.kind === 'process') return <div {...common} class={c}>{processCells(row.p, now)}</div>
  const arrow = <span aria-hidden="true" class="arrow">{row.open ? '▾' : '▸'}</span>
  if (row.kind === 'group') {
    const g = row.group
    return (
      <div {...common} class={c} aria-expanded={row.open}>
        <span role="gridcell" class="c-process">{arrow} group <Name text={g.groupId} /></span>
        <span role="gridcell" class="c-state"><State tone={{ ready: 'good', ended: 'dim' }[g.state] as 'good' ?? 'warn'} text={g.state} /></span>
        <span role="gridcell" class="c-why">{g.reason && <Name text={g.reason} />} <small>{g.strategy}, {g.restarts} restarts counted</small></span>
      </div>
    )
  }
  const s = row.session.summary
  return (
    <div {...common} class={c} aria-expanded={row.open}>
      <span role="gridcell" class="c-process">
        {arrow} <a tabIndex={-1} href={target(row)} onClick={(e) => e.stopPropagation()}><Name text={sessionName(row.session)} /></a> <small>{row.shown === s.processes ? s.processes : `${row.shown} of ${s.processes}`}</small>
      </span>
      <span role="gridcell" class="c-state"><State tone={s.state === 'attached' ? 'good' : s.state === 'closing' ? 'warn' : 'dim'} text={s.state} /></span>
      <span role="gridcell" class="c-why">
        <Name text={left(s, now)} />
        {s.identity && <small> of <Name text={s.identity} /></small>}
      </span>
    </div>
  )
}

function processCells(p: Process, now: number): JSX.Element {
  const i = p.info
  const c = cpu(p, now)
  const why = join(quiet(i, quietMs(p, now), c), ended(i) ? '' : left(p.session.summary, now))
  const r = rate(p, now)
  const lag = (i.viewers ?? []).reduce((n, v) => Math.max(n, v.lagBytes), 0)
  return (
    <>
      <span role="gridcell" class="c-process" title={command(i.argv)}><a tabIndex={-1} href={href('process', p.session.summary.sessionId, i.processId)} onClick={(e) => e.stopPropagation()}><Name text={i.processId} /></a></span>
      <span role="gridcell" class="c-state"><State tone={tone(i)} text={state(i)} /></span>
      <span role="gridcell" class="c-why" title={why}><Name text={why} /></span>
      <span role="gridcell" class="c-restarts num">{i.run > 1 ? i.run - 1 : ''}</span>
      <span role="gridcell" class="c-output num">{r >= 1 ? `${bytes(r)}/s` : ''}</span>
      <span role="gridcell" class="c-cpu num">{c >= 0.005 ? `${(c * 100).toFixed(0)} %` : ''}</span>
      <span role="gridcell" class="c-memory num">{i.usage?.memoryBytes !== undefined && !ended(i) ? bytes(i.usage.memoryBytes) : ''}</span>
      <span role="gridcell" class="c-watchers num">{i.viewers?.length || ''}{lag > 0 && <small> {bytes(lag)} behind</small>}</span>
      <span role="gridcell" class="c-age num">{i.startedAtMs ? age(now - i.startedAtMs) : ''}</span>
    </>
  )
}
