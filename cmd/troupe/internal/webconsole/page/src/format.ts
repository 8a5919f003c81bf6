// Words and numbers for people, as the commands of troupe write them.

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

export function bytes(n: number): string {
  let i = 0
  for (; n >= 999.5 && i < units.length - 1; i++) n /= 1024
  return `${i > 0 && n < 9.95 ? n.toFixed(1) : n.toFixed(0)} ${units[i]}`
}

export const count = (n: number): string => n.toLocaleString('en-US')

// age returns a time span in its largest unit, or in the two largest while the first is small: 45s, 3m, 1h12m, 2d4h.
export function age(ms: number): string {
  const s = Math.floor(Math.max(ms, 0) / 1000)
  if (s < 60) return `${s}s`
  if (s < 3600) return `${Math.floor(s / 60)}m`
  const [large, small, l, sm] = s < 86400 ? [3600, 60, 'h', 'm'] : [86400, 3600, 'd', 'h']
  const n = Math.floor(s / large)
  const rest = Math.floor((s % large) / small)
  return n >= 10 || rest === 0 ? `${n}${l}` : `${n}${l}${rest}${sm}`
}

export function clock(ms: number): string {
  const d = new Date(ms)
  return `${d.toLocaleTimeString('en-GB')}.${String(d.getMilliseconds()).padStart(3, '0')}`
}
export const date = (ms: number): string => new Date(ms).toLocaleString('sv-SE')

const unsafe = /[\p{Cc}\p{Zl}\p{Zp}\p{Co}\p{Cs}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu

// harmless writes control, bidirectional and invisible characters as escapes. It is for names and other short texts.
export const harmless = (s: string): string => s.replace(unsafe, escape)

function escape(c: string): string {
  const code = c.codePointAt(0)!
  const short = { 9: '\\t', 10: '\\n', 13: '\\r' }[code]
  return short ?? (code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`)
}

// sequence is a control sequence of a terminal: CSI, OSC and other strings, and short escapes.
const sequence = /\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])/g

// line makes a line of output a line of text: without control sequences, and with the rest of its control characters as escapes. Of a line
// that was written over after carriage returns, the last text counts.
export function line(s: string): string {
  s = s.replace(sequence, '')
  const last = s.replace(/\r+$/, '').lastIndexOf('\r')
  return harmless(s.slice(last + 1).replace(/\r+$/, '').replaceAll('\t', '    '))
}

// command writes an argv as one would type it in a shell.
export function command(argv: string[]): string {
  return argv.map((a) => (/^[\w@%+=:,./-]+$/.test(a) ? a : `'${a.replaceAll("'", `'\\''`)}'`)).join(' ')
}

// path returns the path of a file URI, or the text itself, such as ~.
export function path(uri: string): string {
  if (!uri.startsWith('file://')) return uri
  try {
    return decodeURIComponent(uri.slice('file://'.length))
  } catch {
    return uri
  }
}

export const fileURI = (p: string): string => (p === '~' || p.startsWith('~/') ? p : `file://${p.split('/').map(encodeURIComponent).join('/')}`)
