// XtermStyle takes the place of the <style> elements of xterm.js (see vite.config.mjs): the Content-Security-Policy allows style sheets that
// a script constructs, and no style element.
class XtermStyle extends HTMLElement {
  private sheet = new CSSStyleSheet()

  override set textContent(css: string) {
    this.sheet.replaceSync(css)
  }
  connectedCallback(): void {
    this.hidden = true
    document.adoptedStyleSheets.push(this.sheet)
  }
  disconnectedCallback(): void {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== this.sheet)
  }
}
customElements.define('xterm-style', XtermStyle)
