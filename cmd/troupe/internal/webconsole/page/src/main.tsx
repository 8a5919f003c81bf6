import './style.css'
import { render } from 'preact'
import { App } from './app'
import { login } from './session'

// A link to a share has its token in the fragment, which no server sees: exchange it for a cookie at once, and forget it.
async function begin(): Promise<void> {
  const share = /^#share=(.+)$/.exec(location.hash)?.[1]
  let refused = ''
  if (share) {
    history.replaceState(null, '', '#/')
    refused = await login(decodeURIComponent(share), false)
    if (refused) refused = `This link cannot be used: ${refused} Ask for a new one.`
  }
  render(<App refused={refused} />, document.body)
}
void begin()
