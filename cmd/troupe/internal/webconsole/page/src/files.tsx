import type { Files as ClientFiles } from '@troupe/client'
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { bytes, date, fileURI, harmless, path } from './format'
import { href } from './route'
import { store } from './store'
import type { FsEntry } from './types'
import { Confirm, ErrorText, Field, Name, useAction, useStore } from './ui'

// Files of the server's machine: list, look, download, upload.

const look = 256 * 1024 // of a file that is looked at
const picture = 16 * 1024 * 1024
const most = 1024 * 1024 * 1024 // of a download, which the browser holds until it is complete

const files = async (): Promise<ClientFiles> => (await store.link!.client).files

// begin reads the first bytes of a file, at least most if it has so many.
async function begin(uri: string, most: number, progress: (size: number) => void = () => {}): Promise<Blob> {
  const all: Uint8Array<ArrayBuffer>[] = []
  let size = 0
  for await (const data of (await files()).read(uri)) {
    all.push(data as Uint8Array<ArrayBuffer>)
    progress((size += data.length))
    if (size >= most) break
  }
  return new Blob(all, { type: 'application/octet-stream' })
}

const below = (dir: string, e: FsEntry): string => `${dir.replace(/\/$/, '')}/${e.nameBase64 ? [...e.nameBase64].map((b) => `%${b.toString(16).padStart(2, '0')}`).join('') : encodeURIComponent(e.fileName)}`
const up = (uri: string): string => uri.replace(/\/[^/]+\/?$/, '') + (/^file:\/\/\/[^/]+\/?$/.test(uri) ? '/' : '')

export function Files({ at }: { at: string }): JSX.Element {
  useStore(false)
  const here = at || store.home
  const [entries, setEntries] = useState<FsEntry[]>()
  const [open, setOpen] = useState<FsEntry>()
  const [replace, setReplace] = useState<File>()
  const [progress, setProgress] = useState('')
  const [round, setRound] = useState(0)
  const { error, run, busy } = useAction()
  const form = useRef<HTMLFormElement>(null)

  useEffect(() => {
    if (!here) return
    setOpen(undefined)
    void run(async () => {
      setEntries(undefined)
      const dir = (e: FsEntry): number => (e.kind === 'directory' ? 0 : 1)
      setEntries((await (await files()).list(here)).sort((a, b) => dir(a) - dir(b) || (a.fileName < b.fileName ? -1 : 1)))
    })
  }, [here, round])

  const download = (e: FsEntry): void => void run(async () => {
    if (e.size > most) throw new Error(`${harmless(e.fileName)} has ${bytes(e.size)}, and the browser takes ${bytes(most)}: use troupe cp`)
    const url = URL.createObjectURL(await begin(below(here, e), most, (size) => setProgress(`${harmless(e.fileName)}: ${bytes(size)} of ${bytes(e.size)}`)))
    Object.assign(document.createElement('a'), { href: url, download: e.fileName }).click()
    setTimeout(() => URL.revokeObjectURL(url), 10_000)
    setProgress('')
  })

  const upload = (file: File): void => void run(async () => {
    let size = 0
    async function* content(): AsyncGenerator<Uint8Array> {
      for (const block = 256 * 1024; size < file.size; size += block) {
        yield new Uint8Array(await file.slice(size, size + block).arrayBuffer())
        setProgress(`${harmless(file.name)}: ${bytes(Math.min(size + block, file.size))} of ${bytes(file.size)}`)
      }
    }
    await (await files()).write(`${here.replace(/\/$/, '')}/${encodeURIComponent(file.name)}`, content())
    setProgress(`${harmless(file.name)} is there: ${bytes(file.size)}`)
    form.current?.reset()
    setRound(round + 1)
  })
  const chosen = (file: File | undefined): void => {
    if (!file) return
    if (entries?.some((e) => e.fileName === file.name)) setReplace(file)
    else upload(file)
  }

  return (
    <div class="page files">
      <h1>Files</h1>
      <form class="bar" ref={form} onSubmit={(e) => (e.preventDefault(), (location.hash = href('files', fileURI(String(new FormData(e.currentTarget).get('path'))))))}>
        <Field label="Directory"><input name="path" value={path(here)} key={here} spellcheck={false} /></Field>
        <button type="submit">Go</button>
        <a class="button" href={href('files', up(here))}>Up</a>
        <label class="button">Upload… <input class="hidden" type="file" onChange={(e) => chosen(e.currentTarget.files?.[0])} /></label>
      </form>
      <p role="status">{progress || (busy ? 'Asking…' : '')}</p>
      <ErrorText text={error} />
      {open && <Look key={below(here, open)} uri={below(here, open)} entry={open} close={() => setOpen(undefined)} />}
      {entries && (
        <table>
          <thead><tr><th>Name</th><th class="num">Size</th><th>Changed</th><th><span class="hidden">Download</span></th></tr></thead>
          <tbody>
            {entries.slice(0, 2000).map((e) => (
              <tr key={e.fileName}>
                <td>
                  {e.kind === 'directory' ? <a href={href('files', below(here, e))}><Name text={`${e.fileName}/`} /></a> : e.kind === 'file' ? <button type="button" class="plain" onClick={() => setOpen(e)}><Name text={e.fileName} /></button> : <Name text={e.fileName} />}
                  {e.target && <small> → <Name text={e.target} /></small>}
                </td>
                <td class="num">{e.kind === 'file' ? bytes(e.size) : e.kind}</td>
                <td>{date(e.modifiedAtMs)}</td>
                <td>{e.kind === 'file' && <button type="button" aria-label={`Download ${harmless(e.fileName)}`} onClick={() => download(e)}>Download</button>}</td>
              </tr>
            ))}
            {!entries.length && <tr><td colSpan={4}>The directory is empty.</td></tr>}
          </tbody>
        </table>
      )}
      {entries && entries.length > 2000 && <p>And {entries.length - 2000} more.</p>}
      {replace && <Confirm title={`Replace ${harmless(replace.name)}?`} text="A file with this name is there." yes="Replace" onanswer={(yes) => (setReplace(undefined), yes ? upload(replace) : form.current?.reset())} />}
    </div>
  )
}

