import { age, bytes } from './format'
import type { ExitStatus, ProcessInfo, SessionSummary, Wait } from './types'

// The words for people, in the sense of cmd/troupe/internal/why.

export type Tone = 'good' | 'warn' | 'bad' | 'dim'

// ended reports whether no other run follows.
export const ended = (p: ProcessInfo): boolean => p.state === 'closed' || p.state === 'left'

// State returns the state of a process in a word: paused while a signal has stopped it; once no other run follows, failed or ended.
export function state(p: ProcessInfo): string {
  if (paused(p)) return 'paused'
  if (!ended(p)) return p.state
  return failed(p) ? 'failed' : 'ended'
}

export const paused = (p: ProcessInfo): boolean => p.state === 'running' && (p.waitsFor?.some((w) => w.for === 'continue') ?? false)

const failed = (p: ProcessInfo): boolean => p.status !== undefined && p.status.exitCode !== 0 && !p.status.reason?.endsWith(' by request')

export function tone(p: ProcessInfo): Tone {
  if (ended(p)) return failed(p) ? 'bad' : 'dim'
  if (p.state !== 'running') return 'warn'
  return p.waitsFor?.some((w) => w.for !== 'itself') || p.pendingWrites > 0 || p.probeError ? 'warn' : 'good'
}

const paren = (text: string, reason?: string): string => (reason ? `${text} (${reason})` : text)

export function exit(s: ExitStatus): string {
  let text = s.signal || `exit code ${s.exitCode}`
  if (s.oomKilled) text += ', out of memory'
  else if (s.timedOut) text += ', timed out'
  return paren(text, s.reason)
}

// quietAfter is the silence in milliseconds from which on a process without a wait counts as quiet.
const quietAfter = 10_000

// wait says in words what a process waits for; help, what a person can do about it. quietMs is as of now, and cores are what the process uses.
export function wait(p: ProcessInfo, w: Wait, quietMs: number, cores: number): { text: string; help?: string } {
  const passed = quietMs - p.quietMs // since the server said so
  const left = age((w.inMs ?? 0) - passed)
  switch (w.for) {
    case 'owner':
      return p.viewers?.some((v) => v.hold)
        ? { text: `${paren('output full', w.limit)}: its viewers have not read it`, help: 'The program goes on when its viewers have read its output.' }
        : { text: `${paren('output full', w.limit)}: its owner does not read it`, help: `The client that owns the session has gone, or does not read, and the server keeps the output for it. Choose “Read its output” to let the program go on: from then on, the server keeps the newest ${bytes(p.retainedBytes)}, and drops what is older.` }
    case 'budget':
      return { text: `${paren('output full', w.limit)}: the server’s memory for output is used up`, help: 'The program goes on when clients have read other output of the server.' }
    case 'rate':
      return { text: paren('writes more than the server allows', w.limit), help: 'The program waits in turns. Nothing is lost.' }
    case 'continue':
      return { text: 'paused by a signal', help: 'Choose “Continue” to let it go on.' }
    case 'end':
      return { text: w.inMs ? `ending: SIGKILL in ${left}` : 'ending' }
    case 'ready':
      return { text: paren('not ready yet', w.reason) + (w.inMs ? `; it is ended in ${left}` : '') }
    case 'backoff':
      return { text: paren(`restarts in ${left}`, w.reason), help: 'Choose “Restart” to run it at once.' }
    case 'group':
      return { text: paren(w.inMs ? `group restarts in ${left}` : 'waits for its group', w.reason) }
    case 'descendants':
      return { text: `${p.status ? `${exit(p.status)}; ` : ''}descendants hold its output`, help: 'The program itself has exited. “Stop” ends what it has left behind.' }
    case 'start':
      return { text: 'starting' }
    case 'itself':
      return quietMs >= quietAfter ? idle(p, quietMs, cores) : { text: '' }
  }
  return { text: `waits for ${w.for}` }
}

// idle says what is known of a process that writes nothing although the server does not hold it back.
function idle(p: ProcessInfo, quietMs: number, cores: number): { text: string; help: string } {
  const text = `quiet for ${age(quietMs)}`
  if (cores >= 0.3) return { text: `${text}, computes`, help: `It uses ${(cores * 100).toFixed(0)} % of a core.` }
  const input = p.stdinOpen ? 'waits for input' : 'waits for another program'
  return { text, help: `It hardly uses the CPU: it sleeps, or ${input}.${p.stdinOpen ? '' : ' It cannot wait for input: it has no stdin, or its stdin is closed.'}` }
}

// quiet says why a process writes nothing. Empty: it has just written.
export function quiet(p: ProcessInfo, quietMs: number, cores: number): string {
  let text = ''
  if (p.waitsFor?.length) text = wait(p, p.waitsFor[0]!, quietMs, cores).text
  else if (p.status) text = exit(p.status)
  if (p.pendingWrites > 0) text = join(text, 'does not read its stdin')
  if (p.probeError && !ended(p)) text = join(text, `probe: ${p.probeError}`)
  return text
}

// left says of a session without an owner how its owner has left, if it did not close the connection, and when the session ends.
export function left(s: SessionSummary, now: number): string {
  const text = s.left ? `client left ${age(now - (s.detachedAtMs ?? now))} ago: ${s.left}` : ''
  return s.state === 'detached' && s.endsAtMs ? join(text, `session ends in ${age(s.endsAtMs - now)} unless somebody attaches`) : text
}

export const join = (a: string, b: string): string => (a && b ? `${a}; ${b}` : a + b)
