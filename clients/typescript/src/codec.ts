import { bytesIn } from "./wire.js";

/** A message of the wire, before its params or result are looked at. */
export interface Message {
  id?: string | number;
  method?: string;
  params?: unknown;
  result?: unknown;
  error?: unknown;
}

/** A Codec encodes the messages of the wire. */
export interface Codec {
  /** The subprotocol for this encoding; undefined: none, for JSON. */
  readonly subprotocol: string | undefined;
  encode(message: Message): string | Uint8Array;
  decode(data: string | Uint8Array): Message;
}

/** The codec for JSON. */
export const json: Codec = {
  subprotocol: undefined,
  encode: (message) => JSON.stringify(message, base64Bytes),
  decode: (data) => JSON.parse(typeof data === "string" ? data : new TextDecoder().decode(data)) as Message,
};

function base64Bytes(this: unknown, key: string, value: unknown): unknown {
  const raw = (this as { [key: string]: unknown })[key]; // a Buffer has become an object in value
  return raw instanceof Uint8Array ? toBase64(raw) : value;
}

/** Faster functions, where they exist. */
interface Fast {
  Buffer?: { from(text: string, encoding: "base64"): Uint8Array; from(b: ArrayBufferLike, at: number, n: number): { toString(e: "base64"): string } };
}
const fast = globalThis as Fast;
const fromBase64Native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array }).fromBase64;

export function toBase64(bytes: Uint8Array): string {
  if (fast.Buffer) return fast.Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  const native = bytes as { toBase64?: () => string };
  if (native.toBase64) return native.toBase64();
  let text = "";
  for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return btoa(text);
}

export function fromBase64(text: string): Uint8Array {
  if (fromBase64Native) return fromBase64Native(text);
  if (fast.Buffer) {
    const b = fast.Buffer.from(text, "base64");
    return new Uint8Array(b.buffer, b.byteOffset, b.byteLength);
  }
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Turns the members with bytes into Uint8Arrays, in place. */
export function withBytes(method: string, value: unknown): unknown {
  for (const path of bytesIn[method] ?? []) convert(value, path.split("."), 0);
  return value;
}

function convert(value: unknown, path: readonly string[], at: number): void {
  if (typeof value !== "object" || value === null) return;
  if (path[at] === "*") {
    for (const one of value as unknown[]) convert(one, path, at + 1);
    return;
  }
  const name = path[at] as string;
  const object = value as { [name: string]: unknown };
  if (at + 1 < path.length) convert(object[name], path, at + 1);
  else if (typeof object[name] === "string") object[name] = fromBase64(object[name]);
}

const encoder = new TextEncoder();

/** Returns text in UTF-8, and bytes as a plain Uint8Array of the same memory. */
export function bytesOf(data: string | Uint8Array): Uint8Array {
  if (typeof data === "string") return encoder.encode(data);
  return data.constructor === Uint8Array ? data : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

export function concat(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Returns a new id: 128 random bits. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}
