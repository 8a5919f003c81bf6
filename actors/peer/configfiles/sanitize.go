package configfiles

// forbidden are the keys that a project may not set: they say where credentials go and which programs
// run.
var forbidden = [][]string{
	{"openai_base_url"}, {"chatgpt_base_url"}, {"apps_mcp_product_sku"}, {"responses_api_metadata"},
	{"model_provider"}, {"model_providers"}, {"notify"}, {"profile"}, {"profiles"},
	{"experimental_realtime_webrtc_call_base_url"}, {"experimental_realtime_ws_base_url"}, {"otel"},
	{"features", "respect_system_proxy"},
	{"tui", "keymap", "chat", "previous_permission_mode"}, {"tui", "keymap", "chat", "next_permission_mode"},
}

// forbiddenToBrokered are further keys, while a broker of credentials is configured. The peer lets a
// project set parts of them.
var forbiddenToBrokered = [][]string{{"features", "network_proxy"}, {"features", "shell_snapshot"}, {"shell_environment_policy"}}

// brokered reports whether the user has configured a broker of credentials.
func brokered(settings map[string]any) bool {
	features, _ := settings["features"].(map[string]any)
	proxy, _ := features["network_proxy"].(map[string]any)
	return proxy["credential_broker"] == true
}

// sanitize removes the keys that a project may not set.
func sanitize(values map[string]any, brokered bool) {
	for _, path := range forbidden {
		remove(values, path)
	}
	if brokered {
		for _, path := range forbiddenToBrokered {
			remove(values, path)
		}
	}
}

func remove(values map[string]any, path []string) {
	last := len(path) - 1
	for _, key := range path[:last] {
		values, _ = values[key].(map[string]any)
	}
	delete(values, path[last])
}
