import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { fileURI, harmless, path } from './format'
import type { ProcessStartParams } from '@troupe/client'
import { Link } from './link'
import { href } from './route'
import { store } from './store'
import { sessionName } from './tree'
import { ErrorText, Field, useAction, useStore } from './ui'

// The form that starts a program, with the options that people use.
export function Start({ session }: { session: string }): JSX.Element {
  useStore(false)
  const [shell, setShell] = useState(true)
  const [into, setInto] = useState(session)
  const [tty, setTty] = useState(true)
  const { busy, error, run } = useAction()
  const start = (e: SubmitEvent): void => {
    e.preventDefault()
    const form = new FormData(e.currentTarget as HTMLFormElement)
    void run(async () => {
      const params = startParams(form)
      const link = into ? new Link({ session: into, role: 'controller' }) : new Link({ create: { name: String(form.get('session')), keepRunning: true } })
      try {
        await link.call('process/start', params)
        location.hash = href('process', link.sessionId!, params.processId)
      } finally {
        link.close()
      }
    })
  }
  return (
    <form class="page start" onSubmit={start}>
      <h1>Start a program</h1>
      <fieldset>
        <legend>Program</legend>
        <Field label="How">
          <select name="how" value={shell ? 'shell' : 'argv'} onChange={(e) => setShell(e.currentTarget.value === 'shell')}>
            <option value="shell">A line for the shell</option>
            <option value="argv">A program and its arguments, one a line</option>
          </select>
        </Field>
        <Field label={shell ? 'Shell line' : 'Program and arguments'}>
          {shell ? <input name="command" required autofocus spellcheck={false} autocapitalize="off" placeholder="make test" /> : <textarea name="command" required rows={4} spellcheck={false} placeholder={'/usr/bin/python3\n-m\nhttp.server'} />}
        </Field>
        <Field label="Name" hint="empty: from that of the program"><input name="name" maxLength={200} spellcheck={false} autocomplete="off" /></Field>
        <Field label="Directory"><input name="cwd" value={path(store.home) || '~'} spellcheck={false} /></Field>
        <Field label="Environment" hint="NAME=VALUE, one a line, added to that of the server"><textarea name="env" rows={3} spellcheck={false} /></Field>
        <label class="check"><input type="checkbox" name="tty" checked={tty} onChange={(e) => setTty(e.currentTarget.checked)} /> In a terminal</label>
        {!tty && <label class="check"><input type="checkbox" name="stdin" /> With a stdin to write to</label>}
      </fieldset>
      <fieldset>
        <legend>Session</legend>
        <Field label="In">
          <select value={into} onChange={(e) => setInto(e.currentTarget.value)}>
            <option value="">A new session</option>
            {[...store.sessions.values()].map((s) => <option key={s.summary.sessionId} value={s.summary.sessionId}>{harmless(sessionName(s))}</option>)}
          </select>
        </Field>
        {!into && <Field label="Name of the session"><input name="session" maxLength={200} placeholder="empty: none" autocomplete="off" /></Field>}
      </fieldset>
      <details>
        <summary>More: restarts, limits, sandbox, output</summary>
        <Field label="Run it again">
          <select name="restart">
            <option value="">never</option>
            <option value="transient">after a failure</option>
            <option value="permanent">always</option>
          </select>
        </Field>
        <Field label="End it after" hint="seconds; empty: never"><input name="timeout" type="number" min="0" step="any" /></Field>
        <Field label="Memory limit" hint="MiB"><input name="memory" type="number" min="1" /></Field>
        <Field label="CPU limit" hint="cores, such as 0.5"><input name="cpus" type="number" min="0.01" step="0.01" /></Field>
        <Field label="Processes and threads, at most"><input name="pids" type="number" min="1" /></Field>
        <Field label="Sandbox">
          <select name="sandbox">
            <option value="">none</option>
            <option value="read-only">reads all files, writes none, no network</option>
            <option value="read-only,net">reads all files, writes none, with the network</option>
            <option value="workspace-write">writes below its directory and /tmp, no network</option>
            <option value="workspace-write,net">writes below its directory and /tmp, with the network</option>
          </select>
        </Field>
        <Field label="When nobody reads its output">
          <select name="onFull">
            <option value="evict">keep the newest 8 MiB</option>
            <option value="spool">keep all of it, on disk</option>
            <option value="block">the program waits after 8 MiB</option>
          </select>
        </Field>
      </details>
      <ErrorText text={error} />
      <button type="submit" class="primary" disabled={busy}>{busy ? 'Starting…' : 'Start'}</button>
    </form>
  )
}

export function startParams(form: FormData): ProcessStartParams {
  const text = (name: string): string => String(form.get(name) ?? '').trim()
  const number = (name: string): number | undefined => (text(name) ? Number(text(name)) : undefined)
  const command = text('command')
  const how = form.get('how') === 'argv'
  const argv = how ? command.split('\n').map((l) => l.trimEnd()) : ['/bin/sh', '-c', command]
  const tty = form.get('tty') !== null
  const env: Record<string, string> = tty ? { TERM: 'xterm-256color', COLORTERM: 'truecolor' } : {}
  for (const l of text('env').split('\n').filter(Boolean)) {
    const at = l.indexOf('=')
    if (at < 1) throw new Error(`environment: ${l} is not NAME=VALUE`)
    env[l.slice(0, at)] = l.slice(at + 1)
  }
  const cwd = fileURI(text('cwd') || '~')
  const word = (how ? argv[0]! : command.split(/\s+/)[0]!).split('/').pop()!.replace(/[^\w.-]/g, '') || 'program'
  const policy = text('restart') as 'transient' | ''
  const memory = number('memory')
  const limits = { memoryBytes: memory && memory * 1024 * 1024, cpus: number('cpus'), pids: number('pids') }
  return {
    processId: text('name') || `${word}-${Math.random().toString(36).slice(2, 6)}`,
    argv, cwd, env, tty,
    envPolicy: { inherit: 'all', ignoreDefaultExcludes: false, exclude: [], set: {}, includeOnly: [] },
    pipeStdin: form.get('stdin') !== null || undefined,
    size: tty ? { rows: 24, cols: 80 } : undefined,
    screen: tty ? { scrollback: 5000 } : undefined,
    retention: { bytes: 8 * 1024 * 1024, onFull: (text('onFull') || 'evict') as 'evict' },
    restart: policy ? { policy, afterEnd: true } : undefined,
    timeoutMs: number('timeout') === undefined ? undefined : number('timeout')! * 1000,
    limits: Object.values(limits).some(Boolean) ? limits : undefined,
    sandbox: sandbox(text('sandbox'), cwd),
  }
}

// sandbox is that of troupe run --sandbox: all files are read; with workspace-write, those below the directory and temporary ones are written.
function sandbox(mode: string, cwd: string): ProcessStartParams['sandbox'] {
  if (!mode) return undefined
  const special = (kind: string, access: 'read' | 'write') => ({ path: { type: 'special' as const, value: { kind } }, access })
  const entries = [special('root', 'read')]
  if (mode.startsWith('workspace-write')) entries.push(special('project_roots', 'write'), special('slash_tmp', 'write'), special('tmpdir', 'write'))
  return { windowsSandboxLevel: 'disabled', permissions: { type: 'managed', file_system: { type: 'restricted', entries }, network: mode.endsWith(',net') ? 'enabled' : 'restricted' }, cwd, workspaceRoots: [cwd] }
}
