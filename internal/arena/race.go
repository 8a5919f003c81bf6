//go:build race

package arena

// poisoned means: a block is wiped when nobody holds the block any more. Then tests that check every byte notice a reader who has released
// the block.
const poisoned = true
