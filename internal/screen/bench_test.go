package screen

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func workloads(t testing.TB) map[string][]byte {
	var sgr bytes.Buffer
	for i := range 20000 {
		fmt.Fprintf(&sgr, "\x1b[%d;38;5;%dmword\x1b[0m \x1b[48;2;%d;%d;%dm%d\x1b[m%s", i%8, i%256, i%256, i%200, i%100, i, []string{"", "\r\n"}[i%5/4])
	}
	all := map[string][]byte{
		"plain": bytes.Repeat([]byte("The quick brown fox jumps over the lazy dog, and goes on for a while.\r\n"), 10000),
		"sgr":   sgr.Bytes(),
		"cjk":   bytes.Repeat([]byte("漢字かな交じり文は全角文字を含み、行の終わりで折り返す。\r\n"), 10000),
	}
	for _, r := range allRecordings(t) {
		if strings.HasPrefix(r.name, "vim-wide") {
			all["vim"] = bytes.Repeat(r.out, 20)
		}
	}
	return all
}

func BenchmarkWrite(b *testing.B) {
	for _, name := range []string{"plain", "sgr", "vim", "cjk"} {
		out := workloads(b)[name]
		for _, scrollback := range []int{0, 1000} {
			b.Run(fmt.Sprintf("%s/scrollback=%d", name, scrollback), func(b *testing.B) {
				s := New(50, 160, scrollback)
				b.SetBytes(int64(len(out)))
				b.ReportAllocs()
				for b.Loop() {
					for p := out; len(p) > 0; {
						n := min(len(p), 32<<10)
						s.Write(p[:n])
						p = p[n:]
					}
				}
			})
		}
	}
}

// The most work for a byte.
func BenchmarkHostile(b *testing.B) {
	for name, seq := range map[string]string{
		"DECALN": "\x1b#8", "ED": "x\x1b[2J", "SD": "\x1b[T", "SL": "\x1b[ @", "REP": "x\x1b[9999b", "DECIC": "\x1b['}", "links": "\x1b]8;;a\x07x\x1b]8;;b\x07x", "resets": "\x1bc",
		"combining": "\u0301", "DECCRA": "\x1b[;;;;;2;2$v", "margins": "\x1b[?69h\x1b[2s\x1b[T", "alternate": "\x1b[?47h\x1b[?47l",
	} {
		b.Run(name, func(b *testing.B) {
			s := New(50, 160, 1000)
			out := []byte(strings.Repeat(seq, 1000))
			b.SetBytes(int64(len(out)))
			for b.Loop() {
				s.Write(out)
			}
		})
	}
}

// filled returns a screen with a full history of colored lines.
func filled(rows, cols, scrollback int) *Screen {
	s := New(rows, cols, scrollback)
	for i := range rows + scrollback {
		s.Write(fmt.Appendf(nil, "\x1b[3%dmline %d\x1b[0m %s\r\n", i%8, i, strings.Repeat("text ", cols/10)))
	}
	return s
}

func BenchmarkLook(b *testing.B) {
	s := filled(50, 160, 10_000)
	b.ReportMetric(float64(s.Memory()), "B/screen")
	for name, o := range map[string]Options{
		"text": {}, "spans": {Spans: true}, "restore": {Restore: true}, "restore+1000": {Restore: true, Scrollback: 1000}, "restore+10000": {Restore: true, Scrollback: 10_000},
	} {
		b.Run(name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				n = len(s.Snapshot(o).Restore)
			}
			b.ReportMetric(float64(n), "B/restore")
		})
	}
}

func BenchmarkResize(b *testing.B) {
	s := filled(50, 160, 10_000)
	for b.Loop() {
		s.Resize(50, 150)
		s.Resize(50, 160)
	}
}

func BenchmarkMemory(b *testing.B) {
	for _, size := range []struct{ rows, cols, scrollback int }{{24, 80, 0}, {50, 200, 0}, {24, 80, 1000}, {24, 80, 10000}, {50, 200, 10000}} {
		b.Run(fmt.Sprintf("%dx%d/scrollback=%d", size.rows, size.cols, size.scrollback), func(b *testing.B) {
			n := 0
			for b.Loop() {
				n = filled(size.rows, size.cols, size.scrollback).Memory()
			}
			b.ReportMetric(float64(n), "B/screen")
		})
	}
}
