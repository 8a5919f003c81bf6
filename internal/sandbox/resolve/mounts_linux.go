package resolve

import "github.com/b6f6fdd7/troupe/internal/mounts"

func (machine) Mounts() (list []Mount, err error) {
	table, err := mounts.Now()
	if err != nil {
		return nil, err
	}
	for _, m := range table.All {
		if kernelTypes[m.Type] {
			list = append(list, Mount{m.Dir, m.Type, m.Device})
		}
	}
	return list, nil
}
