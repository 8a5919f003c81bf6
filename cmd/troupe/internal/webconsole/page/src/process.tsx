import type { ComponentType, JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Link } from './link'
import { age, bytes, command, count, date, harmless, path } from './format'
import { LogView } from './log'
import { href } from './route'
import { type Process, cpu, quietMs, rate, store } from './store'
import type { TerminalView } from './terminal'
import type { Role } from './types'
import { sessionName } from './tree'
import { Confirm, ErrorText, Name, State, useAction, useStore } from './ui'
import { ended, exit, left, paused, state, tone, wait } from './why'

// The page of a process: what it is and why it is quiet, what one can do to it, its terminal or log, and all that is known of it.

// useLink holds a connection in a session while a view is shown. A guest has one in any case.
export function useLink(session: string): { link: Link | undefined; role: Role | '' } {
  const [link, setLink] = useState<Link>()
  const [role, setRole] = useState<Role | ''>('')
  useEffect(() => {
    const l = new Link(store.guest ? {} : { session, role: 'controller' }, store.guest)
    l.onstate = store.changed
    l.call('session/info', {}).then(
      (i) => setRole(i.role ?? 'observer'),
      () => {},
    )
    setLink(l)
    return () => l.close('left')
  }, [session])
  return { link, role }
}

export function ProcessPage({ session, process, tab }: { session: string; process: string; tab: string }): JSX.Element {
  useStore()
  const { link, role } = useLink(session)
  const p = store.get(session, process)
  if (!p) return <Missing session={session} process={process} />
  const changes = role === 'controller' || role === 'owner'
  const tabs = p.info.tty ? ['terminal', 'log', 'details'] : ['log', 'input', 'details'].filter((t) => t !== 'input')
  const at = tabs.includes(tab) ? tab : tabs[0]!
  return (
    <div class="one">
      <div class="top">
        <p class="crumbs">
          <a href="#/">Processes</a> / <a href={href('session', session)}><Name text={sessionName(p.session)} /></a>
          {p.info.group && <> / <Name text={p.info.group} /></>}
        </p>
        <h1>
          <Name text={process} /> <State tone={tone(p.info)} text={state(p.info)} />
        </h1>
        <Why p={p} changes={changes} link={link} />
        <p class="command"><code><bdi>{harmless(command(p.info.argv))}</bdi></code> in <code><bdi>{harmless(path(p.info.cwd))}</bdi></code></p>
        {changes && link && <Actions p={p} link={link} />}
        <nav class="tabs" aria-label="Views of the process">
          {tabs.map((t) => (
            <a key={t} href={href('process', session, process, t)} aria-current={t === at ? 'page' : undefined}>
              {{ terminal: 'Terminal', log: 'Log', details: 'Details' }[t]}
            </a>
          ))}
        </nav>
      </div>
      {!link || !role ? (
        <p class="page">{link?.state.over ? <ErrorText text={link.state.reason} /> : 'Connecting…'}</p>
      ) : at === 'terminal' ? (
        <LazyTerminal link={link} process={p} mayType={changes || role === 'typist'} />
      ) : at === 'log' ? (
        <>
          <LogView link={link} process={p} />
          {!p.info.tty && !ended(p.info) && (changes || role === 'typist') && (p.info.stdinOpen ? <Input link={link} process={p} /> : <p class="bar input">It takes no input: it was started without a stdin, or its stdin is closed.</p>)}
        </>
      ) : (
        <Details p={p} />
      )}
    </div>
  )
}

function Missing({ session, process }: { session: string; process: string }): JSX.Element {
  if (!store.whole) return <p class="page">Asking the server…</p>
  return (
    <div class="page">
      <h1>No such process</h1>
      <p>
        {store.sessions.has(session) ? <>The session has no process <Name text={process} />: it has ended, and was forgotten.</> : 'Its session has ended.'} <a href="#/">All processes</a>
      </p>
    </div>
  )
}

let Loaded: typeof TerminalView | undefined

// LazyTerminal loads the terminal when the first one is looked at: it is most of the code.
function LazyTerminal(props: Parameters<typeof TerminalView>[0]): JSX.Element {
  const [, again] = useState(0)
  const [error, setError] = useState<Error>()
  if (error) throw error
  useEffect(() => {
    if (!Loaded) import('./terminal').then((m) => ((Loaded = m.TerminalView), again(1)), setError)
  }, [])
  const View = Loaded as ComponentType<Parameters<typeof TerminalView>[0]> | undefined
  return View ? <View {...props} /> : <p class="page">Loading the terminal…</p>
}

