import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { bytes, count, harmless } from './format'
import { ErrorText, Field, Name, useAction } from './ui'

// The report of a load test: a result file of troupe load --json.

type Latency = { count: number; mean: number; p50: number; p90: number; p99: number; 'p99.9': number; max: number }
type Result = {
  version: number; began: string; took: number
  plan: { servers: string[]; sessions: number; processes: number; encoding: string }
  servers?: { url: string; name: string; version: string }[]
  counts: Record<string, number>
  latency: Record<string, Latency>
  slos?: { slo: string; met: boolean; got: number; unit: string }[]
  problems?: string[]
  notes?: string[]
  findings?: { kind?: string; what?: string; text?: string }[]
  errors?: Record<string, number>
}

function time(ns: number): string {
  if (ns < 1e6) return `${(ns / 1e3).toFixed(0)} µs`
  return ns < 1e9 ? `${(ns / 1e6).toFixed(ns < 1e7 ? 1 : 0)} ms` : `${(ns / 1e9).toFixed(2)} s`
}

export function parse(text: string): Result {
  let r: Result
  try {
    r = JSON.parse(text) as Result
  } catch {
    throw new Error('the file is not JSON: choose a result of troupe load --json FILE')
  }
  if (!r.latency || !r.plan || !r.counts) throw new Error('the file is no result of troupe load --json FILE: it has no latency, plan or counts')
  return r
}

export function Report(): JSX.Element {
  const [result, setResult] = useState<Result>()
  const { error, run } = useAction()
  const open = (file: File | undefined): void => void (file && run(async () => setResult(parse(await file.text()))))
  return (
    <div class="page report">
      <h1>Report of a load test</h1>
      <Field label="A file of troupe load --json"><input type="file" accept=".json,application/json" onChange={(e) => open(e.currentTarget.files?.[0])} /></Field>
      <ErrorText text={error} />
      {result && <Shown r={result} />}
    </div>
  )
}

const columns = ['p50', 'p90', 'p99', 'p99.9', 'max'] as const

function Shown({ r }: { r: Result }): JSX.Element {
  const wrong = [...(r.problems ?? []), ...(r.findings ?? []).map((f) => (typeof f === 'string' ? f : (f.what ?? f.text ?? JSON.stringify(f)))), ...Object.entries(r.errors ?? {}).map(([e, n]) => `${e}: ${n} times`)]
  const missed = (r.slos ?? []).filter((s) => !s.met).length
  const bad = wrong.length + missed
  return (
    <>
      <p class={bad ? 'error' : 'good'} role="status"><strong>{bad ? `${bad} things are wrong` : 'Nothing was wrong'}</strong></p>
      <p>
        {r.plan.sessions} sessions × {r.plan.processes} processes on {r.servers?.map((s) => <Name key={s.url} text={`${s.name} ${s.version}`} />) ?? r.plan.servers.length} for {(r.took / 1e9).toFixed(1)} s, from {new Date(r.began).toLocaleString('sv-SE')}, {r.plan.encoding}
      </p>
      {wrong.length > 0 && <ul>{wrong.slice(0, 200).map((w) => <li key={w}><Name text={w} /></li>)}</ul>}
      {(r.slos ?? []).length > 0 && (
        <table>
          <caption>Objectives</caption>
          <thead><tr><th>Objective</th><th>Met</th><th class="num">Got</th></tr></thead>
          <tbody>{r.slos!.map((s) => <tr key={s.slo}><td><Name text={s.slo} /></td><td class={s.met ? 'good' : 'bad'}>{s.met ? '● yes' : '✖ no'}</td><td class="num">{s.unit === 'ns' ? time(s.got) : s.unit === 'B/s' ? `${bytes(s.got)}/s` : `${count(s.got)} ${harmless(s.unit ?? '')}`}</td></tr>)}</tbody>
        </table>
      )}
      <div class="wide" tabIndex={0} role="region" aria-label="Latencies">
        <table>
          <caption>Latencies</caption>
          <thead><tr><th>Operation</th><th class="num">Count</th>{columns.map((c) => <th class="num" key={c}>{c}</th>)}</tr></thead>
          <tbody>{Object.entries(r.latency).map(([k, l]) => <tr key={k}><td><Name text={k} /></td><td class="num">{count(l.count)}</td>{columns.map((c) => <td class="num" key={c}>{time(l[c])}</td>)}</tr>)}</tbody>
        </table>
      </div>
      <table>
        <caption>Counts</caption>
        <thead><tr><th>What</th><th class="num">How many</th></tr></thead>
        <tbody>{Object.entries(r.counts).map(([k, n]) => <tr key={k}><td><Name text={k} /></td><td class="num">{count(n)}</td></tr>)}</tbody>
      </table>
      {(r.notes ?? []).length > 0 && <><h2>Notes</h2><ul>{r.notes!.map((n) => <li key={n}><Name text={n} /></li>)}</ul></>}
    </>
  )
}
