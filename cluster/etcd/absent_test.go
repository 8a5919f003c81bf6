//go:build noetcd

package etcd

import "testing"

func TestNoEtcd(t *testing.T) {
	const want = "this binary was built without etcd (-tags noetcd)"
	if m, err := New(Options{Endpoints: []string{"http://127.0.0.1:2379"}}); m != nil || err == nil || err.Error() != want {
		t.Errorf("%v, %v, want %s", m, err, want)
	}
}
