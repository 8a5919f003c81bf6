package paths

import "testing"

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		path, dir string
		want      bool
	}{
		{"/", "/", true},
		{"/a", "/", true},
		{"/a", "/a", true},
		{"/a/b", "/a", true},
		{"/ab", "/a", false},
		{"/a", "/a/b", false},
		{"/b/a", "/a", false},
	} {
		if got := Within(c.path, c.dir); got != c.want {
			t.Errorf("Within(%q, %q) is %v", c.path, c.dir, got)
		}
	}
}

func TestParent(t *testing.T) {
	for path, want := range map[string]string{"/": "/", "/a": "/", "/a/b": "/a", "/a/b/c": "/a/b"} {
		if got := Parent(path); got != want {
			t.Errorf("Parent(%q) is %q, want %q", path, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	values := map[string]int{"/a": 1, "/a/b/c": 2}
	for _, c := range []struct {
		path string
		want int
		ok   bool
	}{
		{"/a", 1, true},
		{"/a/b", 1, true},
		{"/a/b/c", 2, true},
		{"/a/b/c/d/e", 2, true},
		{"/b", 0, false},
		{"/", 0, false},
	} {
		if got, ok := Nearest(values, c.path); got != c.want || ok != c.ok {
			t.Errorf("Nearest(%q) is %d, %v; want %d, %v", c.path, got, ok, c.want, c.ok)
		}
	}
	if got, ok := Nearest(map[string]int{"/": 3}, "/x/y"); got != 3 || !ok {
		t.Errorf("the value of / for /x/y is %d, %v", got, ok)
	}
}
