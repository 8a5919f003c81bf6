// The colours: those of the system, unless a person has chosen others.
export type Theme = 'auto' | 'dark' | 'light'

const listeners = new Set<() => void>()
const system = matchMedia('(prefers-color-scheme: light)')
system.addEventListener('change', () => apply())

export function theme(): Theme {
  const t = localStorage.getItem('theme')
  return t === 'dark' || t === 'light' ? t : 'auto'
}

export function setTheme(t: Theme): void {
  localStorage.setItem('theme', t)
  apply()
}

export function onTheme(f: () => void): () => void {
  listeners.add(f)
  return () => listeners.delete(f)
}

function apply(): void {
  const t = theme()
  document.documentElement.dataset.theme = t === 'auto' ? (system.matches ? 'light' : 'dark') : t
  for (const f of listeners) f()
}
apply()

export const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

// colours are those of the terminal, from the style sheet.
export function colours(): Record<string, string> {
  const names = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white']
  const all: Record<string, string> = {}
  for (const n of [...names, ...names.map((x) => `bright${x[0]!.toUpperCase()}${x.slice(1)}`)]) all[n] = colour(`--${n.toLowerCase()}`)
  return { ...all, background: colour('--terminal'), foreground: colour('--terminal-text'), cursor: colour('--terminal-text'), cursorAccent: colour('--terminal'), selectionBackground: colour('--selection') }
}
