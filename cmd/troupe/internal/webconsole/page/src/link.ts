import { Client, type CallOptions, type ConnectOptions, type Methods, type Role, TroupeError } from '@troupe/client'

// A Link is a client of the server that comes back by itself, for as long as the page wants it. It takes no output: whoever reads output asks for
// it by its seq, and after a cut the client asks the same question again.

type LinkOptions = { session?: string; role?: Role; create?: { name?: string; keepRunning?: boolean }; node?: string } // node: the name of the node for an ephemeral session
export type LinkState = { up: boolean; lostAt: number; reason: string; over: boolean } // over: it does not come back

const url = `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/`
const pause = 1000 // before the first connection is tried again

export class Link {
  state: LinkState = { up: false, lostAt: Date.now(), reason: '', over: false }
  client: Promise<Client>
  sessionId: string | undefined
  onstate: () => void = () => {}
  onclient: (c: Client) => void = () => {} // with the first client, and with another one in another session

  private closed = new AbortController()

  // Without a session and without create, the session is the one of the page's guest, or an ephemeral one, for what belongs to no session.
  constructor(private options: LinkOptions = {}, private guest = false) {
    this.client = this.connect()
    this.client.catch(() => {})
  }

  async call<M extends keyof Methods>(method: M, params: Methods[M]['params'], options?: CallOptions): Promise<Methods[M]['result']> {
    return ((await this.client).request as (m: M, p: Methods[M]['params'], o?: CallOptions) => Promise<Methods[M]['result']>)(method, params, options)
  }

  close(reason = 'the page has left'): void {
    if (this.state.over) return
    this.set({ up: false, over: true, reason })
    this.closed.abort(new Error(reason))
  }

  private set(s: Partial<LinkState>): void {
    this.state = { ...this.state, ...s }
    this.onstate()
  }

  private async connect(): Promise<Client> {
    const { session, role, create, node } = this.options
    const options: ConnectOptions = { name: 'console', reconnectForMs: Infinity, deadAfterMs: 20_000, pingEveryMs: 5_000, signal: this.closed.signal }
    if (session) Object.assign(options, { resumeSessionId: session, role: role ?? 'controller' })
    else if (!this.guest) Object.assign(options, { session: create ?? { ephemeral: true }, placement: node === undefined ? undefined : { node } })
    for (;;) {
      try {
        const client = await Client.connect(url, options)
        this.sessionId = client.sessionId
        this.follow(client)
        return client
      } catch (e) {
        this.closed.signal.throwIfAborted()
        if (!(e instanceof TroupeError) || !['lost', 'busy', 'internal'].includes(e.kind)) {
          this.close((e as Error).message)
          throw e
        }
        this.set({ reason: e.message })
        await new Promise((done) => setTimeout(done, pause))
      }
    }
  }

  private follow(client: Client): void {
    client.on('link', (s) => {
      if (this.state.over) return
      if (s.state === 'connected') this.set({ up: true, reason: '' })
      else if (s.state === 'lost') this.set({ up: false, lostAt: s.since, reason: s.error.message })
      else if (s.state === 'closed') this.ended(s.error)
    })
    this.set({ up: true, reason: '' })
    this.onclient(client)
  }

  // An ephemeral session ends with its connection: there is another one for the next.
  private ended(e: TroupeError): void {
    if (!this.options.session && !this.options.create && !this.guest && e.kind === 'unknownSession') {
      this.client = this.connect()
      this.client.catch(() => {})
    } else this.close(e.message)
  }
}
