// Command record makes the recordings of internal/screen: output of programs on a PTY, for the comparison with the reference.
//
//	go run ./internal/screen/testdata/record            all, from the repository's root
//	go run ./internal/screen/testdata/record vim less   some
//
// A recording is testdata/recordings/NAME-ROWSxCOLS.gz. It has no home directory, no user and no host of the machine: programs run with
// a HOME of their own, in a directory with a text and a source file.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"
)

type recording struct {
	name       string
	rows, cols int
	command    []string
	keys       []string // each is typed when the program has been quiet for a while
}

var recordings = []recording{
	{"vim", 24, 80, []string{"vim", "-n", "-u", "NONE", "-N", "-c", "syntax on", "-c", "set ruler number mouse=a title", "main.c"}, []string{
		"10jzt", ":split text.txt\r", "\x1bGGoeine Zeile mit Umläuten: ä ö ü ß\x1b", ":vsplit main.c\r", "\x17l\x17=", "/int\r", "nnn", ":set list hlsearch\r", "5dd", "p", "u", "ggVG>", ":%s/int/long/g\r", "\x06\x06\x02", ":only\r", "ihello\x1b[200~paste\x1b[201~\x1b", ":q!\r", ":qa!\r"}},
	{"vim-wide", 50, 160, []string{"vim", "-n", "-u", "NONE", "-N", "-c", "syntax on", "-c", "set termguicolors background=dark t_8f=[38;2;%lu;%lu;%lum t_8b=[48;2;%lu;%lu;%lum", "-c", "colorscheme desert", "main.c"}, []string{
		":vsplit text.txt\r", "\x06", "\x06", "\x02", ":split\r", "GoLorem\x1b", ":colorscheme murphy\r"}},
	{"htop", 30, 100, []string{"htop", "-d", "10", "-p", "1"}, []string{"", "\x1b[B", "t", "H", "F6", "\x1b", "q"}},
	{"less", 24, 80, []string{"less", "-R", "-N", "colors.txt"}, []string{" ", " ", "b", "/line 7\r", "n", "G", "g", "\x1b[B\x1b[B", "-S\r", "\x1b[C", "h", "q", "q"}},
	{"tmux", 24, 80, []string{"tmux", "-f", "/dev/null", "-L", "record", "new-session", "sh"}, []string{
		"ls -l --time-style=+\r", "\x02%", "seq 1 100\r", "\x02\"", "cat colors.txt\r", "\x02o", "printf '\\033[31mred \\033[4mline\\033[0m\\n'\r", "\x02[", "\x1b[5~", "q", "\x02z", "\x02z", "\x02:", "kill-server\r"}},
	{"emacs", 24, 80, []string{"emacs", "-nw", "-Q", "--eval", "(setq inhibit-startup-screen t make-backup-files nil)", "main.c"}, []string{"\x0e\x0e\x0e", "\x1bx", "whitespace-mode\r", "\x182", "\x18o", "\x16\x16", "\x13int", "\r", "\x183", "\x1b<", "hello wörld", "\x180", "\x18\x03", "n", "yes\r"}},
	{"progress", 24, 80, []string{"sh", "progress.sh"}, nil},
	{"unicode", 20, 40, []string{"sh", "unicode.sh"}, nil},
	{"build", 24, 100, []string{"sh", "build.sh"}, nil},
	{"python", 24, 80, []string{"python3", "-q", "-E"}, []string{"1+1\r", "for i in range(30): print('line', i)\r", "\r", "'漢字' * 50\r", "def f(x):\r    return x\r\r", "f(2\x1b[D\x1b[C)\r", "\x1b[A\x1b[A\r", "import sys; sys.exit()\r"}},
	{"bash", 24, 80, []string{"bash", "--norc", "-i"}, []string{"PS1='\\[\\e[1;32m\\]user\\[\\e[0m\\]:\\w\\$ '\r", "ls --color=always\r", "echo " + strings.Repeat("wrap ", 40) + "\r", "\x1b[A\x1b[D\x1b[D\x1b[D\x1b[1;5D\x1b[1;5D\x17", "\x05\x15", "\x12ls", "\x07", "cat colors.txt | head -40\r", "printf '\\e]0;a title\\a'\r", "clear\r", "exit\r"}},
	{"vttest-cursor", 24, 80, []string{"vttest", "24x80.132"}, []string{"1\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "0\r"}},
	{"vttest-screen", 24, 80, []string{"vttest", "24x80.132"}, []string{"2\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "0\r"}},
	{"vttest-charsets", 24, 80, []string{"vttest", "24x80.132"}, []string{"3\r", "8\r", "\r", "0\r", "0\r"}},
	{"vttest-insert", 24, 80, []string{"vttest", "24x80.132"}, []string{"8\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "\r", "0\r"}},
	{"vttest-ecma", 24, 80, []string{"vttest", "24x80.132"}, []string{"11\r", "6\r", "2\r", "\r", "3\r", "\r", "4\r", "\r", "0\r", "0\r", "0\r"}},
}

// files are for the programs to show.
func files() map[string]string {
	var c, text, colors strings.Builder
	c.WriteString("/* A program. */\n#include <stdio.h>\n#include <stdlib.h>\n\n")
	for i := range 40 {
		fmt.Fprintf(&c, "/* f%d adds %d. */\nstatic int f%d(int a, const char *s)\n{\n\tif (a > %d)\n\t\treturn a + %d;\n\tprintf(\"%%s: %%d\\n\", s, a);\n\treturn f%d(a + 1, \"again\");\n}\n\n", i, i, i, i, i*7, i)
	}
	for i := range 80 {
		fmt.Fprintf(&text, "%d. The quick brown fox jumps over the lazy dog, äöü 漢字 🙂, and goes on until the line is longer than the screen is wide.\n", i)
	}
	for i := range 90 {
		fmt.Fprintf(&colors, "\x1b[%dmline %d\x1b[0m \x1b[38;5;%dm256\x1b[0m \x1b[48;2;%d;%d;%dmrgb\x1b[0m \x1b[1mbold\x1b[3mitalic\x1b[4:3mcurly\x1b[0m \x1b[7mreverse\x1b[0m \x1b[9mstruck\x1b[0m\n", 30+i%8, i, i*2, i, 200-i, 2*i)
	}
	return map[string]string{
		"main.c": c.String(), "text.txt": text.String(), "colors.txt": colors.String(),
		"progress.sh": `i=0
while [ $i -le 100 ]; do
	printf '\r\033[K[%-50.50s] %3d%% ' "$(printf '%*s' $((i/2)) '' | tr ' ' '#')" $i
	[ $((i % 20)) = 0 ] && printf '\r\033[Kstep %d is done\n' $i
	i=$((i+1))
done
printf '\n'
printf '\033[s\033[1;23r\033[u\033[22;1H'
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
	printf 'package %d\n' $i
	printf '\0337\033[24;1H\033[42;30mProgress: [%3d%%]\033[0m\033[K\0338' $((i*8))
done
printf '\033[r\033[24;1H\033[K'
`,
		"unicode.sh": `for i in 1 2 3; do
	echo '漢字かな交じり文は全角文字を含み、行の終わりで折り返す。이것은 한국어 문장이다。'
	echo 'emoji: 🙂🚀🎉 👩‍💻 👍🏽 🇩🇪 ❤️ ✂ ☎ combining: éàö ñ Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢'
	echo 'עברית العربية ไทย हिन्दी ┌──┬──┐ │░▒▓│ α≤β ｆｕｌｌｗｉｄｔｈ ｶﾀｶﾅ'
	printf '\033[3%dm色\033[7m反転\033[0m\033[5D\033[K×\n' $i
done
printf '\033[2J\033[H漢\033[Dx漢字漢字\033[3D\033[1P\033[2@\033[4h挿\033[4l\033[10G\033[1X\n'
printf '\033(0lqqqk\nx   x\nmqqqj\033(B ascii\n'
`,
		"build.sh": `i=0
while [ $i -lt 120 ]; do
	printf '\033[2m[%3d/120]\033[0m \033[1;34mCC\033[0m   src/module_%d/file_%d.c \033[2m(%d ms)\033[0m\n' $i $((i/10)) $i $((i*3))
	[ $((i % 17)) = 0 ] && printf 'src/file_%d.c:%d:%d: \033[1;35mwarning: \033[0munused variable \033[1m‘x%d’\033[0m [\033[1;35m-Wunused-variable\033[0m]\n   %d |  int \033[1;35mx%d\033[0m;\n      |      \033[1;35m^~\033[0m\n' $i $((i*3)) 7 $i $((i*3)) $i
	[ $((i % 40)) = 39 ] && printf '\033]8;;https://example.com/log/%d\033\\\033[4mthe log\033[0m\033]8;;\033\\\n' $i
	i=$((i+1))
done
printf '\033[1;32m✔ done\033[0m in \033[38;5;208m12.3 s\033[0m\n'
`,
	}
}

func main() {
	log.SetFlags(0)
	to, err := filepath.Abs("internal/screen/testdata/recordings")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		log.Fatal("run this in the root of the repository: ", err)
	}
	total := 0
	for _, r := range recordings {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], r.name) {
			continue
		}
		out, err := r.record()
		if err != nil {
			log.Fatalf("%s: %v", r.name, err)
		}
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		w.Write(out)
		w.Close()
		name := fmt.Sprintf("%s-%dx%d.gz", r.name, r.rows, r.cols)
		if err := os.WriteFile(filepath.Join(to, name), b.Bytes(), 0o644); err != nil {
			log.Fatal(err)
		}
		total += b.Len()
		log.Printf("%-28s %7d bytes, %6d compressed", name, len(out), b.Len())
	}
	log.Print(total, " bytes")
}

func (r recording) record() ([]byte, error) {
	dir, err := os.MkdirTemp("", "record")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for name, text := range files() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(r.command[0], r.command[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"TERM=xterm-256color", "COLORTERM=truecolor", "LANG=C.UTF-8", "HOME=" + dir, "TMPDIR=" + dir, "PATH=/usr/local/bin:/usr/bin:/bin", "TMUX_TMPDIR=" + dir, "LESSHISTFILE=-", "HISTFILE="}
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(r.rows), Cols: uint16(r.cols)})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var mu sync.Mutex
	var out []byte
	last := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 1<<16)
		for {
			n, err := f.Read(b)
			mu.Lock()
			out, last = append(out, b[:n]...), time.Now()
			mu.Unlock()
			// vttest and editors wait for some answers.
			if bytes.Contains(b[:n], []byte("\x1b[6n")) {
				f.WriteString("\x1b[1;1R")
			}
			if bytes.Contains(b[:n], []byte("\x1b[c")) || bytes.Contains(b[:n], []byte("\x1b[0c")) {
				f.WriteString("\x1b[?1;2c")
			}
			if bytes.Contains(b[:n], []byte("\x1b[>c")) {
				f.WriteString("\x1b[>0;276;0c")
			}
			if err != nil {
				return
			}
		}
	}()
	had := 0
	// quiet waits until the program has written something, and then nothing for a while.
	quiet := func(d time.Duration) {
		for begin := time.Now(); time.Since(begin) < 3*time.Second; time.Sleep(20 * time.Millisecond) {
			mu.Lock()
			n, q := len(out), time.Since(last)
			mu.Unlock()
			if n > had && q > d {
				had = n
				return
			}
		}
	}
	for _, k := range r.keys {
		quiet(300 * time.Millisecond)
		f.WriteString(k)
	}
	quiet(300 * time.Millisecond)
	select {
	case <-done:
	case <-time.After(2 * time.Second):
		cmd.Process.Kill()
		<-done
	}
	cmd.Wait()
	mu.Lock()
	defer mu.Unlock()
	return bytes.ReplaceAll(out, []byte(dir), []byte("/tmp/dir")), nil
}
