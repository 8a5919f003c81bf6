// Terminals of xterm.js for the tests of internal/screen. Each line of stdin is a request: an array of steps, run on terminals with
// names. Each line of stdout is the answer: an array with the result of each "dump" and "widths".
//
//   {new: name, rows, cols, scrollback}   a fresh terminal
//   {write: name, data: base64}
//   {resize: name, rows, cols}
//   {dump: name}                          everything that the tests compare
//   {widths: true}                        the width of each code point, as a string of digits
import { createInterface } from 'node:readline';
import headless from '@xterm/headless';
import unicode11 from '@xterm/addon-unicode11';

const terminals = new Map();

function create(rows, cols, scrollback) {
  const t = new headless.Terminal({
    rows, cols, scrollback, allowProposedApi: true, logLevel: 'off', windowOptions: { pushTitle: true, popTitle: true },
  });
  t.loadAddon(new unicode11.Unicode11Addon());
  t.unicode.activeVersion = '11';
  t._core.redefined = new Map(); // colors; 256, 257 and 258 are those of text, background and cursor
  t._core._inputHandler.onColor((requests) => {
    for (const { type, index, color } of requests) {
      if (type === 1) t._core.redefined.set(index, color);
      if (type !== 2) continue;
      for (const i of index === undefined ? [...Array(256).keys()] : [index]) t._core.redefined.delete(i);
    }
  });
  t._core._oscLinkService._removeMarkerFromLink = () => {}; // a link is forgotten when the line of its beginning scrolls off
  return t;
}

const hex = (rgb) => '#' + rgb.map((v) => v.toString(16).padStart(2, '0')).join('');

function color(core, mode, value) {
  switch (mode) {
    case 0x1000000: case 0x2000000: return core.redefined.has(value) ? hex(core.redefined.get(value)) : String(value);
    case 0x3000000: return '#' + value.toString(16).padStart(6, '0');
  }
  return '';
}

// style is written before the first cell that has it.
function style(core, cell) {
  const fg = color(core, cell.getFgColorMode(), cell.getFgColor());
  const bg = color(core, cell.getBgColorMode(), cell.getBgColor());
  let flags = '';
  for (const [name, letter] of [['isBold', 'b'], ['isDim', 'f'], ['isItalic', 'i'], ['isBlink', 'k'], ['isInverse', 'v'],
    ['isInvisible', 'h'], ['isStrikethrough', 's'], ['isOverline', 'o'], ['isProtected', 'p']]) {
    if (cell[name] && cell[name]()) flags += letter;
  }
  let under = '';
  if (cell.fg & 0x10000000) { // isUnderline is also true for a link
    // underlineStyle of a link is what xterm.js draws for it.
    under = String(cell.hasExtendedAttrs() ? cell.extended._ext >>> 26 & 7 || 1 : 1);
    const mode = cell.getUnderlineColorMode() & 0x3000000;
    if (cell.hasExtendedAttrs() && ~cell.extended.underlineColor) under += color(core, mode, cell.getUnderlineColor());
  }
  const id = cell.hasExtendedAttrs() ? cell.extended.urlId : 0;
  const link = id ? core._oscLinkService.getLinkData(id)?.uri ?? '?' : '';
  const s = [fg, bg, flags, under, link].join('|');
  return s === '||||' ? '' : s;
}

// background is all of the style of a cell in which nothing was written.
function background(core, cell) {
  const bg = color(core, cell.getBgColorMode(), cell.getBgColor());
  return bg && `|${bg}|||`;
}

function row(core, line, cell, cols) {
  let text = line.isWrapped ? 'W:' : ' :';
  let last = '';
  for (let x = 0; x < Math.min(line.length, cols); x++) {
    line.loadCell(x, cell);
    if (cell.getWidth() === 0 && !cell.getChars() && x > 0 && line.getWidth(x - 1) === 2) continue;
    if (x === cols - 1 && cell.getWidth() === 2) cell.content = 1 << 22; // cut by a resize
    const s = cell.getChars() ? style(core, cell) : background(core, cell);
    if (s !== last) text += '<' + s + '>';
    last = s;
    text += cell.getChars() || ' ';
  }
  return last === '' ? text.replace(/ +$/, '') : text;
}

