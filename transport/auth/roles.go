package auth

import (
	"fmt"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/linefile"
)

// maxObserved is how many identities a client may observe by name.
const maxObserved = 1000

// Roles say what identities may do beyond their own sessions. They are lines of a file:
//
//	# Lines with # and empty lines are skipped.
//	root      operator
//	cert:bob  observes alice jwt:carol
//
// An operator reaches all sessions as if they were its own. An identity may have several lines.
type Roles struct {
	file *secret[map[string]Identity]
}

// OpenRoles returns the roles in the file at path. Each connection sees the file as the file is then.
func OpenRoles(path string) (*Roles, error) {
	f, err := openSecret(path, parseRoles)
	return &Roles{f}, err
}

func parseRoles(data []byte) (map[string]Identity, error) {
	all := make(map[string]Identity)
	err := linefile.Parse(data, func(fields []string) error {
		id := all[fields[0]]
		id.Name = fields[0]
		switch {
		case linefile.Commented(fields):
			return linefile.ErrComment
		case len(fields) == 2 && fields[1] == "operator":
			id.Operator = true
		case len(fields) > 2 && fields[1] == "observes":
			id.Observes = append(id.Observes, fields[2:]...)
		default:
			return fmt.Errorf("want NAME operator, or NAME observes NAME …, not %q", strings.Join(fields, " "))
		}
		if len(id.Observes) > maxObserved {
			return fmt.Errorf("%s observes more than %d identities", id.Name, maxObserved)
		}
		all[id.Name] = id
		return nil
	})
	return all, err
}

// grant adds the roles of an identity.
func (r *Roles) grant(id Identity) (Identity, error) {
	if r == nil {
		return id, nil
	}
	all, err := r.file.get()
	if err != nil {
		return Identity{}, err
	}
	more := all[id.Name]
	id.Operator = id.Operator || more.Operator
	id.Observes = append(id.Observes[:len(id.Observes):len(id.Observes)], more.Observes...)
	return id, nil
}
