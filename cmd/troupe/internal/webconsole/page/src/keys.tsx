import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { Drawn } from './terminal'

// The keys that the keyboard of a phone lacks. style.css shows them on a touch screen.

const keys: [text: string, name: string, key: string, code: number][] = [
  ['Esc', 'Escape', 'Escape', 27], ['Tab', 'Tab', 'Tab', 9], ['←', 'Left', 'ArrowLeft', 37], ['↑', 'Up', 'ArrowUp', 38], ['↓', 'Down', 'ArrowDown', 40], ['→', 'Right', 'ArrowRight', 39],
]

// Control keeps Control down for the next key, be it here or on the keyboard.
export class Control {
  down = false
  changed: () => void = () => {}

  set(down: boolean): void {
    this.down = down
    this.changed()
  }

  // of returns what the terminal sends for what was typed: with Control down, the control character of a character.
  of(data: string): string {
    if (!this.down || data.length !== 1) return data
    this.set(false)
    return /[@-_a-z]/.test(data) ? String.fromCharCode(data.toUpperCase().charCodeAt(0) & 0x1f) : data
  }
}

export function Keys({ drawn }: { drawn: () => Drawn | undefined }): JSX.Element {
  const [down, setDown] = useState(false)
  // The terminal knows what a key sends: it depends on the modes that the program has set.
  const press = (key: string, keyCode: number): void => {
    const d = drawn()
    d?.term.textarea?.dispatchEvent(new KeyboardEvent('keydown', { key, keyCode, ctrlKey: d.control.down, bubbles: true, cancelable: true }))
    d?.control.set(false)
  }
  const toggle = (): void => {
    const c = drawn()?.control
    if (!c) return
    c.changed = () => setDown(c.down)
    c.set(!c.down)
  }
  const stay = (e: Event): void => e.preventDefault() // the terminal keeps the focus, and the phone its keyboard
  return (
    <div class="keys" role="toolbar" aria-label="Keys of the terminal" onPointerDown={stay} onMouseDown={stay}>
      <button type="button" aria-pressed={down} onClick={toggle}>Ctrl</button>
      {keys.map(([text, name, key, code]) => <button type="button" key={key} aria-label={name} onClick={() => press(key, code)}>{text}</button>)}
    </div>
  )
}
