// The names of the wire that the page uses, and the answer to GET me.
export type {
  Chunk, ClusterNode, ExitStatus, FsEntry, GroupInfo, ProcessInfoResult as ProcessInfo, ProcessReadResult as ReadResult, ProcessScreenResult as Screen, ReadEvent, Role,
  ServerChangedNotification as ServerChanged, SessionSummary, ShareInfo, Viewer, Wait,
} from '@troupe/client'
export type Me = { auth: boolean; identity: string | null; oidc?: boolean }
