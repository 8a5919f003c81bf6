//go:build slow && unix

package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"image"
	"image/png"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

var screenshotsTo = flag.String("screenshots", "", "directory to write the screenshots of the reports of troupe load to, for looking at them")

// A browser is a headless Chromium without a network, with a page in it. The test talks to it over the pipe of its DevTools.
type browser struct {
	t       *testing.T
	in, out *os.File
	from    *bufio.Reader // out
	last    int
	session string // of the page
	events  []devToolsMessage
}

// A devToolsMessage is an answer or an event of the DevTools.
type devToolsMessage struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	// --remote-debugging-pipe reads from descriptor 3 and writes to descriptor 4.
	read, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	start := func(namespaces uintptr) (*exec.Cmd, error) {
		dir := t.TempDir()
		cmd := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
			"--user-data-dir="+dir, "--remote-debugging-pipe", "about:blank")
		cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_CACHE_HOME="+dir)
		cmd.ExtraFiles = []*os.File{read, write}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: namespaces}
		if namespaces&syscall.CLONE_NEWUSER != 0 {
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		}
		return cmd, cmd.Start()
	}
	namespaces := uintptr(syscall.CLONE_NEWNET)
	if os.Getuid() != 0 {
		namespaces |= syscall.CLONE_NEWUSER
	}
	cmd, err := start(namespaces)
	if err != nil {
		t.Logf("without a network namespace of its own: %v", err)
		cmd, err = start(0)
	}
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	write.Close()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		in.Close()
		out.Close()
		cmd.Wait()
	})
	b := &browser{t: t, in: in, out: out, from: bufio.NewReader(out)}
	var target struct{ TargetID, SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	b.call("Emulation.setScrollbarsHidden", map[string]any{"hidden": true}, nil) // else a screenshot of all of the page has other places
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", map[string]any{}, nil)
	}
	return b
}

// call waits for the answer. Events that come before it are kept.
func (b *browser) call(method string, params map[string]any, answer any) {
	b.t.Helper()
	b.last++
	m := map[string]any{"id": b.last, "method": method, "params": params}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	text, err := json.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		m := b.next()
		if m.ID == 0 {
			b.events = append(b.events, m)
			continue
		}
		if m.ID != b.last || m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		if answer != nil {
			if err := json.Unmarshal(m.Result, answer); err != nil {
				b.t.Fatalf("%s: %v in %.300s", method, err, m.Result)
			}
		}
		return
	}
}

func (b *browser) next() (m devToolsMessage) {
	b.t.Helper()
	b.out.SetReadDeadline(time.Now().Add(2 * time.Minute))
	text, err := b.from.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("Chromium: %v", err)
	}
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		b.t.Fatalf("%v in %.300s", err, text)
	}
	return m
}

// has takes an event of this name out of the events.
func (b *browser) has(method string) bool {
	i := slices.IndexFunc(b.events, func(m devToolsMessage) bool { return m.Method == method })
	if i >= 0 {
		b.events = slices.Delete(b.events, i, i+1)
	}
	return i >= 0
}

// A view is how a person looks at a page.
type view struct {
	name  string
	width int
	theme string
}

// open opens a file. An error or a warning on the console, and a request for anything but the file, fail the test.
func (b *browser) open(file string, v view) {
	b.t.Helper()
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]any{{"name": "prefers-color-scheme", "value": v.theme}}}, nil)
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": v.width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.events = nil
	page := (&url.URL{Scheme: "file", Path: file}).String()
	b.call("Page.navigate", map[string]any{"url": page}, nil)
	for !b.has("Page.loadEventFired") {
		b.events = append(b.events, b.next())
	}
	b.call("Runtime.evaluate", map[string]any{"expression": "0"}, nil) // what the page logged until now has come before this answer
	for _, e := range b.events {
		switch e.Method {
		case "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown":
			b.t.Errorf("on the console: %s", e.Params)
		case "Network.requestWillBeSent":
			var asked struct{ Request struct{ URL string } }
			if err := json.Unmarshal(e.Params, &asked); err != nil {
				b.t.Fatal(err)
			}
			if got := asked.Request.URL; got != page && !strings.HasPrefix(got, "data:") {
				b.t.Errorf("the page asked for %s", got)
			}
		}
	}
}

