import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vite'

const client = (name) => fileURLToPath(new URL(`../../../../../clients/typescript/src/${name}`, import.meta.url))

// xterm.js sets its styles by <style> elements and style attributes, which the Content-Security-Policy of the console refuses. xtermStyles
// turns the elements into <xterm-style> of src/xterm-style.ts, and the attribute into style.cssText. The build fails if xterm.js has changed.
const xtermStyles = {
  name: 'xterm-styles',
  transform(code, id) {
    if (!/@xterm\/xterm\/lib\/xterm\.mjs$/.test(id)) return null
    const replaced = (text, from, to, times) => {
      const parts = text.split(from)
      if (parts.length !== times + 1) throw new Error(`xterm.js has ${parts.length - 1} of ${from}, want ${times}: look at the styles of its new version`)
      return parts.join(to)
    }
    code = replaced(code, 'createElement("style")', 'createElement("xterm-style")', 3)
    return { code: replaced(code, 't.setAttribute("style",`${t.getAttribute("style")||""}${e};`)', 't.style.cssText+=e+";"', 1), map: null }
  },
}

// licences adds the licences of the packages in the build.
const licences = {
  name: 'licences',
  generateBundle() {
    const packages = Object.keys(JSON.parse(readFileSync('package.json', 'utf8')).dependencies).sort()
    const texts = packages.map((name) => `${name}\n\n${readFileSync(`node_modules/${name}/LICENSE`, 'utf8').trim()}\n`)
    this.emitFile({ type: 'asset', fileName: 'LICENSES.txt', source: texts.join('\n----\n\n') })
  },
}

export default defineConfig({
  base: './',
  resolve: { alias: { '@troupe/client': client('index.ts'), '#socket': client('socket-browser.ts') } },
  plugins: [xtermStyles, licences],
  build: {
    outDir: 'build',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0, // no data: URL: the policy refuses them
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
})
