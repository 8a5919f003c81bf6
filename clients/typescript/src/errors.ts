import type { ErrorKind, WireError } from "./wire.js";

/** The kind of an error: of a refusal by the server, or of the client itself. */
export type Kind =
  | ErrorKind
  /** The connection is lost, and an answer with it: perhaps the request was done. */
  | "lost"
  /** While the connection was lost, a file that is being read has changed. */
  | "changed"
  /** The client was closed. */
  | "closed"
  /** Client and server do not understand each other. */
  | "protocol"
  /** Output was lost. */
  | "gap"
  /** The program has failed. */
  | "exit"
  /** The output is longer than its reader takes. */
  | "tooLong";

/** Every error of this package. Branch on `kind`, never on the text. */
export class TroupeError extends Error {
  readonly kind: Kind;

  constructor(kind: Kind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.kind = kind;
  }
}

/** The server refused a request. */
export class RequestError extends TroupeError {
  readonly method: string;
  readonly code: number;
  /** What to do, for people; undefined: the server gave no advice. */
  readonly advice: string | undefined;
  /** The limit that is reached, with its value and how much of it is used. */
  readonly limit: { readonly name: string; readonly value: number | undefined; readonly used: number | undefined } | undefined;

  constructor(method: string, error: WireError) {
    const data = error.data ?? {};
    super(data.kind ?? kindOf(error), `${method}: ${error.message}`);
    this.method = method;
    this.code = error.code;
    this.advice = data.advice;
    this.limit = data.limit === undefined ? undefined : { name: data.limit, value: data.value, used: data.used };
  }
}

/** Returns the kind of an error of a server without kinds. */
function kindOf(error: WireError): Kind {
  if (error.message.startsWith("unknown process id ")) return "unknownProcess";
  if (error.message.startsWith("unknown session id ")) return "unknownSession";
  switch (error.code) {
    case -32004:
      return "notFound";
    case -32010:
      return "attached";
    case -32011:
      return "role";
    case -32012:
      return "unauthorized";
    case -32601:
      return "method";
    case -32602:
      return "params";
    case -32603:
      return "system";
  }
  return "message";
}

/**
 * The client has no connection to its session. `kind` is `lost` (perhaps for now), `closed`, `unauthorized`, `protocol`,
 * `unknownSession` (the session has ended) or `evicted` (another client has taken the session).
 */
export class ConnectionError extends TroupeError {
  /** The code of the Close frame; undefined: none came. */
  readonly closeCode: number | undefined;

  constructor(kind: Kind, message: string, options?: ErrorOptions & { closeCode?: number | undefined }) {
    super(kind, message, options);
    this.closeCode = options?.closeCode;
  }
}

/** Output of a process is lost for good. */
export class GapError extends TroupeError {
  readonly processId: string;
  readonly fromSeq: number;
  readonly toSeq: number;
  /** How many bytes are lost; 0: unknown. */
  readonly bytes: number;

  constructor(processId: string, gap: { fromSeq: number; toSeq: number; bytes: number; reason: string }) {
    super("gap", `process ${processId}: output ${gap.fromSeq} to ${gap.toSeq} was lost (${gap.bytes} bytes): ${gap.reason}`);
    this.processId = processId;
    this.fromSeq = gap.fromSeq;
    this.toSeq = gap.toSeq;
    this.bytes = gap.bytes;
  }
}