// A look is what a script sees in a page.
type look struct {
	Title    string
	Text     string
	Wrong    []string // what a person would call broken
	Pictures []picture
}

// A picture is an svg element of a page.
type picture struct {
	Name             string
	Width, Height    float64
	Plot             struct{ X, Y, Width, Height float64 } // the area of the lines, in pixels of the page
	Lines, Dots      int
	Labels, Overlaps int // of the labels of the lines
}

// lookScript measures the page. In a picture the lines are in the plot, of 58 to 454 by 12 to 204 units.
const lookScript = `(() => {
	const wrong = [], pictures = [], root = document.documentElement;
	if (root.scrollWidth > root.clientWidth) wrong.push("the page is " + root.scrollWidth + " wide in a window of " + root.clientWidth);
	for (const e of document.querySelectorAll("dt, dd, h1, h2, h3, figcaption"))
		if (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display != "inline") wrong.push("too wide: " + e.textContent);
	for (const svg of document.querySelectorAll("svg")) {
		const name = svg.getAttribute("aria-label"), figure = svg.closest("figure").getBoundingClientRect(), box = svg.getBoundingClientRect();
		let lines = 0, dots = 0;
		for (const p of svg.querySelectorAll("path")) {
			const b = p.getBBox(), dot = p.matches(".dots"), style = getComputedStyle(p);
			if (![b.x, b.y, b.width, b.height].every(Number.isFinite)) wrong.push(name + ": a path without a box");
			if (!dot && p.matches(".line") && Math.max(b.width, b.height) > 0) lines++;
			if (dot) dots++;
			if (p.matches(".line") && (style.stroke == "none" || style.fill != "none" || !(parseFloat(style.strokeWidth) > 0))) wrong.push(name + ": a line without its style");
			if (p.matches(".line, .area") && (b.x < 57.9 || b.x + b.width > 454.1 || b.y < 11.9 || b.y + b.height > 204.1)) wrong.push(name + ": a path leaves the plot");
		}
		for (const text of svg.querySelectorAll("text")) {
			const b = text.getBoundingClientRect();
			if (b.left < figure.left || b.right > figure.right || b.top < figure.top || b.bottom > figure.bottom) wrong.push(name + ": outside of its card: " + text.textContent);
		}
		let overlaps = 0;
		const labels = [...svg.querySelectorAll("text.label")].map(l => l.getBoundingClientRect().top).sort((a, b) => a - b);
		for (let i = 1; i < labels.length; i++) if (labels[i] - labels[i-1] < 8) overlaps++;
		const x = [...svg.querySelectorAll("text.tick:not([text-anchor=end])")].map(l => l.getBoundingClientRect());
		for (let i = 1; i < x.length; i++) if (x[i].left < x[i-1].right) wrong.push(name + ": numbers of the x axis overlap");
		const unit = box.width / 540;
		pictures.push({Name: name, Width: box.width, Height: box.height, Lines: lines, Dots: dots, Labels: labels.length, Overlaps: overlaps,
			Plot: {X: box.x + 56 * unit, Y: box.y + scrollY + 10 * unit, Width: 400 * unit, Height: 196 * unit}}); // with the width of a line
	}
	return JSON.stringify({Title: document.title, Text: document.body.innerText, Wrong: wrong, Pictures: pictures});
})()`

func (b *browser) look() (l look) {
	b.t.Helper()
	var got struct{ Result struct{ Value string } }
	b.call("Runtime.evaluate", map[string]any{"expression": lookScript}, &got)
	if err := json.Unmarshal([]byte(got.Result.Value), &l); err != nil {
		b.t.Fatalf("%v in %.300s", err, got.Result.Value)
	}
	return l
}

// screenshot returns the whole page, not only what a window shows.
func (b *browser) screenshot() ([]byte, image.Image) {
	b.t.Helper()
	var got struct{ Data []byte }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true, "optimizeForSpeed": true}, &got)
	picture, err := png.Decode(bytes.NewReader(got.Data))
	if err != nil {
		b.t.Fatal(err)
	}
	return got.Data, picture
}

