import type { Link } from './link'

// Typing sends input in its order, one request at a time. What is typed while the link is lost is kept, up to a bound, and sent once: a repeated
// writeId writes nothing twice.
export class Typing {
  private queue: Uint8Array[] = []
  private size = 0
  private sending = false

  constructor(
    private link: Link,
    private processId: string,
    private failed: (why: string) => void,
  ) {}

  type(data: string): void {
    this.bytes(new TextEncoder().encode(data))
  }

  bytes(data: Uint8Array): void {
    if (this.size + data.length > most) return this.failed(`The program has not read ${Math.round(this.size / 1024)} KiB of input: nothing more is taken until it does.`)
    this.queue.push(data)
    this.size += data.length
    if (!this.sending) void this.send()
  }

  private async send(): Promise<void> {
    this.sending = true
    try {
      while (this.queue.length) {
        const chunk = this.take()
        const r = await this.link.call('process/write', { processId: this.processId, chunk } as never)
        this.size -= chunk.length
        if (r.status === 'accepted') continue
        this.failed(r.status === 'stdinClosed' ? 'Its input is closed.' : 'The process is gone.')
        this.drop()
      }
    } catch (e) {
      this.failed((e as Error).message)
      this.drop()
    }
    this.sending = false
  }

  private drop(): void {
    this.queue = []
    this.size = 0
  }

  // take joins what waits, up to the size of a request.
  private take(): Uint8Array {
    const first = this.queue.shift()!
    if (first.length > atOnce) {
      this.queue.unshift(first.subarray(atOnce))
      return first.subarray(0, atOnce)
    }
    const all = [first]
    let n = first.length
    while (this.queue.length && n + this.queue[0]!.length <= atOnce) {
      n += this.queue[0]!.length
      all.push(this.queue.shift()!)
    }
    const out = new Uint8Array(n)
    let at = 0
    for (const a of all) {
      out.set(a, at)
      at += a.length
    }
    return out
  }
}

const most = 8 * 1024 * 1024
const atOnce = 32 * 1024
