package archive_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"strings"
	"sync"

	"github.com/slidingttl/slidingttl/archive"
)

// fakeBucket is a bucket in memory that promises only what a Bucket must: a listing is in any
// order, and shows a change made while it runs only behind its current position. A file whose name
// has a question mark is a version behind a delete marker.
type fakeBucket struct {
	order func(a, b string) int // of a listing; nil: by name
	step  func()                // called before each name of a listing is read, and before each ReadAt
	did   func(name string)     // called after each change that was made, several at once

	reading func() // called within each ReadAt

	unreadable map[string][]byte // contents that fail to decrypt, by name

	mu    sync.Mutex
	files map[string][]byte // guarded by mu
}

func newFake() *fakeBucket { return &fakeBucket{files: map[string][]byte{}} }

// clone returns another bucket with the same files.
func (m *fakeBucket) clone() *fakeBucket {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &fakeBucket{files: maps.Clone(m.files)}
}

// set makes a change, unless only new names are accepted and the name exists.
func (m *fakeBucket) set(name string, content []byte, onlyNew bool) error {
	m.mu.Lock()
	_, taken := m.files[name]
	if taken && onlyNew {
		m.mu.Unlock()
		return fmt.Errorf("%s: %w", name, fs.ErrExist)
	}
	if content == nil {
		object, _, _ := strings.Cut(name, "?")
		maps.DeleteFunc(m.files, func(name string, _ []byte) bool {
			of, _, _ := strings.Cut(name, "?")
			return of == object
		})
	} else {
		m.files[name] = content
	}
	m.mu.Unlock()
	if m.did != nil {
		m.did(name)
	}
	return nil
}

func (m *fakeBucket) Create(ctx context.Context, _ string, write func(io.Writer) (string, error)) error {
	content := bytes.NewBuffer([]byte{})
	name, err := write(content)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.set(name, content.Bytes(), true)
}

func (m *fakeBucket) Put(ctx context.Context, name string, content []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.set(name, append([]byte{}, content...), false)
}

func (m *fakeBucket) Rename(ctx context.Context, from, to string) error {
	m.mu.Lock()
	content, ok := m.files[from]
	m.mu.Unlock()
	if !ok {
		return fmt.Errorf("%s: %w", from, fs.ErrNotExist)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	_ = m.set(to, content, false)
	return m.set(from, nil, false)
}

func (m *fakeBucket) Remove(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.set(name, nil, false)
}

func (m *fakeBucket) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if m.step != nil {
		m.step()
	}
	if m.reading != nil {
		m.reading()
	}
	m.mu.Lock()
	content, ok := m.files[name]
	m.mu.Unlock()
	if !ok {
		return 0, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	if harmed, ok := m.unreadable[name]; ok && bytes.Equal(content, harmed) {
		return 0, &archive.CorruptError{File: name, Err: errors.New("it cannot be decrypted")}
	}
	n, err := bytes.NewReader(content).ReadAt(p, off)
	return n, cmp.Or(ctx.Err(), err)
}

// List leaves out what a delete marker hides.
func (m *fakeBucket) List(ctx context.Context, prefix string) iter.Seq2[archive.Info, error] {
	return m.list(ctx, prefix, false)
}

func (m *fakeBucket) Hidden(ctx context.Context, prefix string) iter.Seq2[archive.Info, error] {
	return m.list(ctx, prefix, true)
}

func (m *fakeBucket) Removable(context.Context, string) error { return nil }

// hide puts a delete marker over a file.
func (m *fakeBucket) hide(name string) {
	m.files[name+"?1"] = m.files[name]
	delete(m.files, name)
}

func (m *fakeBucket) list(ctx context.Context, prefix string, hidden bool) iter.Seq2[archive.Info, error] {
	order := cmp.Compare[string]
	if m.order != nil {
		order = m.order
	}
	return func(yield func(archive.Info, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(archive.Info{}, err)
			return
		}
		for last := ""; ; {
			if m.step != nil {
				m.step()
			}
			var next archive.Info
			m.mu.Lock()
			for name, content := range m.files {
				if strings.HasPrefix(name, prefix) && strings.Contains(name, "?") == hidden && (last == "" || order(name, last) > 0) && (next.Name == "" || order(name, next.Name) < 0) {
					next = archive.Info{Name: name, Size: int64(len(content))}
				}
			}
			m.mu.Unlock()
			if next.Name == "" || !yield(next, nil) {
				return
			}
			last = next.Name
		}
	}
}