// coloured counts the pixels of a part of a picture that are not grey.
func coloured(m image.Image, part image.Rectangle) (n int) {
	part = part.Intersect(m.Bounds())
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			r, g, b, _ := m.At(x, y).RGBA()
			if max(r, g, b)-min(r, g, b) > 0x2000 {
				n++
			}
		}
	}
	return n
}

// A report of `troupe load` opens in a browser without a network: nothing on the console, no request, each picture with its lines, and no
// text outside of its place, in a wide window and in a narrow one.
func TestLoadReportInBrowser(t *testing.T) {
	needs.Program(t, "chromium")
	t.Parallel()
	small := fake(shape{sessions: 2, processes: 5, seconds: 10, servers: 1, cuts: 3})
	large := withAll(fake(shape{sessions: 50, processes: 100, seconds: 120, servers: 2, cuts: 300, findings: 30, stopAt: 60}))
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, write := range map[string]func(io.Writer) error{
		"10.html":   func(w io.Writer) error { return Of(small).HTML(w) },
		"5000.html": func(w io.Writer) error { return Of(large).HTML(w) },
		"compared.html": func(w io.Writer) error {
			return Compare(Pair{Before: small, After: large, Names: [2]string{"10.json", "5000.json"}}).HTML(w)
		},
	} {
		var page bytes.Buffer
		if err := write(&page); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(name), page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	b := startBrowser(t)
	for _, c := range []struct {
		file, says string
		pictures   []string // some of them
	}{
		{"10.html", "up to 10 processes at once", []string{"Bytes checked, per second", "Processes, sessions, connections, at once", "echo, ", "lag, ", "CPU, cores in use"}},
		{"5000.html", "up to 5,000 processes at once", []string{"Bytes checked, per second", "Processes, sessions, connections, at once", "Cuts and resumes, per second", "Distribution of all latencies, ", "CPU, cores in use"}},
		{"compared.html", "5000.json is", nil},
	} {
		for _, v := range []view{{"wide", 1200, "light"}, {"narrow", 400, "dark"}} {
			where := c.file + ", " + v.name
			b.open(path(c.file), v)
			l := b.look()
			for _, w := range l.Wrong {
				t.Errorf("%s: %s", where, w)
			}
			if !strings.Contains(l.Text, c.says) || l.Title == "" {
				t.Errorf("%s: the page %q does not say %q:\n%.500s", where, l.Title, c.says, l.Text)
			}
			data, shot := b.screenshot()
			if *screenshotsTo != "" {
				name := strings.TrimSuffix(c.file, ".html") + "-" + v.name + ".png"
				if err := os.WriteFile(filepath.Join(*screenshotsTo, name), data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, want := range c.pictures {
				if !slices.ContainsFunc(l.Pictures, func(p picture) bool { return p.Name == want }) {
					t.Errorf("%s: no picture %q", where, want)
				}
			}
			for _, p := range l.Pictures {
				plot := image.Rect(int(p.Plot.X), int(p.Plot.Y), int(p.Plot.X+p.Plot.Width), int(p.Plot.Y+p.Plot.Height))
				if n := coloured(shot, plot); p.Width <= 0 || p.Height <= 0 || p.Lines+p.Dots == 0 || p.Labels == 0 || p.Overlaps > 0 || n < 3 {
					t.Errorf("%s: %+v has %d coloured pixels", where, p, n)
				}
			}
			t.Logf("%s: %d pictures, %v", where, len(l.Pictures), shot.Bounds().Size())
		}
	}
}

// withAll adds to r all that a report can have beside what fake makes.
func withAll(r *result.Result) *result.Result {
	r.Errors["process/start: "+strings.Repeat("a-long-word", 20)] = 3
	r.Notes = append(r.Notes, "A note. "+strings.Repeat("/a/long/path", 20))
	r.LeftOut, r.Problems = append(r.LeftOut, "observers: this server has none"), append(r.Problems, "a problem")
	return r
}
