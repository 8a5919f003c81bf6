/**
 * Start programs on a troupe server, stream their output, lose the connection and miss nothing.
 *
 * @module
 */
export * from "./client.js";
export { json, type Codec, type Message } from "./codec.js";
export * from "./errors.js";
export { Files, fileUri } from "./files.js";
export type { CallOptions, LinkState, RequestOptions } from "./link.js";
export { Exit, ExitError, Process, ProcessHandle, type Output, type ProcessEvent, type StartOptions } from "./process.js";
export type * from "./wire.js";
export { protocolVersion } from "./wire.js";
