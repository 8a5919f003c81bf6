package peer

import (
	"context"
	"errors"

	"github.com/b6f6fdd7/troupe/actors/connection"
	"github.com/b6f6fdd7/troupe/actors/peer/capabilities"
	"github.com/b6f6fdd7/troupe/actors/peer/configfiles"
	"github.com/b6f6fdd7/troupe/protocol"
)

// The methods in this file tell a client about the user's files on this machine.

// malformed returns the error for a URI that is malformed; nil: the URI may name a path of another
// host.
func malformed(uri string) error {
	_, err := protocol.ParseFileURI(uri)
	if refused, ok := errors.AsType[*protocol.URIError](err); ok && !refused.Foreign {
		return refused.Wire(protocol.CodeInvalidParams)
	}
	return nil
}

func checkConfig(p protocol.EnvironmentConfigReadParams) error {
	if err := malformed(p.Cwd); err != nil {
		return err
	}
	if err := configfiles.CheckPaths(p); err != nil {
		return err
	}
	_, err := protocol.ParseFileURI(p.Cwd)
	if refused, ok := errors.AsType[*protocol.URIError](err); ok {
		return refused.Wire(protocol.CodeInvalidParams)
	}
	return nil
}

func readConfig(ctx context.Context, of connection.Reader, p protocol.EnvironmentConfigReadParams) (any, error) {
	codexHome, err := configfiles.Home(of.Home)
	if err != nil {
		return nil, protocol.Errorf(protocol.KindNotFound, protocol.CodeInternal, "failed to find Codex home: %v", err)
	}
	r := protocol.EnvironmentConfigReadResult{CodexHomeDir: protocol.FileURI(codexHome)}
	home := protocol.FileURI(of.Home)
	r.UserHomeDir = &home
	if host := configfiles.Hostname(); host != "" {
		r.Hostname = &host
	}
	cwd, _ := protocol.ParseFileURI(p.Cwd) // checkConfig has parsed it
	places := configfiles.Places{Codex: codexHome, System: configfiles.System, Hidden: of.Hidden}
	r.Config, r.Requirements, err = configfiles.Read(ctx, places, cwd, p, of.Hold)
	return r, err
}

func checkRoots(p protocol.CapabilityRootsDiscoverParams) error {
	for _, root := range p.Roots {
		if err := malformed(root.Path); err != nil {
			return err
		}
	}
	return nil
}

func discoverRoots(ctx context.Context, of connection.Reader, p protocol.CapabilityRootsDiscoverParams) (any, error) {
	return capabilities.Roots(ctx, p.Roots, of.Hidden, of.Hold)
}

func checkInstalled(p protocol.CapabilitiesDiscoverParams) error { return malformed(p.Cwd) }

func discoverInstalled(ctx context.Context, of connection.Reader, _ protocol.CapabilitiesDiscoverParams) (any, error) {
	codexHome, err := configfiles.Home(of.Home)
	if err != nil {
		return protocol.CapabilitiesDiscoverResult{Warnings: []string{"could not prewarm capability discovery: NotFound"}}, nil
	}
	homes := capabilities.Homes{Codex: codexHome, User: of.Home, System: configfiles.System, Hidden: of.Hidden}
	return capabilities.Installed(ctx, homes, of.Hold)
}
