import { Component, type ComponentChildren, type JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { age, harmless } from './format'
import { Files } from './files'
import { Login } from './login'
import { ProcessPage } from './process'
import { Report } from './report'
import { href, route } from './route'
import { logout, me } from './session'
import { SessionPage } from './sessionpage'
import { Start } from './start'
import { store } from './store'
import { theme, setTheme, type Theme } from './theme'
import { Tree } from './tree'
import { ErrorText, useStore } from './ui'

export function App({ refused }: { refused: string }): JSX.Element {
  const [access, setAccess] = useState<'asking' | 'login' | 'open'>('asking')
  const [message, setMessage] = useState(refused)
  const [at, setAt] = useState(route())
  const [sso, setSso] = useState(false)
  const leaving = useRef(false)

  const ask = async (): Promise<void> => {
    try {
      const m = await me()
      setMessage('')
      setSso(m.oidc ?? false)
      if (m.login) return setAccess('login')
      leaving.current = false
      store.me = m
      store.connect()
      setAccess('open')
    } catch {
      setMessage('The server does not answer. The page tries again.')
      setTimeout(() => void ask(), 2000)
    }
  }
  useEffect(() => {
    if (refused) setAccess('login')
    else void ask()
    const go = (): void => setAt(route())
    addEventListener('hashchange', go)
    go() // the address may have changed since the first drawing
    return () => removeEventListener('hashchange', go)
  }, [])

  // A link that cannot come back may have lost its credential. Listen at once: after the end of a link nothing more is heard of it.
  useLayoutEffect(() => {
    if (access !== 'open') return
    let asked = 0
    return store.listen(() => {
      const link = store.link?.state
      if (!link || link.up || leaving.current || (Date.now() - asked < 3000 && !link.over)) return
      asked = Date.now()
      me().then(
        (m) => {
          if (!m.login && !link.over) return
          store.close()
          setMessage(store.guest ? 'The share has ended: it has expired or was revoked.' : link.over && !m.login ? `The server has ended the connection: ${link.reason}` : 'Your login has expired. Log in again.')
          setAccess('login')
        },
        () => {},
      )
    })
  }, [access])

  const leave = async (): Promise<void> => {
    leaving.current = true
    await logout()
    store.close()
    setMessage('')
    setAccess('login')
  }

  return (
    <>
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.getElementById('main')?.focus())}>
        Skip to the content
      </a>
      <Header at={at} open={access === 'open'} leave={leave} />
      <main id="main" tabIndex={-1}>
        {access === 'asking' && <p class="page">{message || 'Connecting…'}</p>}
        {access === 'login' && <Login message={message} sso={sso} onlogin={() => (setMessage(''), void ask())} />}
        {access === 'open' && (
          <Guard at={at.join('/')}>
            <Page at={at} />
          </Guard>
        )}
      </main>
    </>
  )
}

function Page({ at }: { at: string[] }): JSX.Element {
  switch (at[0]) {
    case 'process':
      return <ProcessPage key={`${at[1]}/${at[2]}`} session={at[1] ?? ''} process={at[2] ?? ''} tab={at[3] ?? ''} />
    case 'session':
      return <SessionPage key={at[1]} id={at[1] ?? ''} />
    case 'files':
      return <Files key={at[1]} at={at[1] ?? ''} />
    case 'start':
      return <Start key={at[1]} session={at[1] ?? ''} />
    case 'report':
      return <Report />
  }
  return <Tree />
}

// Guard keeps a fault of one view from blanking the page. At another address, the view is tried again.
class Guard extends Component<{ at: string; children: ComponentChildren }, { error: string }> {
  override state = { error: '' }
  override componentDidUpdate(before: { at: string }): void {
    if (before.at !== this.props.at && this.state.error) this.setState({ error: '' })
  }
  override componentDidCatch(e: Error): void {
    const old = /import|fetch|module/i.test(e.message)
    this.setState({ error: old ? 'A part of the console could not be loaded. The server may have another version by now: reload the page.' : `This view has failed: ${e.message}` })
  }
  override render(): ComponentChildren {
    return this.state.error ? <div class="page"><ErrorText text={this.state.error} /></div> : this.props.children
  }
}

function Header({ at, open, leave }: { at: string[]; open: boolean; leave: () => void }): JSX.Element {
  const item = (to: string, text: string): JSX.Element => (
    <a href={href(to)} aria-current={at[0] === to ? 'page' : undefined}>
      {text}
    </a>
  )
  return (
    <header>
      <strong class="brand">troupe</strong>
      {open && (
        <nav aria-label="Main">
          <a href="#/" aria-current={['', 'process', 'session'].includes(at[0] ?? '') ? 'page' : undefined}>
            Processes
          </a>
          {!store.guest && item('start', 'Start')}
          {!store.guest && item('files', 'Files')}
          {!store.guest && item('report', 'Load test')}
        </nav>
      )}
      {open && <LinkState />}
      <ThemeSwitch />
      {open && store.me.auth && (
        <button type="button" class="quiet" onClick={leave} title={`You are ${harmless(store.me.identity ?? '')}`}>
          Log out
        </button>
      )}
    </header>
  )
}

function LinkState(): JSX.Element {
  useStore()
  const link = store.link?.state
  const up = link?.up ?? false
  const nodes = store.nodes.length
  const told = nodes && 1 + [...store.others.values()].filter((l) => l.state.up).length
  return (
    <span class={`link ${up ? 'good' : 'bad'}`} role="status">
      {up ? (nodes > 1 ? `${told < nodes ? '▲' : '●'} live, ${told} of ${nodes} nodes` : '● live') : `▲ link lost for ${age(Date.now() - (link?.lostAt ?? Date.now()))}: trying again`}
    </span>
  )
}

function ThemeSwitch(): JSX.Element {
  const [now, set] = useState<Theme>(theme())
  return (
    <label class="theme">
      <span class="hidden">Colours</span>
      <select
        value={now}
        onChange={(e) => {
          setTheme(e.currentTarget.value as Theme)
          set(theme())
        }}
      >
        <option value="auto">Auto</option>
        <option value="dark">Dark</option>
        <option value="light">Light</option>
      </select>
    </label>
  )
}
