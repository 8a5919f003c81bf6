import type { Me } from './types'

// Who looks at the page. The token itself is in a cookie that only the server reads.

// login exchanges a token for the cookie. It returns why it was refused; empty: it was not.
export async function login(token: string, remember: boolean): Promise<string> {
  let answer: Response
  try {
    answer = await fetch('login', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ token, remember }) })
  } catch {
    return 'the server does not answer.'
  }
  if (answer.ok) return ''
  const text = (await answer.text()).trim().slice(0, 300)
  if (answer.status === 401) return /expired/.test(text) ? 'the token has expired.' : 'the server does not know this token: it is wrong, expired or revoked.'
  return text || `the server answers ${answer.status}.`
}

export const logout = (): Promise<unknown> => fetch('logout', { method: 'POST' }).catch(() => {})

// me says who the server takes the page for, and whether it wants a login.
export async function me(): Promise<Me & { login: boolean }> {
  const answer = await fetch('me', { cache: 'no-store' })
  if (!answer.ok) throw new Error(`the server answers ${answer.status}`)
  const m = (await answer.json()) as Me
  return { ...m, login: m.auth && m.identity === null }
}
