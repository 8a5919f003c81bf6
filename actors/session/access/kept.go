package access

import (
	"fmt"

	"github.com/b6f6fdd7/troupe/internal/record"
)

func init() {
	for _, a := range []Action{Admit{}, Evict{}, Forget{}, Count{}, EndShare{}} {
		record.Register(fmt.Sprintf("%T", a), a)
	}
}
