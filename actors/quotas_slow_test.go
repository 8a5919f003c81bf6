//go:build slow

package actors_test

import "testing"

// TestPlacesOfTenantsForLong is TestPlacesOfTenants with more runs. It does not run beside TestPlacesOfTenants: both set the same flag.
func TestPlacesOfTenantsForLong(t *testing.T) { placesOfTenants(t, 100) }
