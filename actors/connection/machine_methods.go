package connection

import (
	"context"
	"errors"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/peer/capabilities"
	"github.com/b6f6fdd7/troupe/actors/peer/configfiles"
	"github.com/b6f6fdd7/troupe/protocol"
)

// The methods in this file tell a client about the user's files on this machine. They wait for disks, as
// the methods in file_methods.go. fileCalls.home has the home directory of the user.

// malformed returns the error for a URI that is malformed; nil: the URI may name a path of another
// host.
func malformed(uri string) error {
	_, err := protocol.ParseFileURI(uri)
	if refused, ok := errors.AsType[*protocol.URIError](err); ok && !refused.Foreign {
		return refused.Wire(protocol.CodeInvalidParams)
	}
	return nil
}

// hidden returns what the call must not show: files of the server, if the operator demands a sandbox. These methods need none,
// and a client can put links to such files into the directories that they search.
func (call *fileCall) hidden() files.Hidden {
	if !call.required {
		return nil
	}
	return call.files.hidden
}

func readConfig(call *fileCall, p protocol.EnvironmentConfigReadParams) error {
	if err := malformed(p.Cwd); err != nil {
		return err
	}
	if err := configfiles.CheckPaths(p); err != nil {
		return err
	}
	cwd, err := protocol.ParseFileURI(p.Cwd)
	if refused, ok := errors.AsType[*protocol.URIError](err); ok {
		return refused.Wire(protocol.CodeInvalidParams)
	}
	call.turn.Large, call.readsAll = true, true
	call.do = func(ctx context.Context) (any, error) {
		codexHome, err := configfiles.Home(call.files.home)
		if err != nil {
			return nil, protocol.Errorf(protocol.KindNotFound, protocol.CodeInternal, "failed to find Codex home: %v", err)
		}
		r := protocol.EnvironmentConfigReadResult{CodexHomeDir: protocol.FileURI(codexHome)}
		home := protocol.FileURI(call.files.home)
		r.UserHomeDir = &home
		if host := configfiles.Hostname(); host != "" {
			r.Hostname = &host
		}
		places := configfiles.Places{Codex: codexHome, System: configfiles.System, Hidden: call.hidden()}
		r.Config, r.Requirements, err = configfiles.Read(ctx, places, cwd, p, call.hold)
		return r, err
	}
	return nil
}

func discoverRoots(call *fileCall, p protocol.CapabilityRootsDiscoverParams) error {
	for _, root := range p.Roots {
		if err := malformed(root.Path); err != nil {
			return err
		}
	}
	call.turn.Large, call.readsAll = true, true
	call.do = func(ctx context.Context) (any, error) {
		return capabilities.Roots(ctx, p.Roots, call.hidden(), call.hold)
	}
	return nil
}

func discoverInstalled(call *fileCall, p protocol.CapabilitiesDiscoverParams) error {
	call.turn.Large, call.readsAll = true, true
	call.do = func(ctx context.Context) (any, error) {
		codexHome, err := configfiles.Home(call.files.home)
		if err != nil {
			return protocol.CapabilitiesDiscoverResult{Warnings: []string{"could not prewarm capability discovery: NotFound"}}, nil
		}
		homes := capabilities.Homes{Codex: codexHome, User: call.files.home, System: configfiles.System, Hidden: call.hidden()}
		return capabilities.Installed(ctx, homes, call.hold)
	}
	return malformed(p.Cwd)
}
