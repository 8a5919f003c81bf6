package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Attacks through files and disks.
var fileAttacks = []*attack{
	{
		name: "hanging file calls", short: true, skip: noFUSE,
		does: "Makes 1,024 file calls, on 128 connections, on a filesystem that does not answer; half of them through a link.",
		must: "The file calls of others are answered, and threads stay few.",
		run:  hangingFiles,
	},
	{
		name: "files that hang open", skip: noFUSE,
		does: "Opens and reads files of a filesystem that answers nothing once a file is open.",
		must: "The file calls of others are answered, and all else goes on.",
		run:  openFiles,
	},
	{
		name: "walk of long names", short: true,
		does: "Asks fs/walk for 50,000 names that have 2 KiB each as file URIs.",
		must: "No message is larger than maxMessageBytes, 64 MiB.",
		run:  walk,
	},
	{
		name: "slow disk", skip: noFUSE,
		does: "Writes a file of 13 MiB to a disk that needs 20 s for it.",
		must: "The write is done, and its connection lives.",
		run:  slowDisk,
	},
}

func hangingFiles(ctx context.Context, t *target) error {
	d, err := t.mount(-1)
	if err != nil {
		return err
	}
	link := filepath.Join(t.dir, "link-"+newToken())
	if err := os.Symlink(d.dir, link); err != nil {
		return err
	}
	const n = 128 // more than there are places for calls: each connection may have a call
	var peers []*peer
	for i := range n {
		p, err := t.open(ctx, nil, nil)
		if err != nil {
			return err
		}
		for j := range 1024 / n {
			dir := []string{d.dir, link}[j%2]
			if _, err := p.request("fs/getMetadata", obj{"path": fmt.Sprintf("file://%s/%d-%d", dir, i, j)}); err != nil {
				return err
			}
		}
		peers = append(peers, p)
	}
	if err := d.awaitAsked(ctx); err != nil {
		return err
	}
	if err := t.othersGoOn(ctx); err != nil {
		return err
	}
	for _, p := range peers { // the calls of each peer hang on
		p.cut()
	}
	return t.othersGoOn(ctx)
}

func openFiles(ctx context.Context, t *target) error {
	d, err := t.mount(-1, "file")
	if err != nil {
		return err
	}
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	for i := range 8 {
		if _, err := p.request("fs/readFile", obj{"path": "file://" + d.dir + "/file"}); err != nil {
			return err
		}
		if _, err := p.request("fs/open", obj{"handleId": fmt.Sprint("h", i), "path": "file://" + d.dir + "/file"}); err != nil {
			return err
		}
	}
	return t.othersGoOn(ctx)
}

func walk(ctx context.Context, t *target) error {
	deep := t.dir
	for range 7 {
		deep = filepath.Join(deep, strings.Repeat("ü", 60))
	}
	if err := os.MkdirAll(deep, 0o755); err != nil {
		return err
	}
	n := t.n(50_000, 20_000)
	for i := range n {
		f, err := os.Create(filepath.Join(deep, fmt.Sprintf("%s%05d", strings.Repeat("é", 100), i)))
		if err != nil {
			return err
		}
		f.Close()
	}
	p, err := t.dial(ctx, dialOptions{deaf: true})
	if err != nil {
		return err
	}
	most := 0
	p.size = func(n int) { most = max(most, n) }
	go p.read()
	if err := p.initialize(ctx, nil); err != nil {
		return err
	}
	var result struct {
		Entries   []struct{ Path string }
		Truncated bool
	}
	err = p.call(ctx, "fs/walk", obj{"path": "file://" + t.dir, "options": obj{"maxDepth": 100, "maxDirectories": 1000, "maxEntries": n + 100}}, &result)
	t.note("%d entries, truncated %v, %d MiB in a message", len(result.Entries), result.Truncated, most>>20)
	if refusal(err) != nil {
		err = nil // a stated reason is an answer
	}
	if most > 64<<20 {
		err = errors.Join(err, fmt.Errorf("a message had %d MiB, the bound is 64 MiB", most>>20))
	}
	return err
}

func slowDisk(ctx context.Context, t *target) error {
	d, err := t.mount(200 * time.Millisecond) // for each 128 KiB
	if err != nil {
		return err
	}
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	data := base64.StdEncoding.EncodeToString(make([]byte, 13<<20))
	answer, err := p.request("fs/writeFile", obj{"path": "file://" + d.dir + "/large", "dataBase64": data})
	if err != nil {
		return err
	}
	begin := time.Now()
	select {
	case a, ok := <-answer:
		if !ok {
			return fmt.Errorf("the connection ended after %v: %w", time.Since(begin).Round(time.Second), p.ended())
		}
		t.note("written in %v", time.Since(begin).Round(time.Second))
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
