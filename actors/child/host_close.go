package child

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Close kills every tree, waits until all trees are verified gone, and stops the threads that fork. Close
// refuses waiting and later starts. When ctx is done, Close returns an error and the shutdown goes
// on. Close may be repeated.
func (h *Host) Close(ctx context.Context) error {
	h.close.Do(func() { go h.shutdown() })
	select {
	case <-h.closed:
		return h.err
	case <-ctx.Done():
		return fmt.Errorf("child: %d children may still be running: %w", h.Live(), ctx.Err())
	}
}

func (h *Host) shutdown() {
	defer close(h.closed)
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	h.stop(ErrClosed)
	h.starts.Wait()
	h.awaitTidy()
	h.adoptStrays(nil)
	h.mu.Lock()
	all := slices.Collect(maps.Keys(h.live))
	h.mu.Unlock()

	h.trees.EndAll()
	errs := make([]error, len(all), len(all)+2)
	var gone sync.WaitGroup
	for i, p := range all {
		gone.Go(func() { errs[i] = p.finish() })
	}
	gone.Wait()
	errs = append(errs, h.trees.AwaitUnborn(), h.trees.StopReaper())
	h.awaitLeaving()
	h.places.Close()
	if h.err = errors.Join(errs...); h.err != nil {
		// The threads that fork stay: the end of a thread would kill the remaining children, and
		// nobody would verify the kill.
		return
	}
	h.err = h.trees.Close()
	h.null.Close()
	h.order.close()
	h.threads.close()
	h.serving.close()
	h.slots.close()
}

// awaitLeaving waits until the placeholders are removed, for answerTime at most: a filesystem may hang.
func (h *Host) awaitLeaving() {
	done := make(chan struct{})
	go func() {
		h.leaving.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(h.answerTime):
		h.log.Warn("some placeholders of sandboxes stay: their filesystem does not answer")
	}
}

func (h *Host) forget(p *process) {
	if p.kept {
		h.holder.Forget(p.tree.Name()) // as of process.drop
	}
	h.mu.Lock()
	delete(h.live, p)
	h.mu.Unlock()
}
