package cluster

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func noneSent(string) int64 { return 0 }

// drawing returns the given numbers, and then 0.
func drawing(numbers ...int) func(int) int {
	return func(n int) int {
		if len(numbers) == 0 {
			return 0
		}
		next := numbers[0]
		numbers = numbers[1:]
		if next >= n {
			panic(fmt.Sprintf("%d drawn of %d", next, n))
		}
		return next
	}
}

// equals returns n idle nodes for 1,000 sessions each. The names are of the form a0, the ids of the form a0-id.
func equals(n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		name := fmt.Sprintf("a%d", i)
		nodes[i] = Node{ID: name + "-id", Name: name, Load: Load{MaxSessions: 1000, MaxMemory: 1000, MaxFiles: 1000}}
	}
	return nodes
}

func names(nodes []Node) (names []string) {
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return names
}

func TestChooseOrder(t *testing.T) {
	for _, c := range []struct {
		name   string
		nodes  int
		change func([]Node)
		wish   Wish
		self   string
		sent   map[string]int64
		drawn  []int // numbers below the sum of the bounds of sessions, 1000 a node, in the order of the scores
		want   string
	}{
		{name: "the better of two sessions", nodes: 2, change: func(n []Node) { n[0].Load.Sessions = 2 }, drawn: []int{1500, 0}, want: "a1 a0"},
		{name: "the better of two memories", nodes: 2, change: func(n []Node) { n[0].Load.Memory = 2 }, drawn: []int{1500, 0}, want: "a1 a0"},
		{name: "the better of two descriptors", nodes: 2, change: func(n []Node) { n[0].Load.Files = 2 }, drawn: []int{1500, 0}, want: "a1 a0"},
		{name: "the better of two processors", nodes: 2, change: func(n []Node) { n[0].Load.CPU = 0.1 }, drawn: []int{1500, 0}, want: "a1 a0"},
		{name: "the largest share counts", nodes: 2, change: func(n []Node) {
			n[0].Load = Load{Sessions: 300, MaxSessions: 1000, CPU: 0.2}
			n[1].Load = Load{Sessions: 100, MaxSessions: 1000, CPU: 0.4}
		}, drawn: []int{1500, 0}, want: "a0 a1"},
		{name: "a processor may be overloaded", nodes: 2, change: func(n []Node) { n[0].Load.CPU, n[1].Load.CPU = 3, 2 }, want: "a1 a0"},
		{name: "the best is not drawn", nodes: 3, change: func(n []Node) { n[1].Load.Sessions, n[2].Load.Sessions = 10, 20 },
			drawn: []int{1000, 1000}, want: "a1 a0 a2"},
		{name: "others by score", nodes: 4, change: func(n []Node) { n[0].Load.Sessions, n[1].Load.Sessions, n[2].Load.Sessions = 30, 20, 10 },
			drawn: []int{3000, 2000}, want: "a1 a3 a2 a0"},
		{name: "sent since the last report", nodes: 2, sent: map[string]int64{"a0-id": 5}, want: "a1 a0"},
		{name: "sent on top of another share", nodes: 2, change: func(n []Node) { n[0].Load.Memory, n[1].Load.Memory = 500, 500 },
			sent: map[string]int64{"a0-id": 5}, want: "a1 a0"},
		{name: "sent to a small node", nodes: 2, change: func(n []Node) { n[0].Load.MaxSessions = 100 },
			sent: map[string]int64{"a0-id": 2, "a1-id": 5}, want: "a1 a0"},
		{name: "this node of equals", nodes: 4, self: "a3-id", drawn: []int{0, 0}, want: "a3 a0 a1 a2"},
		{name: "this node of almost equals", nodes: 4, change: func(n []Node) { n[3].Load.CPU = 0.01 }, self: "a3-id", want: "a3 a0 a1 a2"},
		{name: "another node if this one has more sessions", nodes: 4, change: func(n []Node) { n[3].Load.Sessions = 1 }, self: "a3-id", want: "a0 a1 a2 a3"},
		{name: "another node if this one is worse", nodes: 4, change: func(n []Node) { n[3].Load.CPU = 0.011 }, self: "a3-id", want: "a0 a1 a2 a3"},
		{name: "this node without the label", nodes: 2, change: func(n []Node) { n[0].Labels = map[string]string{"gpu": "true"} },
			wish: Wish{Labels: map[string]string{"gpu": "true"}}, self: "a1-id", want: "a0"},
		{name: "all labels", nodes: 3, change: func(n []Node) {
			n[0].Labels = map[string]string{"gpu": "true"}
			n[1].Labels = map[string]string{"gpu": "true", "zone": "eu"}
			n[2].Labels = map[string]string{"gpu": "false", "zone": "eu"}
		}, wish: Wish{Labels: map[string]string{"gpu": "true", "zone": "eu"}}, want: "a1"},
		{name: "the name", nodes: 3, wish: Wish{Node: "a2"}, want: "a2"},
		{name: "no draining node", nodes: 2, change: func(n []Node) { n[0].Draining = true }, want: "a1"},
		{name: "no node with all its sessions", nodes: 2, change: func(n []Node) { n[0].Load.Sessions = 1000 }, want: "a1"},
		{name: "a node with room for one", nodes: 1, change: func(n []Node) { n[0].Load.Sessions = 999 }, want: "a0"},
		{name: "no node without memory", nodes: 2, change: func(n []Node) { n[0].Load.Memory = 951 }, want: "a1"},
		{name: "no node without descriptors", nodes: 2, change: func(n []Node) { n[0].Load.Files = 951 }, want: "a1"},
		{name: "95 % is not full", nodes: 1, change: func(n []Node) { n[0].Load.Memory, n[0].Load.Files = 950, 950 }, want: "a0"},
		{name: "no bounds", nodes: 2, change: func(n []Node) { n[0].Load = Load{Sessions: 5000, Memory: 1 << 40, Files: 1 << 20} },
			drawn: []int{1000, 0}, want: "a1 a0"},
		{name: "sent more than there is room for: last, and still tried", nodes: 2, sent: map[string]int64{"a0-id": 2000}, want: "a1 a0"},
		{name: "at most 8", nodes: 20, drawn: []int{19_000, 18_000}, change: func(n []Node) {
			for i := range n {
				n[i].Load.Sessions = int64(i)
			}
		}, want: "a18 a0 a1 a2 a3 a4 a5 a6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := equals(c.nodes)
			if c.change != nil {
				c.change(nodes)
			}
			best, err := choose(nodes, c.wish, c.self, func(id string) int64 { return c.sent[id] }, drawing(c.drawn...))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(names(best), " "); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// Each node is drawn as often as it is large: whatever the order of the nodes, of two with equal scores.
func TestLargeNodesAreDrawnMore(t *testing.T) {
	nodes := equals(3)
	nodes[2].Load.MaxSessions = 2000
	random := rand.New(rand.NewPCG(1, 2))
	const rounds = 10_000
	first := make(map[string]int)
	for range rounds {
		order := []candidate{{node: &nodes[0]}, {node: &nodes[1]}, {node: &nodes[2]}}
		first[nodes[draw(order, -1, random.IntN)].Name]++
	}
	for name, want := range map[string]int{"a0": rounds / 4, "a1": rounds / 4, "a2": rounds / 2} {
		if got := first[name]; got < want*9/10 || got > want*11/10 {
			t.Errorf("%s drawn %d times, want about %d", name, got, want)
		}
	}
}

// All pairs of nodes compete, and never a node with itself.
func TestTwoDifferentNodesCompete(t *testing.T) {
	nodes := equals(3)
	order := []candidate{{node: &nodes[0], score: 1}, {node: &nodes[1], score: 2}, {node: &nodes[2], score: 3}}
	random := rand.New(rand.NewPCG(1, 2))
	won := make(map[int]int)
	for range 3000 {
		won[compete(order, "", random.IntN)]++
	}
	if won[2] != 0 {
		t.Errorf("the worst of three won %d times: it competed with itself", won[2])
	}
	if won[0] < 1800 || won[1] < 800 {
		t.Errorf("won: %v, want 2000 and 1000", won)
	}
}

// firsts returns the name of the first node by key.
func firsts(t *testing.T, nodes []Node, keys int) map[string]string {
	t.Helper()
	first := make(map[string]string)
	for i := range keys {
		key := fmt.Sprintf("key%d", i)
		best, err := choose(nodes, Wish{Key: key}, "a0-id", func(string) int64 { return rand.Int64N(100) }, rand.IntN)
		if err != nil {
			t.Fatal(err)
		}
		first[key] = best[0].Name
	}
	return first
}

func TestKeysStay(t *testing.T) {
	const keys = 1000
	nodes := equals(10)
	before := firsts(t, nodes, keys)

	count := make(map[string]int)
	for _, name := range before {
		count[name]++
	}
	for _, n := range nodes {
		if c := count[n.Name]; c < 60 || c > 140 {
			t.Errorf("%s has %d of %d keys", n.Name, c, keys)
		}
	}

	slices.Reverse(nodes)
	for i := range nodes {
		nodes[i].Load.Sessions, nodes[i].Load.CPU = rand.Int64N(900), rand.Float64()
		nodes[i].ID += "-after-a-restart"
	}
	if after := firsts(t, nodes, keys); !maps.Equal(before, after) {
		t.Error("keys moved with the order, the load and the ids of the nodes")
	}

	for what, without := range map[string]func([]Node) []Node{
		"left":     func(nodes []Node) []Node { return nodes[1:] },
		"full":     func(nodes []Node) []Node { nodes[0].Load.Sessions = 1000; return nodes },
		"draining": func(nodes []Node) []Node { nodes[0].Draining = true; return nodes },
	} {
		nodes := slices.Clone(nodes)
		gone, to := nodes[0].Name, make(map[string]bool)
		for key, name := range firsts(t, without(nodes), keys) {
			switch was := before[key]; {
			case was == gone && name == gone:
				t.Fatalf("%s: %s has %s", what, name, key)
			case was == gone:
				to[name] = true
			case was != name:
				t.Fatalf("%s: %s moved from %s to %s", what, key, was, name)
			}
		}
		if len(to) < 5 {
			t.Errorf("%s: the keys of a node moved to %d others", what, len(to))
		}
	}
}

func TestLargeNodesHaveMoreKeys(t *testing.T) {
	nodes := equals(4)
	nodes[0].Load.MaxSessions = 3000
	had := 0
	for _, name := range firsts(t, nodes, 1000) {
		if name == "a0" {
			had++
		}
	}
	if had < 430 || had > 570 {
		t.Errorf("a node with half of the room has %d of 1000 keys", had)
	}
}

// If the node of a key refuses, every gateway goes on with the same second node.
func TestKeysHaveTheSameSecondNode(t *testing.T) {
	nodes := equals(20)
	a, err := choose(nodes, Wish{Key: "k"}, "a1-id", noneSent, rand.IntN)
	b, err2 := choose(nodes, Wish{Key: "k"}, "a2-id", func(string) int64 { return rand.Int64N(9) }, rand.IntN)
	if err != nil || err2 != nil || !slices.Equal(names(a), names(b)) || len(a) != maxCandidates {
		t.Errorf("%v and %v, %v, %v", names(a), names(b), err, err2)
	}
}

// The ranks of names and keys must not change between versions: gateways of two versions would disagree.
func TestRankIsStable(t *testing.T) {
	n := Node{ID: "id", Name: "a1", Load: Load{MaxSessions: 1}}
	if got := fmt.Sprintf("%.6f", n.rank("key")); got != "0.327989" {
		t.Errorf("rank %s", got)
	}
}

func TestNoRoom(t *testing.T) {
	gpu := map[string]string{"gpu": "true"}
	for _, c := range []struct {
		name   string
		nodes  int
		change func([]Node)
		wish   Wish
		want   string
	}{
		{"no node", 0, nil, Wish{}, "the cluster has no node"},
		{"full", 4, func(n []Node) {
			n[0].Load.Sessions, n[1].Load.Memory, n[2].Load.Files, n[3].Draining = 1000, 964, 980, true
		}, Wish{}, "of 4 nodes, a0 has 1000 of 1000 sessions, a1 uses 96.4 % of its memory, may use 95, a2 uses 980 of 1000 descriptors, may use 95 %, 1 more being drained"},
		{"label", 5, func(n []Node) {
			n[0].Labels, n[1].Labels, n[0].Load.Sessions, n[1].Draining = gpu, gpu, 1000, true
		}, Wish{Labels: gpu}, "of 2 nodes with gpu=true, a0 has 1000 of 1000 sessions, a1 is being drained; 3 other nodes without gpu=true"},
		{"nobody has the label", 1, nil, Wish{Labels: gpu}, "none of 1 node has gpu=true"},
		{"nobody has the name", 2, nil, Wish{Node: "b"}, "none of 2 nodes has the name b"},
		{"nobody has all", 3, func(n []Node) { n[0].Labels = gpu }, Wish{Node: "a1", Labels: gpu},
			"none of 3 nodes has all of the name a1 (1 node), gpu=true (1 node)"},
		{"some have all", 2, func(n []Node) { n[0].Labels = gpu; n[0].Draining = true }, Wish{Node: "a0", Labels: gpu},
			"of 1 node with the name a0, gpu=true, a0 is being drained; 1 other node without some of these"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := equals(c.nodes)
			if c.change != nil {
				c.change(nodes)
			}
			for _, key := range []string{"", "k"} {
				c.wish.Key = key
				best, err := choose(nodes, c.wish, "", noneSent, drawing())
				if want := "no node has room: " + c.want; best != nil || !errors.Is(err, ErrNoRoom) || err.Error() != want {
					t.Errorf("%v, %v\nwant %s", names(best), err, want)
				}
			}
		})
	}
}

func TestNoRoomIsShort(t *testing.T) {
	nodes, wish := equals(1000), Wish{Node: strings.Repeat("n", maxNodeName), Labels: make(map[string]string)}
	for i := range maxLabels {
		wish.Labels[fmt.Sprintf("%02d%s", i, strings.Repeat("k", maxLabel-2))] = strings.Repeat("v", maxLabel)
	}
	if err := wish.Validate(); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*Node){
		"nobody fulfils": func(*Node) {},
		"all are full":   func(n *Node) { n.Name, n.Labels, n.Load.Sessions = wish.Node, wish.Labels, 1000 },
	} {
		for i := range nodes {
			change(&nodes[i])
		}
		_, err := choose(nodes, wish, "", noneSent, drawing())
		if err == nil || len(err.Error()) > 800 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
		t.Log(err)
	}
}

func TestValidateWish(t *testing.T) {
	labels := func(n int) map[string]string {
		all := make(map[string]string)
		for i := range n {
			all[fmt.Sprint(i)] = "v"
		}
		return all
	}
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		wish Wish
		want string
	}{
		{Wish{}, ""},
		{Wish{Labels: map[string]string{"troupe.io/Zone_1": "eu-west/1.a_B", long[:63]: long[:63]}, Node: long[:253], Key: long[:256]}, ""},
		{Wish{Labels: labels(16), Key: "any bytes\n"}, ""},
		{Wish{Labels: labels(17)}, "17 labels, at most 16 are allowed"},
		{Wish{Labels: map[string]string{"": "v"}}, `key of a label: "" has 0 bytes, must have 1 to 63`},
		{Wish{Labels: map[string]string{"gpu": ""}}, `value of label gpu: "" has 0 bytes, must have 1 to 63`},
		{Wish{Labels: map[string]string{long[:64]: "v"}}, `key of a label: "` + long[:64] + `" has 64 bytes, must have 1 to 63`},
		{Wish{Labels: map[string]string{"gpu": long}}, `value of label gpu: "` + long[:64] + `…" has 300 bytes, must have 1 to 63`},
		{Wish{Labels: map[string]string{"a b": "v"}}, `key of a label: "a b" has ' ', may have letters, digits and - _ . /`},
		{Wish{Labels: map[string]string{"gpu": "a=b"}}, `value of label gpu: "a=b" has '=', may have letters, digits and - _ . /`},
		{Wish{Labels: map[string]string{"gpu": "é"}}, `value of label gpu: "é" has 'é', may have letters, digits and - _ . /`},
		{Wish{Node: long[:254]}, "name of a node with 254 bytes, at most 253 are allowed"},
		{Wish{Key: long[:257]}, "placement key with 257 bytes, at most 256 are allowed"},
	} {
		got := ""
		if err := c.wish.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

// With random nodes and wishes, choose returns nodes with room only, none twice, and some if there are any.
func TestChooseOnlyNodesWithRoom(t *testing.T) {
	label := rapid.MapOfN(rapid.SampledFrom([]string{"gpu", "zone"}), rapid.SampledFrom([]string{"a", "b"}), 0, 2)
	rapid.Check(t, func(t *rapid.T) {
		bounded := func(what string) (int64, int64) {
			return rapid.Int64Range(0, 100).Draw(t, what), rapid.SampledFrom([]int64{0, 50, 100}).Draw(t, "max "+what)
		}
		nodes := equals(rapid.IntRange(0, 12).Draw(t, "nodes"))
		may := make(map[string]bool)
		wish := Wish{Labels: label.Draw(t, "wish"), Node: rapid.SampledFrom([]string{"", "", "", "a1"}).Draw(t, "node"),
			Key: rapid.SampledFrom([]string{"", "k"}).Draw(t, "key")}
		for i := range nodes {
			n, l := &nodes[i], &nodes[i].Load
			l.Sessions, l.MaxSessions = bounded("sessions")
			l.Memory, l.MaxMemory = bounded("memory")
			l.Files, l.MaxFiles = bounded("files")
			l.CPU = rapid.Float64Range(0, 3).Draw(t, "cpu")
			n.Draining = rapid.Bool().Draw(t, "draining")
			n.Labels = label.Draw(t, "labels")
			labelled := true
			for key, value := range wish.Labels {
				labelled = labelled && n.Labels[key] == value
			}
			full := l.MaxSessions > 0 && l.Sessions >= l.MaxSessions || l.MaxMemory > 0 && 100*l.Memory > 95*l.MaxMemory || l.MaxFiles > 0 && 100*l.Files > 95*l.MaxFiles
			if labelled && !full && !n.Draining && (wish.Node == "" || n.Name == wish.Node) {
				may[n.ID] = true
			}
		}
		sent := func(string) int64 { return rapid.Int64Range(0, 200).Draw(t, "sent") }
		random := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "random") }
		best, err := choose(nodes, wish, "a0-id", sent, random)
		if (err == nil) != (len(may) > 0) || len(best) != min(len(may), maxCandidates) {
			t.Fatalf("%d nodes, %v, want %d", len(best), err, len(may))
		}
		for _, n := range best {
			if !may[n.ID] {
				t.Fatalf("%s must not get a session, or is there twice: %+v", n.Name, n)
			}
			delete(may, n.ID)
		}
	})
}
