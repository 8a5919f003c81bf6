//go:build slow

package actors_test

import "testing"

// TestNobodyOfManyIsLostAsTheTroupeRetires is TestNobodyIsLostAsTheTroupeRetires with more moments.
func TestNobodyOfManyIsLostAsTheTroupeRetires(t *testing.T) {
	t.Parallel()
	retireUnderClients(t, 150)
}