// Why says in words what the process waits for, for how long, and what would help.
function Why({ p, changes, link }: { p: Process; changes: boolean; link: Link | undefined }): JSX.Element {
  const now = Date.now()
  const i = p.info
  const q = quietMs(p, now)
  const { busy, error, run } = useAction()
  const [reads, setReads] = useState(false)
  const waits = (i.waitsFor ?? []).map((w) => ({ ...wait(i, w, q, cpu(p, now)), since: w.sinceMs + now - p.at, for: w.for })).filter((w) => w.text)
  const left_ = ended(i) ? '' : left(p.session.summary, now)
  const full = i.waitsFor?.[0]?.for === 'owner' && !i.viewers?.some((v) => v.hold)
  // As troupe attach does, the page becomes the owner of a session that has none. It takes the output and forgets it: the views ask for what they show.
  // The client that comes back takes its session back.
  useEffect(() => {
    if (!reads) return
    const owner = new Link({ session: p.session.summary.sessionId, role: 'owner' })
    void run(async () => {
      const taken = await (await owner.client).attach(i.processId, { after: Math.max(0, i.firstSeq - 1) })
      for await (const _ of taken.events());
    })
    return () => owner.close()
  }, [reads])
  return (
    <div class="why">
      {waits.map((w) => (
        <p key={w.for}>
          <strong><bdi>{harmless(w.text)}</bdi></strong>
          {w.for !== 'itself' && <> for {age(w.since)}</>}. {w.help}
        </p>
      ))}
      {!waits.length && i.status && <p><strong><bdi>{harmless(exit(i.status))}</bdi></strong>{ended(i) && (i.status.run ?? 1) > 1 ? ` in run ${i.status.run}, the last` : ''}</p>}
      {!waits.length && !i.status && <p>It runs, and has written something within the last 10 s.</p>}
      {i.pendingWrites > 0 && <p><strong>does not read its stdin</strong>: {i.pendingWrites} writes wait.</p>}
      {i.probeError && !ended(i) && <p><strong>probe fails:</strong> <Name text={i.probeError} /></p>}
      {left_ && <p><Name text={left_} /></p>}
      {reads && !error && <p>This page owns the session now, and reads its output, for as long as you stay here.</p>}
      {(full || reads) && changes && <button type="button" disabled={reads} onClick={() => setReads(true)}>Read its output</button>}
      {paused(i) && changes && link && <button type="button" disabled={busy} onClick={() => void run(() => link.call('process/signal', { processId: i.processId, run: i.run, signal: 'continue' }))}>Continue</button>}
      <ErrorText text={error} />
    </div>
  )
}

const signals = ['interrupt', 'terminate', 'hangup', 'quit', 'usr1', 'usr2', 'stop', 'continue', 'winch', 'kill']
const deadly = ['interrupt', 'terminate', 'hangup', 'quit', 'usr1', 'usr2', 'kill'] // unless the program handles them

function Actions({ p, link }: { p: Process; link: Link }): JSX.Element {
  const { busy, error, run } = useAction()
  const [ask, setAsk] = useState<{ title: string; text: string; yes: string; done: string; f: () => Promise<unknown> }>()
  const [done, setDone] = useState('')
  const i = p.info
  const name = harmless(i.processId)
  const bound = { processId: i.processId, run: i.run } // not another run that has begun meanwhile
  const act = (f: () => Promise<unknown>, text: string): void => {
    setDone('')
    void run(async () => {
      const r = (await f()) as { applied?: boolean; run?: number } | undefined
      if (r?.applied === false) throw new Error(`nothing was done: run ${r.run} has begun meanwhile`)
    }).then((ok) => ok && setDone(text))
  }
  const stop = (): void =>
    setAsk({ title: `Stop ${name}?`, text: 'The program is asked to end. If it has not after 5 s, it is killed, with all that it has started. It is not restarted.' + (paused(i) ? ' It is paused now, and cannot clean up: continue it before.' : ''), yes: 'Stop', done: 'stopped', f: () => link.call('process/terminate', { ...bound, run: undefined, graceMs: 5000, tree: true }) })
  const restart = (): void => setAsk({ title: `Restart ${name}?`, text: 'The present run is ended, and the next one begins.', yes: 'Restart', done: 'restarted', f: () => link.call('process/restart', bound) })
  const signal = (s: string): void => {
    const f = (): Promise<unknown> => link.call('process/signal', { ...bound, signal: s })
    if (deadly.includes(s)) setAsk({ title: `Send ${s} to ${name}?`, text: s === 'kill' ? 'The program ends at once, and cannot clean up.' : 'Unless the program handles this signal, it ends.', yes: 'Send', done: `sent ${s}`, f })
    else act(f, `sent ${s}`)
  }
  return (
    <div class="actions">
      <button type="button" disabled={busy || (ended(i) && i.state === 'closed')} onClick={stop}>Stop…</button>
      <button type="button" disabled={busy} onClick={restart} title="Only of a process that was started with a restart policy">Restart…</button>
      <select aria-label="Send a signal" value="" disabled={busy || i.state !== 'running'} onChange={(e) => (signal(e.currentTarget.value), (e.currentTarget.value = ''))}>
        <option value="">Signal…</option>
        {signals.map((s) => <option key={s} value={s}>{s === 'stop' ? 'stop (pause)' : s}</option>)}
      </select>
      {store.me.auth ? <a class="button" href={href('session', p.session.summary.sessionId)}>Share…</a> : <button type="button" disabled title="The server asks nobody for credentials: whoever reaches it may do everything, and it makes no shares">Share…</button>}
      <span role="status">{busy ? 'Asked…' : done}</span>
      <ErrorText text={error} />
      {ask && <Confirm title={ask.title} text={ask.text} yes={ask.yes} onanswer={(yes) => (setAsk(undefined), yes && act(ask.f, ask.done))} />}
    </div>
  )
}

