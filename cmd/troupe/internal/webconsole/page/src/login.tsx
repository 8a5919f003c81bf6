import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { login } from './session'
import { ErrorText, Field } from './ui'

export function Login({ message, sso, onlogin }: { message: string; sso: boolean; onlogin: () => void }): JSX.Element {
  const [refused, setRefused] = useState('')
  const [busy, setBusy] = useState(false)
  const submit = async (e: SubmitEvent): Promise<void> => {
    e.preventDefault()
    const form = new FormData(e.currentTarget as HTMLFormElement)
    const token = String(form.get('token')).trim()
    if (!token) return setRefused('Enter a token.')
    setBusy(true)
    const why = await login(token, form.get('remember') !== null)
    setBusy(false)
    if (why) setRefused(`Refused: ${why}`)
    else onlogin()
  }
  return (
    <form class="page narrow" onSubmit={submit}>
      <h1>Log in</h1>
      {message && !refused && <p role="alert">{message}</p>}
      {sso && (
        <p>
          <a class="button primary" href="oidc">Log in with your organisation</a>, or with a token:
        </p>
      )}
      <Field label="Token" hint="From the operator of the server: a token of its token file, a signed token, or the token of a share.">
        <input name="token" type="password" autocomplete="current-password" spellcheck={false} autofocus />
      </Field>
      <label class="check">
        <input name="remember" type="checkbox" /> Remember me on this device
      </label>
      <ErrorText text={refused} />
      <button type="submit" class="primary" disabled={busy}>
        Log in
      </button>
    </form>
  )
}
