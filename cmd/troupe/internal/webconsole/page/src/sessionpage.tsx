import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { age, bytes, date, harmless } from './format'
import type { Link } from './link'
import { useLink } from './process'
import { href } from './route'
import { store } from './store'
import { sessionName } from './tree'
import type { ShareInfo } from './types'
import { Confirm, ErrorText, Field, Name, State, useAction, useStore } from './ui'
import { left, state, tone } from './why'

// The page of a session: its processes in short, its groups, and its shares.
export function SessionPage({ id: sessionId }: { id: string }): JSX.Element {
  useStore()
  const { link, role } = useLink(sessionId)
  const { error, run } = useAction()
  const [ask, setAsk] = useState<{ title: string; text: string; yes: string; f: () => Promise<unknown> }>()
  const s = store.sessions.get(sessionId)
  if (!s) return <p class="page">{store.whole ? <>The session has ended. <a href="#/">All processes</a></> : 'Asking the server…'}</p>
  const changes = role === 'controller' || role === 'owner'
  const now = Date.now()
  const name = sessionName(s)
  const gone = left(s.summary, now)
  const close = (): void => setAsk({ title: `End the session ${harmless(name)}?`, text: `All of its ${s.processes.size} processes are ended, and its shares.`, yes: 'End the session', f: () => link!.call('session/close', {}) })
  const stop = (g: string): void => setAsk({ title: `Stop the group ${harmless(g)}?`, text: 'Its processes are ended one at a time, the last started first.', yes: 'Stop the group', f: () => link!.call('group/stop', { groupId: g }) })
  return (
    <div class="page">
      <p class="crumbs"><a href="#/">Processes</a></p>
      <h1>Session <Name text={name} /></h1>
      <p>
        {s.summary.state === 'attached' ? 'Its client is attached.' : <>No client is attached as owner{gone && <>: <Name text={gone} /></>}.</>}{' '}
        {s.summary.observers > 0 && `${s.summary.observers} more ${s.summary.observers === 1 ? 'is' : 'are'} attached. `}
        Open since {date(s.summary.createdAtMs)}{s.summary.identity && <>, by <Name text={s.summary.identity} /></>}.
      </p>
      {changes && (
        <div class="actions">
          <a class="button" href={href('start', sessionId)}>Start a program…</a>
          <button type="button" class="danger" onClick={close}>End the session…</button>
        </div>
      )}
      <ErrorText text={error || (link?.state.over && link.state.reason !== 'left' ? link.state.reason : '')} />
      {[...s.groups.values()].map((g) => (
        <section key={g.groupId}>
          <h2>Group <Name text={g.groupId} /></h2>
          <p>{g.state}, {g.strategy}, {g.restarts} restarts counted. {g.reason && <Name text={g.reason} />} {changes && g.state !== 'ended' && <button type="button" onClick={() => stop(g.groupId)}>Stop the group…</button>}</p>
        </section>
      ))}
      <h2>Processes</h2>
      <ul class="plain">
        {[...s.processes.values()].slice(0, 200).map((p) => (
          <li key={p.info.processId}>
            <a href={href('process', sessionId, p.info.processId)}><Name text={p.info.processId} /></a> <State tone={tone(p.info)} text={state(p.info)} /> <small>{bytes(p.info.outputBytes)} of output</small>
          </li>
        ))}
      </ul>
      {s.processes.size > 200 && <p>And {s.processes.size - 200} more: see <a href="#/">all processes</a>.</p>}
      {changes && link && <Shares link={link} />}
      {ask && <Confirm title={ask.title} text={ask.text} yes={ask.yes} onanswer={(yes) => (setAsk(undefined), yes && void run(ask.f))} />}
    </div>
  )
}

const times: [string, number][] = [['15 minutes', 900_000], ['an hour', 3_600_000], ['4 hours', 4 * 3_600_000], ['a day', 24 * 3_600_000]]

function Shares({ link }: { link: Link }): JSX.Element {
  const [list, setList] = useState<ShareInfo[]>([])
  const [made, setMade] = useState('')
  const [copied, setCopied] = useState(false)
  const { busy, error, run } = useAction()
  const refresh = (): void => void link.call('session/shares', {}).then((r) => setList(r.shares), () => {})
  useEffect(() => {
    refresh()
    const timer = setInterval(refresh, 5000)
    return () => clearInterval(timer)
  }, [link])
  const make = (e: SubmitEvent): void => {
    e.preventDefault()
    const f = new FormData(e.currentTarget as HTMLFormElement)
    void run(async () => {
      const r = await link.call('session/share', { access: f.get('access') as 'read' | 'type', expiresInMs: Number(f.get('for')), name: String(f.get('name')) }, { once: true })
      setMade(`${location.origin}${location.pathname}#share=${encodeURIComponent(r.token)}`)
      setCopied(false)
      refresh()
    })
  }
  const now = Date.now()
  return (
    <section>
      <h2>Share this session</h2>
      {!store.me.auth && <p>The server asks nobody for credentials, so it makes no shares. Start it with <code>--auth-token-file</code>.</p>}
      {store.me.auth && (
        <form class="share" onSubmit={make}>
          <Field label="A guest may">
            <select name="access">
              <option value="read">watch</option>
              <option value="type">watch and type: in a shell, that is everything you may do</option>
            </select>
          </Field>
          <Field label="For">
            <select name="for">{times.map(([t, ms]) => <option key={t} value={ms} selected={ms === 3_600_000}>{t}</option>)}</select>
          </Field>
          <Field label="Name"><input name="name" maxLength={100} placeholder="for the list below" autocomplete="off" /></Field>
          <button type="submit" class="primary" disabled={busy}>Make a link</button>
        </form>
      )}
      <ErrorText text={error} />
      {made && (
        <p role="status" class="made">
          Whoever has this link gets in. It cannot be shown again. <input readOnly aria-label="The link" value={made} onFocus={(e) => e.currentTarget.select()} />{' '}
          <button type="button" onClick={() => void navigator.clipboard.writeText(made).then(() => setCopied(true))}>{copied ? 'Copied' : 'Copy'}</button>
        </p>
      )}
      {list.length > 0 && (
        <table>
          <thead><tr><th>Name</th><th>May</th><th>Guests</th><th>Ends in</th><th><span class="hidden">Revoke</span></th></tr></thead>
          <tbody>
            {list.map((s) => (
              <tr key={s.shareId}>
                <td><Name text={s.name || s.shareId.slice(0, 8)} /></td><td>{s.access === 'type' ? 'watch and type' : 'watch'}</td><td>{s.guests}</td><td>{age(s.expiresAtMs - now)}</td>
                <td><button type="button" aria-label={`Revoke ${harmless(s.name || s.shareId.slice(0, 8))}`} onClick={() => void run(async () => (await link.call('session/unshare', { shareId: s.shareId }), refresh()))}>Revoke</button></td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}