// Input is the stdin of a program on pipes: a line at a time.
function Input({ link, process }: { link: Link; process: Process }): JSX.Element {
  const { busy, error, run } = useAction()
  const send = (e: SubmitEvent): void => {
    e.preventDefault()
    const form = e.currentTarget as HTMLFormElement
    const text = `${new FormData(form).get('line')}\n`
    void run(async () => {
      const r = await link.call('process/write', { processId: process.info.processId, chunk: new TextEncoder().encode(text) } as never)
      if (r.status !== 'accepted') throw new Error('its stdin is closed, or it was started without one')
      form.reset()
    })
  }
  const end = (): void => void run(() => link.call('process/closeStdin', { processId: process.info.processId }))
  return (
    <form class="bar input" onSubmit={send}>
      <input name="line" aria-label="A line for its stdin" placeholder="A line for its stdin" autocomplete="off" />
      <button type="submit" disabled={busy}>Send</button>
      <button type="button" onClick={end} disabled={busy}>End of input</button>
      <ErrorText text={error} />
    </form>
  )
}

function Details({ p }: { p: Process }): JSX.Element {
  const i = p.info
  const now = Date.now()
  const u = i.usage
  const alone = u?.of === 'program' ? ', of the program alone' : ''
  const facts: [string, string | undefined][] = [
    ['Session', `${p.session.summary.name ?? ''} ${p.session.summary.sessionId}`.trim()],
    ['Group', i.group],
    ['Command', command(i.argv)],
    ['Directory', path(i.cwd)],
    ['User', i.user && `${i.user.name} (${i.user.uid}:${i.user.gid})`],
    ['Sandbox', i.sandbox],
    ['Terminal', i.tty ? 'yes' : 'no: it was started on pipes'],
    ['Stdin', ended(i) || i.tty ? undefined : i.stdinOpen ? 'open' : 'none, or closed'],
    ['Started', i.startedAtMs ? `${date(i.startedAtMs)} (${age(now - i.startedAtMs)} ago)` : undefined],
    ['Run', `${i.run}${i.run > 1 ? `, after ${i.run - 1} restarts` : ''}`],
    ['PID', i.pid ? `${i.pid}; descendants found by ${i.containment}` : undefined],
    ['Ready', i.ready ? 'yes' : undefined],
    ['Last end', i.status && `${exit(i.status)}, run ${i.status.run}`],
    ['Ends with the server', i.endsWithServer ? 'yes' : undefined],
    ['CPU', u && `${(cpu(p, now) * 100).toFixed(0)} % now, ${age(u.userMs + u.systemMs)} in this run${alone}`],
    ['Memory', u?.memoryBytes !== undefined ? `${bytes(u.memoryBytes)}${alone}` : undefined],
    ['Threads', u?.pids !== undefined ? `${u.pids}, of all its processes` : undefined],
    ['Output', `${bytes(i.outputBytes)} in all, ${bytes(rate(p, now))}/s now`],
    ['Held', `${bytes(i.retainedBytes)}, of which its owner has not read ${bytes(i.unackedBytes)}${i.droppedBytes ? `; ${bytes(i.droppedBytes)} are no longer held` : ''}`],
    ['On disk', i.spooledBytes ? bytes(i.spooledBytes) : undefined],
    ['Events', i.firstSeq < i.nextSeq ? `${count(i.firstSeq)} to ${count(i.nextSeq - 1)} are held` : undefined],
    ['Writes that wait', i.pendingWrites ? `${i.pendingWrites}, because the program does not read` : undefined],
    ['Probe', i.probeError],
    ['Watched by', i.viewers?.map((v) => `${v.role}${v.hold ? ', for which the program waits' : ''}${v.lagBytes ? `, ${bytes(v.lagBytes)} behind for ${age(v.lagMs)}` : ''}`).join('; ') || 'nobody'],
  ]
  return (
    <dl class="page facts">
      {facts.filter(([, v]) => v).map(([k, v]) => (
        <div key={k}>
          <dt>{k}</dt>
          <dd><bdi>{harmless(v!)}</bdi></dd>
        </div>
      ))}
    </dl>
  )
}
