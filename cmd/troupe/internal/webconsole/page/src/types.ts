// The part of the wire that the page reads.
export type ExitStatus = { exitCode: number; signal?: string; timedOut?: boolean; oomKilled?: boolean; reason?: string; run: number; rusage: { userMs: number; systemMs: number; maxRssBytes: number } }
export type Wait = { for: string; sinceMs: number; inMs?: number; bytes?: number; limit?: string; reason?: string }
export type Viewer = { role: string; lagBytes: number; lagMs: number; hold?: boolean }
export type Usage = { of: string; userMs: number; systemMs: number; memoryBytes?: number; pids?: number }
export type ProcessInfo = {
  processId: string; instance?: string; state: string; group?: string; run: number; ready?: boolean; restartInMs?: number; pid?: number; argv: string[]; cwd: string
  tty: boolean; user?: { name: string; uid: number; gid: number }; sandbox?: string; startedAtMs: number; containment?: string; firstSeq: number; nextSeq: number
  retainedBytes: number; unackedBytes: number; status?: ExitStatus; endsWithServer?: boolean
  quietMs: number; waitsFor?: Wait[]; pendingWrites: number; outputBytes: number; droppedBytes: number; spooledBytes?: number; viewers?: Viewer[]; usage?: Usage; probeError?: string
}
export type SessionSummary = {
  sessionId: string; name?: string; identity?: string; createdAtMs: number; observers: number; processes: number; keepRunning?: boolean; state: string
  detachedAtMs?: number; left?: string; endsAtMs?: number
}
export type GroupInfo = { groupId: string; strategy: string; state: string; reason?: string; restarts: number; processes: { processId: string; state: string; run: number; ready?: boolean; reason?: string; label?: string }[] }
export type SessionChange = SessionSummary & { list?: ProcessInfo[]; groups?: GroupInfo[]; forgotten?: string[]; forgottenGroups?: string[] }
export type ServerChanged = { anew?: boolean; sessions?: SessionChange[]; gone?: string[]; whole?: boolean }
export type Chunk = { seq: number; stream: 'stdout' | 'stderr' | 'pty'; chunk: string }
export type ReadEvent = { seq: number; atMs: number; kind: string; run?: number; reason?: string; status?: ExitStatus }
export type ReadResult = { chunks: Chunk[]; nextSeq: number; exited: boolean; closed: boolean; firstSeq: number; timesMs?: number[]; events?: ReadEvent[]; instance?: string }
export type Screen = {
  instance: string; run: number; seq: number; rows: number; cols: number; lines: string[]; title?: string; scrollbackLines: number; restore?: string; whole: boolean
  exited: boolean; closed: boolean; altScreen: boolean
}
export type FsEntry = { fileName: string; nameBase64?: string; kind: string; mode: number; size: number; modifiedAtMs: number; target?: string }
export type ShareInfo = { shareId: string; name?: string; access: 'read' | 'type'; createdAtMs: number; expiresAtMs: number; guests: number }
export type Me = { auth: boolean; identity: string | null; oidc?: boolean }
