package launch

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// The command is to blame for each error of commandErrors, unless the server lacked something.
func TestOfCommand(t *testing.T) {
	for _, err := range commandErrors {
		if !OfCommand(fmt.Errorf("%w: x", err)) {
			t.Errorf("%v is not the fault of the command", err)
		}
		if lacking := fmt.Errorf("%w: %w", err, syscall.EMFILE); OfCommand(lacking) {
			t.Errorf("%v is the fault of the command", lacking)
		}
	}
	if OfCommand(errors.New("x")) {
		t.Error("an unknown error is the fault of the command")
	}
}
