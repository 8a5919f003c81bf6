// The place in the page is the fragment of its address: #/process/SESSION/PROCESS/TAB and so on.
export function route(): string[] {
  try {
    return location.hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent)
  } catch {
    return ['']
  }
}
export const href = (...parts: string[]): string => `#/${parts.map(encodeURIComponent).join('/')}`
