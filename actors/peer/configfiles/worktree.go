package configfiles

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/b6f6fdd7/troupe/actors/files"
)

// maxGitFile bounds the files of git that are read, in bytes.
const maxGitFile = 64 << 10

// checkoutOf returns the nearest directory with .git at or above dir; empty: there is none.
func checkoutOf(dir string) string {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		dir = filepath.Dir(dir)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == "/" {
			return ""
		}
	}
}

// mainCheckout returns the main checkout of a linked worktree, and other checkouts themselves. Empty:
// there is none, or its files disagree. Anybody can write a .git file that names the repository of
// somebody else, so the repository must name the worktree too.
func mainCheckout(checkout string) string {
	if checkout == "" {
		return ""
	}
	dotGit := filepath.Join(checkout, ".git")
	if info, err := os.Stat(dotGit); err != nil {
		return ""
	} else if info.IsDir() {
		return checkout
	}
	admin := gitPath(dotGit, "gitdir:")
	if admin == "" || filepath.Base(filepath.Dir(admin)) != "worktrees" {
		return ""
	}
	common := canonical(filepath.Dir(filepath.Dir(admin)))
	main := filepath.Dir(common)
	back := gitPath(filepath.Join(admin, "gitdir"), "")
	switch {
	case filepath.Base(back) != ".git" || canonical(filepath.Dir(back)) != canonical(checkout):
	case canonical(gitPath(filepath.Join(admin, "commondir"), "")) != common:
	case gitDir(main) != common:
	default:
		return main
	}
	return ""
}

// gitDir returns the directory of git of a main checkout.
func gitDir(checkout string) string {
	dotGit := filepath.Join(checkout, ".git")
	if info, err := os.Lstat(dotGit); err == nil && info.Mode().IsRegular() {
		return canonical(gitPath(dotGit, "gitdir:"))
	}
	return canonical(dotGit)
}

// gitPath returns the path in a file of git, after a prefix; empty: there is none. A link is no such file.
func gitPath(file, prefix string) string {
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	data, err := files.Read(file, maxGitFile, nil)
	if err != nil {
		return ""
	}
	path, ok := strings.CutPrefix(strings.TrimSpace(string(data)), prefix)
	if path = strings.TrimSpace(path); !ok || path == "" || strings.ContainsRune(path, 0) {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	return filepath.Clean(path)
}
