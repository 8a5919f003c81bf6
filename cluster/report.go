package cluster

import "reflect"

func reportWorthy(old, now Node) bool { return !reflect.DeepEqual(old, now) }
