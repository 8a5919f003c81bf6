import { decode, encode } from "@msgpack/msgpack";
import type { Codec, Message } from "./codec.js";

/** The codec for msgpack: output crosses the wire without base64. For the option `codec` of `connect`. */
export const msgpack: Codec = {
  subprotocol: "troupe.msgpack",
  encode: (message) => encode(message, { ignoreUndefined: true }),
  decode: (data) => decode(bytes(data)) as Message,
};

function bytes(data: string | Uint8Array): Uint8Array {
  if (typeof data === "string") throw new Error("a text message came on a connection with msgpack");
  return data;
}
