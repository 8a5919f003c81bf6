// A Link is a connection to the server that comes back by itself. It holds no output: whoever reads output asks for it by its seq, so that after
// a cut the same question has the answer that was lost.

export type Role = 'owner' | 'controller' | 'observer' | 'typist'
export type LinkOptions = { session?: string; role?: Role; create?: Record<string, unknown>; guest?: boolean } // a guest names no session: the share does
export type LinkState = { up: boolean; lostAt: number; reason: string; over: boolean } // over: it does not come back

export class RequestError extends Error {
  constructor(readonly code: number, message: string, readonly kind: string, readonly advice: string) {
    super(advice ? `${message}: ${advice}` : message)
  }
}

type Pending = { method: string; params: unknown; again: boolean; done: (result: any) => void; failed: (e: Error) => void }

// Close codes after which a resume is pointless (PROTOCOL.md, section 22.2).
const final = new Set([1000, 1002, 4001])
const answerWithin = 45_000 // a link is silent for less: the server pings below JavaScript, so a long poll ends before that

export class Link {
  state: LinkState = { up: false, lostAt: Date.now(), reason: '', over: false }
  sessionId: string | undefined
  home = '~'
  onstate: (s: LinkState) => void = () => {}
  onnotification: (method: string, params: any) => void = () => {}
  onup: () => void = () => {}

  private socket: WebSocket | undefined
  private next = 1
  private pending = new Map<number, Pending>()
  private waiting: Pending[] = []
  private pause = 0
  private timer = 0

  constructor(private options: LinkOptions = {}) {
    this.sessionId = options.session
    this.open()
  }

  // call sends a request and returns its result. With again, a request that a cut has left without an answer is sent again, unchanged: only
  // for requests that the server recognizes, or that change nothing.
  call<T = any>(method: string, params: unknown = {}, again = true, signal?: AbortSignal): Promise<T> {
    return new Promise<T>((done, failed) => {
      if (this.state.over) return failed(new Error(this.state.reason || 'the link is closed'))
      if (signal?.aborted) return failed(signal.reason)
      const p: Pending = { method, params, again, done, failed }
      signal?.addEventListener('abort', () => failed(signal.reason), { once: true })
      if (this.state.up) this.send(p)
      else this.waiting.push(p)
    })
  }

  close(reason = 'closed'): void {
    if (this.state.over) return
    clearTimeout(this.timer)
    this.set({ up: false, over: true, reason })
    this.socket?.close(1000)
    for (const p of [...this.pending.values(), ...this.waiting]) p.failed(new Error(reason))
    this.pending.clear()
    this.waiting = []
  }

  private set(s: Partial<LinkState>): void {
    this.state = { ...this.state, ...s }
    this.onstate(this.state)
  }

  private send(p: Pending): void {
    const id = this.next++
    this.pending.set(id, p)
    this.socket!.send(JSON.stringify({ id, method: p.method, params: p.params }))
  }

  private open(): void {
    const socket = new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/`, ['troupe.json'])
    this.socket = socket
    let heard = false
    const late = setTimeout(() => socket.close(), answerWithin)
    socket.onopen = () => socket.send(JSON.stringify({ id: 0, method: 'initialize', params: this.hello() }))
    socket.onmessage = (e) => {
      if (socket !== this.socket) return
      const m = JSON.parse(e.data as string)
      if (m.id === 0 && !heard) {
        heard = true
        clearTimeout(late)
        this.greeted(socket, m)
      } else if (m.id !== undefined) {
        const p = this.pending.get(m.id)
        this.pending.delete(m.id)
        if (m.error) p?.failed(new RequestError(m.error.code, m.error.message, m.error.data?.kind ?? '', m.error.data?.advice ?? ''))
        else p?.done(m.result)
      } else this.onnotification(m.method, m.params)
    }
    socket.onclose = (e) => {
      clearTimeout(late)
      if (socket === this.socket) this.lost(e.code, e.reason)
    }
  }

  private hello(): Record<string, unknown> {
    const o = this.options
    const hello: Record<string, unknown> = { clientName: 'console', capabilities: { onlyNamed: true, gap: true } }
    if (o.guest) return hello
    if (o.session) Object.assign(hello, { resumeSessionId: o.session, resumeFrom: {}, role: o.role ?? 'controller' })
    else hello.session = o.create ?? { ephemeral: true }
    return hello
  }

  private greeted(socket: WebSocket, m: any): void {
    if (m.error) {
      const kind = m.error.data?.kind
      const retry = m.error.code === -32603 || kind === 'busy' || kind === 'attached'
      const reason = m.error.message as string
      if (!retry) return this.close(reason)
      this.set({ reason })
      return socket.close()
    }
    socket.send(JSON.stringify({ method: 'initialized' }))
    this.sessionId = m.result.sessionId
    if (m.result.environmentInfo) this.home = m.result.environmentInfo.userHomeDir ?? '~'
    if (this.options.create) this.options = { session: this.sessionId, role: 'owner' } // a cut must not make another session
    this.pause = 0
    this.set({ up: true, reason: '' })
    this.onup()
    for (const p of this.waiting.splice(0)) this.send(p)
  }

  private lost(code: number, reason: string): void {
    const unanswered = [...this.pending.values()]
    this.pending.clear()
    if (this.state.over) return
    if (final.has(code)) {
      this.waiting.push(...unanswered)
      return this.close(reason || 'the server has closed the connection')
    }
    for (const p of unanswered) {
      if (p.again) this.waiting.push(p)
      else p.failed(new Error('the link was lost before the answer: look whether it was done, and try again'))
    }
    this.set({ up: false, lostAt: this.state.up ? Date.now() : this.state.lostAt, reason: reason || this.state.reason })
    this.timer = window.setTimeout(() => this.open(), this.pause)
    this.pause = Math.min(5000, Math.max(100, this.pause * 2)) * (0.75 + Math.random() / 2)
  }
}

// id returns 128 random bits, for writeId, requestId and startToken.
export const id = (): string => crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('')

export function decode(base64: string): Uint8Array {
  const fast = (Uint8Array as unknown as { fromBase64?: (s: string) => Uint8Array }).fromBase64
  if (fast) return fast.call(Uint8Array, base64)
  const binary = atob(base64)
  const out = new Uint8Array(binary.length)
  for (let i = 0; i < out.length; i++) out[i] = binary.charCodeAt(i)
  return out
}

export function encode(data: Uint8Array): string {
  let s = ''
  for (let i = 0; i < data.length; i += 8192) s += String.fromCharCode(...data.subarray(i, i + 8192))
  return btoa(s)
}
