import { type Client, RequestError } from '@troupe/client'
import { Link } from './link'
import type { ClusterNode, GroupInfo, Me, ProcessInfo, ServerChanged, SessionSummary } from './types'
import { ended } from './why'

// Process is what the page knows of a process: the server's words, and what follows from two of them.
export type Process = { info: ProcessInfo; session: Session; at: number; rate: number; cpu: number } // at: when info came; bytes/s; cores
export type Session = { summary: SessionSummary; processes: Map<string, Process>; groups: Map<string, GroupInfo>; link: Link } // link: that tells of it

// A server tells of the sessions on its own node alone. In a cluster the page has links to mostNodes other nodes at most, and looks after each lookEvery ms which nodes
// there are.
const mostNodes = 32
const lookEvery = 10_000
const methodNotFound = -32601

// Store has the state of the server as server/watch pushes it. Views listen, and draw at most once a frame.
class Store {
  sessions = new Map<string, Session>()
  whole = false
  me: Me = { auth: false, identity: null }
  link: Link | undefined
  home = '' // the home of the server's user
  nodes: ClusterNode[] = [] // of the cluster; empty: there is none
  others = new Map<string, Link>() // to the other nodes, by their ids

  private listeners = new Set<() => void>()
  private drawDue = 0
  private looking = 0 // the timer of look

  listen(f: () => void): () => void {
    this.listeners.add(f)
    return () => this.listeners.delete(f)
  }

  // changed has the views drawn with the next frame.
  changed = (): void => {
    this.drawDue ||= requestAnimationFrame(() => {
      this.drawDue = 0
      for (const f of [...this.listeners]) f()
    })
  }

  get guest(): boolean {
    return this.me.identity?.startsWith('share:') ?? false
  }

  // connect opens the link of the page. It holds an ephemeral session of its own, for files and the watch; a guest has the session of the share.
  connect(): void {
    this.close()
    this.sessions.clear()
    this.whole = false
    const link = new Link({}, this.guest)
    this.link = link
    link.onstate = this.changed
    link.onclient = (c) => {
      this.watch(link, c)
      if (this.guest) return
      c.environment().then((e) => (this.home = e.userHomeDir ?? ''), () => {})
      void this.look(link)
    }
  }

  // close ends all links.
  close(): void {
    clearTimeout(this.looking)
    this.link?.close()
    for (const link of this.others.values()) link.close()
    this.nodes = []
  }

  private watch(link: Link, c: Client): void {
    c.on('server/changed', (change) => this.take(change, link))
    c.watch(1000).catch(() => {})
  }

  // look opens a link to each other node of the cluster, and looks again later: nodes join and leave.
  private look = async (link: Link): Promise<void> => {
    clearTimeout(this.looking)
    try {
      const { nodes } = await link.call('cluster/nodes', {})
      if (link.state.over) return
      this.nodes = nodes.filter((n) => n.leftAtMs === undefined)
    } catch (e) {
      if (link.state.over || (e instanceof RequestError && e.code === methodNotFound)) return // the server is alone
    }
    for (const n of this.nodes) if (!n.self && !n.draining && !this.others.has(n.id) && this.others.size < mostNodes) this.open(n)
    this.changed()
    this.looking = setTimeout(() => void this.look(link), lookEvery)
  }

  private open(n: ClusterNode): void {
    const link = new Link({ node: n.name })
    this.others.set(n.id, link)
    link.onclient = (c) => {
      c.on('session/expiring', () => link.close()) // a node that is drained ends with its last session: the page's must not keep the node
      this.watch(link, c)
    }
    link.onstate = () => {
      if (link.state.over) {
        this.others.delete(n.id)
        this.drop(link)
      }
      this.changed()
    }
  }

  // drop forgets the sessions of which a link tells.
  private drop(link: Link): void {
    for (const [id, s] of this.sessions) if (s.link === link) this.sessions.delete(id)
  }

  get(sessionId: string, processId: string): Process | undefined {
    return this.sessions.get(sessionId)?.processes.get(processId)
  }

  private take(c: ServerChanged, link: Link): void {
    const now = Date.now()
    if (c.anew) this.drop(link)
    for (const gone of c.gone ?? []) this.sessions.delete(gone)
    for (const { list, groups, forgotten, forgottenGroups, ...summary } of c.sessions ?? []) {
      let s = this.sessions.get(summary.sessionId)
      if (s) s.summary = summary
      else this.sessions.set(summary.sessionId, (s = { summary, processes: new Map(), groups: new Map(), link }))
      for (const id of forgotten ?? []) s.processes.delete(id)
      for (const id of forgottenGroups ?? []) s.groups.delete(id)
      for (const info of list ?? []) s.processes.set(info.processId, follow(s.processes.get(info.processId), info, s, now))
      for (const g of groups ?? []) s.groups.set(g.groupId, g)
    }
    if (c.whole && link === this.link) this.whole = true
    this.changed()
  }
}

function follow(before: Process | undefined, info: ProcessInfo, session: Session, now: number): Process {
  let rate = 0
  let cpu = 0
  if (before && before.info.instance === info.instance && now > before.at) {
    const seconds = (now - before.at) / 1000
    rate = Math.max(0, info.outputBytes - before.info.outputBytes) / seconds
    if (info.usage && before.info.usage && info.run === before.info.run) {
      cpu = Math.max(0, info.usage.userMs + info.usage.systemMs - before.info.usage.userMs - before.info.usage.systemMs) / 1000 / seconds
    }
  }
  return { info, session, at: now, rate, cpu }
}

// A process about which nothing has come for this time writes nothing: the server pushes changes once a second.
const stale = 2500
export const rate = (p: Process, now: number): number => (now - p.at > stale || ended(p.info) ? 0 : p.rate)
export const cpu = (p: Process, now: number): number => (now - p.at > stale || ended(p.info) ? 0 : p.cpu)

// quietMs is how long a process has written nothing, as of now.
export const quietMs = (p: Process, now: number): number => p.info.quietMs + now - p.at

export const store = new Store()
