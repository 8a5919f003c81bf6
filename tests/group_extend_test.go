package tests

import (
	"maps"
	"strings"
	"testing"
)

// extendOf returns the parameters of a group/start that extends an independent group.
func extendOf(id string, processes ...obj) obj {
	return obj{"groupId": id, "strategy": "independent", "extend": true, "processes": processes}
}

// A group is extended: others go on as they are, a process that has left gives way to another with its id, and the
// group's list keeps the labels.
func TestExtendGroup(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(knowing)
	sleeper := func(id, label string, more obj) obj {
		p := memberOf(id, obj{"argv": []string{"sleep", "1000"}, "label": label})
		maps.Copy(p, more)
		return p
	}
	job := obj{"argv": []string{"true"}, "ready": obj{"exit": true}, "restart": obj{"policy": "transient"}}
	c.call("group/start", extendOf("g", sleeper("job", "j1", job), sleeper("db", "d1", obj{"dependsOn": []string{"job"}}), sleeper("web", "w1", obj{"dependsOn": []string{"db"}})))
	c.awaitStand("g", "ready: job left 1 r db running 1 r web running 1 r")
	pid := func(id string) any { return c.call("process/info", obj{"processId": id})["pid"] }
	web, db := pid("web"), pid("db")

	refused := func(want string, params obj) {
		t.Helper()
		if _, err := c.callError("group/start", params); !strings.Contains(err, want) {
			t.Errorf("refused with %q, want %q", err, want)
		}
	}
	refused("process db of the group: it already exists", extendOf("g", sleeper("db", "d2", nil)))

	c.call("process/terminate", obj{"processId": "db", "tree": true})
	c.awaitStand("g", "ready: job left 1 r db left 1 r web running 1 r")
	result := c.call("group/start", extendOf("g", sleeper("db", "d2", obj{"dependsOn": []string{"job"}}), sleeper("extra", "e1", obj{"dependsOn": []string{"web"}})))
	if got := jsonText(result["processes"]); got != `["job","db","web","extra"]` {
		t.Errorf("the group has %s", got)
	}
	c.awaitStand("g", "ready: job left 1 r db running 1 r web running 1 r extra running 1 r")
	if now := pid("web"); now != web {
		t.Errorf("web was pid %v and is %v: it was not left alone", web, now)
	}
	if now := pid("db"); now == db {
		t.Errorf("db is still pid %v", db)
	}
	labels := ""
	for _, m := range c.group("g")["processes"].([]any) {
		labels += m.(obj)["label"].(string) + " "
	}
	if labels != "j1 d2 w1 e1 " {
		t.Errorf("the labels are %q", labels)
	}

	// A repeat of a request with a startToken is recognized although the group was extended since.
	with := func(token string) obj {
		params := extendOf("g", sleeper(token, "", nil))
		params["startToken"] = token
		return params
	}
	for _, token := range []string{"t1", "t2", "t1"} {
		c.call("group/start", with(token))
	}

	// The group ends. A request that is refused changes nothing, and the same request without a fault starts the group again.
	c.call("group/stop", obj{"groupId": "g"})
	before := jsonText(c.group("g")["processes"])
	refused("not in the group", extendOf("g", sleeper("web", "w2", obj{"dependsOn": []string{"nobody"}})))
	if now := jsonText(c.group("g")["processes"]); now != before {
		t.Errorf("after a refused request the group has %s, want %s", now, before)
	}
	if read := c.call("process/read", obj{"processId": "web"}); read["closed"] != true {
		t.Errorf("after a refused request the ended process is %s", jsonText(read))
	}
	c.call("group/start", extendOf("g", sleeper("web", "w2", nil)))
	c.awaitStand("g", "ready: web running 1 r")
}
