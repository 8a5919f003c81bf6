import { type ProcessReadResult, TroupeError } from '@troupe/client'
import type { Link } from './link'
import type { ReadEvent, Screen } from './types'

// Output is asked for, piece by piece, and the next piece only when the last one is on the page: a program that writes faster than the page
// draws fills no buffer here. A cut needs no care: the question with the last seq is asked again.

export type Stream = 'stdout' | 'stderr' | 'pty'
export type View = {
  // screen draws a screen anew. Absent: the view wants output alone.
  screen?(s: Screen): Promise<void>
  // output resolves once data is drawn.
  output(data: Uint8Array, stream: Stream, atMs: number, seq: number): Promise<void> | void
  event?(e: ReadEvent): void
  missing?(afterSeq: number, firstSeq: number): void
  caughtUp?(): Promise<void> | void
}

const piece = 256 * 1024
const behind = 2 * 1024 * 1024 // so much output in a row that came faster than it could be drawn: take the screen instead
const wait = 20_000
const scrollback = 5000
const rest = 250 // between two screens, while output floods

export async function read(link: Link, processId: string, afterSeq: number, maxBytes: number, waitMs: number, instance?: string, signal?: AbortSignal): Promise<ProcessReadResult> {
  return link.call('process/read', { processId, afterSeq, maxBytes, waitMs, detail: 'times', instance }, { signal })
}

// parts calls f for the chunks and events of an answer, in the order of their seqs.
export function parts(r: ProcessReadResult): ({ seq: number; data: Uint8Array; stream: Stream; atMs: number } | { seq: number; event: ReadEvent })[] {
  const all: ReturnType<typeof parts> = r.chunks.map((c, i) => ({ seq: c.seq, data: c.chunk, stream: c.stream, atMs: r.timesMs?.[i] ?? 0 }))
  for (const event of r.events ?? []) all.push({ seq: event.seq, event })
  return all.sort((a, b) => a.seq - b.seq)
}

// follow shows a process until it has closed, or signal ends it. A terminal begins with the screen; other views begin after afterSeq.
export async function follow(link: Link, processId: string, view: View, signal: AbortSignal, afterSeq = 0): Promise<void> {
  let instance: string | undefined
  let seq = afterSeq
  let flood = false // the last screen was taken because output came too fast
  for (;;) {
    if (view.screen) {
      const s: Screen = await link.call('process/screen', { processId, instance, restore: true, scrollback: flood ? 0 : scrollback }, { signal })
      await view.screen(s)
      seq = s.seq
      instance = s.instance
    }
    const at = Date.now()
    const again = await pieces()
    if (!again) return
    flood = again === 'flood'
    if (flood) await sleep(rest - (Date.now() - at), signal)
  }

  async function pieces(): Promise<'flood' | 'screen' | ''> {
    let next = read(link, processId, seq, piece, wait, instance, signal)
    let late = 0
    for (;;) {
      const r = await next
      instance = r.instance ?? instance
      if (r.firstSeq > seq + 1) {
        view.missing?.(seq, r.firstSeq)
        if (view.screen) return 'flood'
      }
      const from = seq
      seq = Math.max(seq, r.nextSeq - 1)
      const all = parts(r)
      const ended = r.closed && seq === from && !all.length
      if (!ended) {
        next = read(link, processId, seq, piece, wait, instance, signal) // while this piece is drawn, the next one comes
        next.catch(() => {})
      }
      let size = 0
      for (const p of all) {
        if ('event' in p) view.event?.(p.event)
        else {
          size += p.data.length
          await view.output(p.data, p.stream, p.atMs, p.seq)
        }
        if (signal.aborted) throw signal.reason
      }
      late = size > piece / 2 ? late + size : 0
      if (view.screen && late > behind) return 'flood'
      if (late === 0) {
        await view.caughtUp?.()
        if (view.screen && flood) return 'screen' // the flood is over: the screen with its scrollback
      }
      if (ended) return ''
    }
  }
}

async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise((done) => setTimeout(done, Math.max(0, ms)))
  signal.throwIfAborted()
}

export const isGone = (e: unknown): boolean => e instanceof TroupeError && (e.kind === 'unknownProcess' || e.kind === 'ended')
