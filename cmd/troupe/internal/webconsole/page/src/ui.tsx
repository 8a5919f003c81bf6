import type { RequestError } from '@troupe/client'
import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks'
import { harmless } from './format'
import { store } from './store'
import type { Tone } from './why'

// Parts that several views share.

// useStore draws a component again when the state has changed, and each second, since ages go on.
export function useStore(ticking = true): number {
  const [n, again] = useReducer<number, void>((x) => x + 1, 0)
  useLayoutEffect(() => store.listen(() => again()), []) // at once: a change before would not be drawn
  useEffect(() => {
    if (!ticking) return
    const timer = setInterval(() => again(), 1000)
    return () => clearInterval(timer)
  }, [ticking])
  return n
}

// Name shows a name from outside: no control character acts, and its direction does not spread.
export const Name = ({ text }: { text: string }): JSX.Element => <bdi>{harmless(text)}</bdi>

export const State = ({ tone, text }: { tone: Tone; text: string }): JSX.Element => (
  <span class={`state ${tone}`}>
    <span aria-hidden="true">{{ good: '●', warn: '▲', bad: '✖', dim: '○' }[tone]}</span> {text}
  </span>
)

export function Dialog({ title, children, onclose }: { title: string; children: ComponentChildren; onclose: () => void }): JSX.Element {
  const ref = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => ref.current?.showModal(), [])
  return (
    <dialog ref={ref} aria-labelledby="dialog-title" onClose={onclose}>
      <h2 id="dialog-title">{title}</h2>
      {children}
    </dialog>
  )
}

// Confirm asks before something is destroyed.
export function Confirm({ title, text, yes, onanswer }: { title: string; text: ComponentChildren; yes: string; onanswer: (yes: boolean) => void }): JSX.Element {
  const answered = useRef(false)
  const answer = (y: boolean): void => {
    if (!answered.current) onanswer(y)
    answered.current = true
  }
  return (
    <Dialog title={title} onclose={() => answer(false)}>
      <p>{text}</p>
      <div class="buttons">
        <button type="button" autofocus onClick={() => answer(false)}>
          Cancel
        </button>
        <button type="button" class="danger" onClick={() => answer(true)}>
          {yes}
        </button>
      </div>
    </Dialog>
  )
}

// words are those of an error for people: without the name of a method, and with the advice of the server.
export function words(e: unknown): string {
  const { message, method, advice } = e as RequestError
  const text = method ? message.replace(`${method}: `, '') : message
  return advice ? `${text}: ${advice}` : text
}

// useAction runs a request at a time, and keeps its error for people.
export function useAction(): { busy: boolean; error: string; run: (f: () => Promise<unknown>) => Promise<boolean>; clear: () => void } {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState('')
  const run = async (f: () => Promise<unknown>): Promise<boolean> => {
    setBusy(true)
    setError('')
    try {
      await f()
      return true
    } catch (e) {
      setError(words(e))
      return false
    } finally {
      setBusy(false)
    }
  }
  return { busy, error, run, clear: () => setError('') }
}

export const ErrorText = ({ text }: { text: string }): JSX.Element | null =>
  text ? (
    <p class="error" role="alert">
      {harmless(text)}
    </p>
  ) : null

// Field is a labelled input.
export function Field({ label, hint, children }: { label: string; hint?: string; children: ComponentChildren }): JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
      {hint && <small>{hint}</small>}
    </label>
  )
}