// Look shows a file: a picture, text, or bytes. Each file has a Look of its own, so that an earlier file that comes late is not shown.
function Look({ uri, entry, close }: { uri: string; entry: FsEntry; close: () => void }): JSX.Element {
  const [text, setText] = useState('')
  const [kind, setKind] = useState<'text' | 'hex' | 'picture' | ''>('')
  const canvas = useRef<HTMLCanvasElement>(null)
  const head = useRef<HTMLHeadingElement>(null)
  const { error, run } = useAction()
  useEffect(() => {
    head.current?.scrollIntoView({ block: 'nearest' })
    head.current?.focus()
    void run(async () => {
      const isPicture = /\.(png|jpe?g|gif|webp|avif|bmp|ico)$/i.test(entry.fileName) && entry.size <= picture
      const blob = await begin(uri, isPicture ? picture : look)
      // A canvas needs no URL for the picture, so that the policy can refuse all pictures.
      const bitmap = isPicture ? await createImageBitmap(blob).catch(() => undefined) : undefined
      if (bitmap && canvas.current) {
        Object.assign(canvas.current, { width: bitmap.width, height: bitmap.height })
        canvas.current.getContext('2d')!.drawImage(bitmap, 0, 0)
        return setKind('picture')
      }
      const data = new Uint8Array(await blob.arrayBuffer()).subarray(0, look)
      const decoded = new TextDecoder().decode(data)
      const isText = !decoded.includes('\0') && decoded.split('\ufffd').length < 2 + decoded.length / 100
      setText(isText ? decoded.split('\n').map((l) => harmless(l.replaceAll('\t', '    '))).join('\n') : hex(data.subarray(0, 16 * 1024)))
      setKind(isText ? 'text' : 'hex')
    })
  }, [uri])
  const shown = kind === 'hex' ? 16 * 1024 : look
  return (
    <section class="look" aria-label="Content">
      <h2 ref={head} tabIndex={-1}><Name text={entry.fileName} /> <button type="button" onClick={close}>Close</button></h2>
      <ErrorText text={error} />
      {kind && kind !== 'picture' && entry.size > shown && <p>The first {bytes(shown)} of {bytes(entry.size)}.</p>}
      <canvas ref={canvas} hidden={kind !== 'picture'} role="img" aria-label={harmless(entry.fileName)} />
      {kind && kind !== 'picture' && <pre tabIndex={0} dir="ltr">{text}</pre>}
    </section>
  )
}

function hex(data: Uint8Array): string {
  const lines: string[] = []
  for (let i = 0; i < data.length; i += 16) {
    const row = [...data.subarray(i, i + 16)]
    const digits = row.map((b) => b.toString(16).padStart(2, '0')).join(' ')
    lines.push(`${i.toString(16).padStart(8, '0')}  ${digits.padEnd(47)}  ${row.map((b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : '.')).join('')}`)
  }
  return lines.join('\n')
}
