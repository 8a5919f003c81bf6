// The streams of `troupe load-program` (cmd/troupe/internal/load/stream), written a second time: the key of a program and a position give each byte.

const mask48 = (1n << 48n) - 1n;
const mask64 = (1n << 64n) - 1n;

/** A bijection of 64 bits: the finalizer of SplitMix64. */
function mix(x: bigint): bigint {
  x = (x + 0x9e3779b97f4a7c15n) & mask64;
  x = ((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n) & mask64;
  x = ((x ^ (x >> 27n)) * 0x94d049bb133111ebn) & mask64;
  return x ^ (x >> 31n);
}

function scramble(x: bigint): bigint {
  x = ((x + 0x5bd1e9955bd1n) * 0x9e3779b97f4bn) & mask48;
  x ^= x >> 24n;
  x = (x * 0xd6e8feb86659n) & mask48;
  return x ^ (x >> 24n);
}

/** The key of a stream of a run of a program. */
function keyOf(key: bigint, run: bigint, name: string): bigint {
  let h = mix(key ^ 0x74726f757065n);
  for (const text of ["", "", name]) {
    h = mix(h ^ BigInt(text.length));
    for (let at = 0; at < text.length; at += 8) {
      let word = 0n;
      for (let i = 0; i < 8 && at + i < text.length; i++) word |= BigInt(text.charCodeAt(at + i)) << BigInt(8 * i);
      h = mix(h ^ word);
    }
  }
  return mix(h ^ run) & mask48;
}

/** Returns the first bytes of a stream. */
export function stream(key: bigint, run: number, name: string, size: number): Uint8Array {
  const own = keyOf(key, BigInt(run), name);
  const bytes = new Uint8Array(Math.ceil(size / 16) * 16);
  for (let at = 0; at < bytes.length; at += 16) {
    const first = scramble(BigInt(at / 16));
    let half = first;
    for (const begin of [0, 8]) {
      for (let i = 0; i < 8; i++) bytes[at + begin + i] = 48 + Number((half >> BigInt(6 * i)) & 63n);
      half = (mix(first) ^ own) & mask48;
    }
  }
  return bytes.subarray(0, size);
}

/** Returns the content of what a program has written: without its first line, the hello, which stderr lacks, and its last line, the end. */
export function content(output: Uint8Array, hello = true): Uint8Array {
  return output.subarray(hello ? output.indexOf(10) + 1 : 0, output.lastIndexOf(10, output.length - 2));
}
