package launch

import (
	"context"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/process/health"
	"github.com/b6f6fdd7/troupe/internal/beneath"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// prepareRule has each start of a program look at the policy as it is then. The rule is that of the session's
// identity, also for restarts without a client. Without a policy a start costs nothing more.
func prepareRule(e *env.Env, o Request, spec *child.Spec) {
	if e.Rules == nil {
		return
	}
	identity := o.Identity
	spec.Rule = func() *rules.Rule { return e.Rules.Of(identity) }
	if r := o.Params.Ready; r != nil {
		for _, uri := range []string{r.File, r.Unix} {
			if path, err := protocol.ParseFileURI(uri); uri != "" && err == nil {
				spec.Watches = append(spec.Watches, path)
			}
		}
	}
}

// Look returns look for a file or a socket of Params.Ready, as the user of the run and under the policy: a link in the path does
// not lead the server out of the root. The server itself reads the policy: the user may not be allowed to.
func (l *Launch) Look(look func(context.Context) error) func(context.Context) error {
	u := l.User()
	look = as(u, look)
	if l.Spec.Rule == nil {
		return look
	}
	rule, path, isSocket := l.Spec.Rule, l.Spec.Watches[0], l.Params.Ready.Unix != ""
	return func(ctx context.Context) error {
		root, ok := rule().ReadRoot(path)
		switch {
		case !ok:
			return &rules.Refusal{What: "path", Name: path, Word: rules.Read}
		case root == "/":
			return look(ctx)
		}
		confined := func(ctx context.Context) error {
			return beneath.Use(root, path, isSocket, func(path string) error {
				if !isSocket {
					return nil
				}
				return health.Dial(ctx, "unix", path)
			})
		}
		return as(u, confined)(ctx)
	}
}

// as returns look with the file permissions of u: a client must not learn which files are closed to its programs.
func as(u *child.User, look func(context.Context) error) func(context.Context) error {
	if u == nil {
		return look
	}
	return func(ctx context.Context) (err error) {
		if refused := child.LookAs(u, func() { err = look(ctx) }); refused != nil {
			return refused
		}
		return err
	}
}
