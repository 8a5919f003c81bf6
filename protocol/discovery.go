package protocol

// This file has the methods that tell a client about the server's machine: its configuration files, and
// the plugins and skills in its directories. Paths are file URIs. (exec-server wire §8.)

// Methods that look for configuration, plugins and skills. The comments name the params and the result.
const (
	MethodEnvironmentConfigRead   = "environmentConfig/read"     // EnvironmentConfigReadParams → EnvironmentConfigReadResult
	MethodCapabilityRootsDiscover = "capabilityRoots/discoverV1" // CapabilityRootsDiscoverParams → CapabilityRootsDiscoverResult
	MethodCapabilitiesDiscover    = "capabilities/discoverV2"    // CapabilitiesDiscoverParams → CapabilitiesDiscoverResult
)

// EnvironmentConfigReadParams selects parts of configuration files. A path is a list of TOML keys, and
// selects the value with these keys.
type EnvironmentConfigReadParams struct {
	Cwd               string     `json:"cwd" wire:"required"` // whose project's files are read too
	ConfigPaths       [][]string `json:"configPaths" wire:"required"`
	RequirementsPaths [][]string `json:"requirementsPaths" wire:"required"`
}

// Unsupported returns nil: a client cannot confine this call.
func (EnvironmentConfigReadParams) Unsupported() error { return nil }

// EnvironmentConfigReadResult is the answer to environmentConfig/read.
type EnvironmentConfigReadResult struct {
	UserHomeDir  *string      `json:"userHomeDir"`
	CodexHomeDir string       `json:"codexHomeDir"`
	Hostname     *string      `json:"hostname"` // with the domain, if the resolver tells it within a second
	Config       ConfigLayers `json:"config"`
	Requirements ConfigLayers `json:"requirements"`
}

// ConfigLayers are configuration files. Values of a later layer override those of earlier layers.
type ConfigLayers struct {
	Layers []ConfigLayer `json:"layers"` // without layers that have nothing of the selected paths
	// CloudInsertionIndex is the index in Layers at which a client inserts layers from elsewhere.
	CloudInsertionIndex int `json:"cloudInsertionIndex"`
}

// ConfigLayer is the selected part of one configuration file.
type ConfigLayer struct {
	Source  string `json:"source"`  // for people
	BaseDir string `json:"baseDir"` // relative paths in TOML begin here
	TOML    string `json:"toml"`    // the selected values, unchanged
}

// CapabilityRootsDiscoverParams names directories in which to look for plugins and skills.
type CapabilityRootsDiscoverParams struct {
	Roots []CapabilityRoot `json:"roots" wire:"required"` // at most 128
}

// Unsupported returns an *Error if a root has a sandbox that forbids to read some files.
func (p CapabilityRootsDiscoverParams) Unsupported() error {
	for _, root := range p.Roots {
		if err := root.confinesReads(); err != nil {
			return err
		}
	}
	return nil
}

// CapabilityRoot is a directory to look in.
type CapabilityRoot struct {
	Confinement
	ID   string `json:"id" wire:"required"` // the client's name for the root
	Path string `json:"path" wire:"required"`
}

// CapabilityRootsDiscoverResult has an entry for each root, in the order of the params.
type CapabilityRootsDiscoverResult struct {
	Roots []CapabilityRootDiscovery `json:"roots"`
}

// CapabilityRootDiscovery has the files of plugins and skills below a root.
type CapabilityRootDiscovery struct {
	ID                 string           `json:"id"`   // as in the params
	Path               string           `json:"path"` // as in the params
	Plugin             *PluginFiles     `json:"plugin"`
	Skills             []SkillFiles     `json:"skills"`             // by path
	NamespaceManifests []DiscoveredFile `json:"namespaceManifests"` // of the root, or of the nearest plugin around it, and one of each plugin below
	Warnings           []string         `json:"warnings"`           // files that were left out, with the reason
	Error              *string          `json:"error"`              // why nothing was found; null: the root was read
}

// DiscoveredFile is a text file with its content.
type DiscoveredFile struct {
	Path     string `json:"path"`
	Contents string `json:"contents"`
}

// PluginFiles are the files of a plugin. The manifest names the others by its members mcpServers and apps: paths that begin with ./
// and stay below the root.
type PluginFiles struct {
	Manifest   DiscoveredFile  `json:"manifest"`
	MCPConfig  *DiscoveredFile `json:"mcpConfig"` // without mcpServers in the manifest, .mcp.json
	AppsConfig *DiscoveredFile `json:"appsConfig"`
}

// SkillFiles are the files of a skill.
type SkillFiles struct {
	Instructions DiscoveredFile  `json:"instructions"`
	Metadata     *DiscoveredFile `json:"metadata"` // agents/openai.yaml beside SKILL.md
}

// CapabilitiesDiscoverParams asks for the plugins and skills that are installed on the server's machine.
type CapabilitiesDiscoverParams struct {
	Confinement
	Cwd string `json:"cwd" wire:"required"` // not looked at
}

// Unsupported returns an *Error if the client asks for a sandbox that forbids to read some files.
func (p CapabilitiesDiscoverParams) Unsupported() error {
	return p.confinesReads()
}

// CapabilitiesDiscoverResult is the answer to capabilities/discoverV2.
type CapabilitiesDiscoverResult struct {
	Plugins  []InstalledPlugin `json:"plugins"`  // by ID
	Skills   []InstalledSkill  `json:"skills"`   // outside of plugins; the first of a name counts
	Warnings []string          `json:"warnings"` // what was left out, without paths
}

// InstalledPlugin is a plugin with its files and skills.
type InstalledPlugin struct {
	ID             string           `json:"id"`             // name@marketplace
	RemotePluginID *string          `json:"remotePluginId"` // of the plugin's file .codex-remote-plugin-install.json
	Version        string           `json:"version"`
	Root           string           `json:"root"`
	Files          PluginFiles      `json:"files"`
	Skills         []InstalledSkill `json:"skills"`
}

// InstalledSkill describes a skill, without its instructions.
type InstalledSkill struct {
	Name             string          `json:"name"`
	Namespace        *string         `json:"namespace"` // the name of the plugin around the skill
	Description      string          `json:"description"`
	ShortDescription *string         `json:"shortDescription"`
	Path             string          `json:"path"` // of SKILL.md
	Metadata         *DiscoveredFile `json:"metadata"`
}