const charset = (c) => (c === undefined ? 'B' : c.q ? '0' : c['#'] && !c['@'] ? 'A' : '?');

function dump(t) {
  const core = t._core;
  const input = core._inputHandler;
  const main = core.buffers.normal;
  const active = core.buffers.active;
  const cell = new (active.getNullCell().constructor)();
  const rows = (b) => {
    const all = [];
    for (let y = 0; y < b.lines.length; y++) all.push(row(core, b.lines.get(y), cell, t.cols));
    return all;
  };
  const all = rows(main);
  const saved = (b) => ({ x: b.savedX, y: Math.max(b.savedY - b.ybase, 0), charset: charset(b.savedCharset), style: savedStyle(core, b.savedCurAttrData) });
  const dec = core.coreService.decPrivateModes;
  const alt = active !== main;
  return {
    history: all.slice(0, main.ybase),
    main: all.slice(main.ybase),
    alt: alt ? rows(active) : null,
    x: active.x, y: active.y,
    top: active.scrollTop, bottom: active.scrollBottom,
    mainTop: main.scrollTop, mainBottom: main.scrollBottom,
    tabs: Object.keys(active.tabs).filter((k) => active.tabs[k] && +k < t.cols).map(Number),
    saved: saved(active), mainSaved: saved(main),
    pen: style(core, penCell(cell, input._curAttrData)),
    charset: charset(core._charsetService.charset),
    gl: core._charsetService.glevel,
    g: [0, 1, 2, 3].map((i) => charset(core._charsetService._charsets[i])).join(''),
    title: input._windowTitle,
    colors: [256, 257, 258].map((i) => (core.redefined.has(i) ? hex(core.redefined.get(i)) : '')),
    hidden: core.coreService.isCursorHidden,
    shape: dec.cursorStyle ?? 'block',
    blink: dec.cursorBlink ?? core.optionsService.rawOptions.cursorBlink,
    mouse: core.coreMouseService.activeProtocol, encoding: core.coreMouseService.activeEncoding,
    applicationCursor: dec.applicationCursorKeys, applicationKeypad: dec.applicationKeypad, bracketedPaste: dec.bracketedPasteMode,
    focusEvents: dec.sendFocus, origin: dec.origin, autowrap: dec.wraparound, reverseWrap: dec.reverseWraparound,
    synchronized: dec.synchronizedOutput, insert: core.coreService.modes.insertMode, newLine: core.optionsService.rawOptions.convertEol,
  };
}

function penCell(cell, attr) {
  cell.fg = attr.fg;
  cell.bg = attr.bg;
  cell.extended = attr.extended;
  return cell;
}

// savedStyle leaves out the underline's style, its color and the link: DECSC of xterm.js does not save them.
function savedStyle(core, attr) {
  const s = style(core, attr).split('|').slice(0, 3).join('|');
  return (s === '||' ? '' : s) + (attr.fg & 0x10000000 ? '|u' : '');
}

function widths(t) {
  let s = '';
  for (let c = 0; c < 0x110000; c++) s += c < 0x20 ? 0 : t._core.unicodeService.wcwidth(c);
  return s;
}

// write holds back the bytes of a character that is not complete: xterm.js loses a character whose second byte is 0x80 if its bytes
// come in two writes.
function write(t, data) {
  let b = Buffer.concat([t.held ?? Buffer.alloc(0), Buffer.from(data ?? '', 'base64')]);
  let n = 0; // bytes at the end that begin a character
  for (let back = 1; back <= 3 && back <= b.length; back++) {
    const c = b[b.length - back];
    if (c >= 0xc0) {
      if (back < (c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2)) n = back;
      break;
    }
    if (c < 0x80) break;
  }
  t.held = b.subarray(b.length - n);
  return new Promise((done) => t.write(b.subarray(0, b.length - n), done));
}

async function step(s) {
  if (s.new) terminals.set(s.new, create(s.rows, s.cols, s.scrollback));
  const t = terminals.get(s.new ?? s.write ?? s.resize ?? s.dump);
  if (s.write) await write(t, s.data);
  if (s.resize) t.resize(s.cols, s.rows);
  if (s.dump) return dump(t);
  if (s.widths) return widths(create(24, 80, 0));
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = [];
  for (const s of JSON.parse(line)) {
    const a = await step(s);
    if (a !== undefined) answer.push(a);
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
