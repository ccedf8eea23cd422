package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// A proxy is a directory in which the go command finds the tree's modules at
// the version that the next tags will give them, and everything else where it
// always does. It has a module cache of its own, which shares everybody else's
// modules with the user's: what it serves changes without changing its version,
// and must not stay there.
type proxy struct {
	tree *tree
	dir  string
	env  []string
}

// serve writes the tree's modules as a proxy into a directory.
func (t *tree) serve(ctx context.Context, dir string) (*proxy, error) {
	out, err := output(exec.CommandContext(ctx, "go", "env", "GOMODCACHE", "GOPROXY", "GONOSUMDB"))
	if err != nil {
		return nil, err
	}
	env := strings.Split(out, "\n")
	cache, upstream, unsummed := env[0], env[1], env[2]
	p := &proxy{tree: t, dir: dir}
	p.env = append(os.Environ(),
		"GOWORK=off",
		"GOMODCACHE="+filepath.Join(dir, "mod"),
		"GOBIN="+filepath.Join(dir, "bin"),
		"GOPROXY=file://"+filepath.Join(dir, "proxy")+","+upstream,
		"GONOSUMDB="+strings.TrimSuffix(t.modules[0].path+","+unsummed, ","),
		// With -trimpath what is compiled does not depend on the directory, and
		// the build cache has it the next time.
		"GOFLAGS=-trimpath -modcacherw",
	)
	if err := t.linkThirdParties(cache, filepath.Join(dir, "mod")); err != nil {
		return nil, err
	}
	for _, m := range t.modules {
		if err := p.add(m); err != nil {
			return nil, fmt.Errorf("module %s: %w", m.path, err)
		}
	}
	return p, nil
}

// linkThirdParties has one module cache use another's modules, there already or still to be
// downloaded, of all who are named in a go.sum but the owner of this repository.
func (t *tree) linkThirdParties(from, to string) error {
	linked := map[string]bool{ownerOf(t.modules[0].path): true}
	for _, m := range t.modules {
		for line := range strings.Lines(t.read(m, "go.sum")) {
			name, _, _ := strings.Cut(line, " ")
			escaped, err := module.EscapePath(name)
			if err != nil {
				return err
			}
			owner := ownerOf(escaped)
			if linked[owner] {
				continue
			}
			linked[owner] = true
			for _, dir := range []string{owner, filepath.Join("cache", "download", owner)} {
				if err := errors.Join(
					os.MkdirAll(filepath.Join(from, dir), 0o777),
					os.MkdirAll(filepath.Dir(filepath.Join(to, dir)), 0o777),
					os.Symlink(filepath.Join(from, dir), filepath.Join(to, dir)),
				); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ownerOf is the part of a module's path that names a host, and on github.com whose it is.
func ownerOf(module string) string {
	host, rest, _ := strings.Cut(module, "/")
	if host != "github.com" {
		return host
	}
	name, _, _ := strings.Cut(rest, "/")
	return filepath.Join(host, name)
}

func (p *proxy) add(m *mod) error {
	escaped, err := module.EscapePath(m.path)
	if err != nil {
		return err
	}
	dir := filepath.Join(p.dir, "proxy", filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	version := p.tree.version
	gomod, err := os.ReadFile(filepath.Join(p.tree.root, m.dir, "go.mod"))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"list":            version + "\n",
		version + ".info": fmt.Sprintf(`{"Version":%q}`, version),
		version + ".mod":  string(gomod),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			return err
		}
	}
	archive, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		return err
	}
	defer archive.Close()
	var files []zip.File
	for _, f := range m.files {
		files = append(files, file{name: f, abs: filepath.Join(p.tree.root, m.dir, f)})
	}
	if err := zip.Create(archive, module.Version{Path: m.path, Version: version}, files); err != nil {
		return err
	}
	return archive.Close()
}

// copy unpacks a module, as a user gets it, into a directory, and returns that.
func (p *proxy) copy(m *mod) (string, error) {
	dir := filepath.Join(p.dir, "copy", strings.ReplaceAll(m.dir, "/", "-"), "module")
	escaped, err := module.EscapePath(m.path)
	if err != nil {
		return "", err
	}
	archive := filepath.Join(p.dir, "proxy", filepath.FromSlash(escaped), "@v", p.tree.version+".zip")
	return dir, zip.Unzip(dir, module.Version{Path: m.path, Version: p.tree.version}, archive)
}

// run runs the go command in a directory, as it runs at a user's who sees the
// modules through the proxy.
func (p *proxy) run(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = p.env
	return output(cmd)
}

// file is a file of the tree as package zip wants it.
type file struct{ name, abs string }

func (f file) Path() string                 { return f.name }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(f.abs) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.abs) }
