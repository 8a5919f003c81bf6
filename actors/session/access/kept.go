package access

import "github.com/b6f6fdd7/troupe/internal/record"

func init() {
	record.RegisterAll(Admit{}, Evict{}, Forget{}, Count{}, EndShare{})
}
