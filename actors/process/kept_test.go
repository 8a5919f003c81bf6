package process

import (
	"reflect"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/record"
)

// Each field of the record outlives the server, or says why not.
func TestRecordIsKept(t *testing.T) {
	if err := record.Check(reflect.TypeFor[processRecord]()); err != nil {
		t.Error(err)
	}
}
