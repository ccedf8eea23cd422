package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The Go of every document agrees with the packages that it calls: their arguments, results,
// fields and types. What a snippet takes for granted, such as a variable, is not checked.
func TestSnippets(t *testing.T) {
	t.Parallel()
	tree := readTestTree(t)
	type document struct {
		name  string
		names map[string]string // imported as, path
	}
	var documents []document
	var ours []string // packages, which documents name without an alias
	paths := make(map[string]bool)
	for _, m := range tree.modules {
		for _, f := range m.files {
			name := path.Join(m.dir, f)
			if dir := path.Dir(name); path.Base(f) == "doc.go" && !strings.Contains("/"+name, "/internal/") {
				ours = append(ours, path.Join(tree.modules[0].path, dir))
				paths[ours[len(ours)-1]] = true
			}
			if path.Ext(f) == ".md" {
				documents = append(documents, document{name, tree.importsBelow(t, path.Dir(name), paths)})
			}
		}
	}
	exports := exported(t, tree.root, slices.Collect(maps.Keys(paths)))
	lookup := func(pkg string) (io.ReadCloser, error) { return os.Open(exports[pkg].file) }
	fset := token.NewFileSet()
	from := importer.ForCompiler(fset, "gc", lookup)
	for _, d := range documents {
		names := make(map[string]string)
		for as, pkg := range d.names {
			if strings.HasPrefix(as, "*") {
				as = exports[pkg].name
			}
			names[as] = pkg
		}
		for _, pkg := range ours {
			names[exports[pkg].name] = pkg
		}
		content, err := os.ReadFile(filepath.Join(tree.root, d.name))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range fence.FindAllStringSubmatch(string(content), -1) {
			if block[1] == "go" && !strings.HasPrefix(block[2], "package ") {
				checkTypes(t, fset, from, d.name, names, block[2])
			}
		}
	}
}

// importsBelow returns the imports of the Go files in a directory and those below it, by the
// names that they have there; "*" and the path where that is the package's own. It adds their paths.
func (t *tree) importsBelow(test *testing.T, dir string, paths map[string]bool) map[string]string {
	test.Helper()
	names := make(map[string]string)
	for _, m := range t.modules {
		for _, f := range m.files {
			name := path.Join(m.dir, f)
			if dir == "." || path.Ext(f) != ".go" || !strings.HasPrefix(name, dir+"/") || strings.Contains(name, "/internal/") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(t.root, name), nil, parser.ImportsOnly)
			if err != nil {
				test.Fatal(err)
			}
			for _, s := range file.Imports {
				pkg, err := strconv.Unquote(s.Path.Value)
				if err != nil {
					test.Fatal(err)
				}
				if strings.Contains(pkg, "/internal/") || pkg == "C" {
					continue
				}
				as := "*" + pkg
				if s.Name != nil {
					as = s.Name.Name
				}
				names[as], paths[pkg] = pkg, true
			}
		}
	}
	return names
}

// export is a package's name, and the file of what it exports.
type export struct{ name, file string }

// exported compiles packages, with all that they import.
func exported(t *testing.T, root string, paths []string) map[string]export {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Name}} {{.Export}}", "--"}, paths...)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOFLAGS=-trimpath")
	out, err := output(cmd)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]export)
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 3 {
			all[f[0]] = export{f[1], f[2]}
		}
	}
	return all
}

// granted are errors about what a snippet takes for granted, or leaves out: variables, the
// members of its own types.
var granted = regexp.MustCompile(`^undefined: \w+$|declared and not used|imported as|imported and not used|missing return|return values|no new variables|is not used$|\(type \*?\w+ has no field or method`)

// ownType is the error for a type of the application's.
var ownType = regexp.MustCompile(`^undefined: ([A-Z]\w*)$`)

func checkTypes(t *testing.T, fset *token.FileSet, from types.Importer, document string, names map[string]string, text string) {
	t.Helper()
	var head strings.Builder
	head.WriteString("package p\n")
	used := make(map[string]bool)
	for _, q := range regexp.MustCompile(`\b(\w+)\.[A-Z]`).FindAllStringSubmatch(text, -1) {
		if pkg := names[q[1]]; pkg != "" && !used[q[1]] {
			used[q[1]] = true
			fmt.Fprintf(&head, "import %s %q\n", q[1], pkg)
		}
	}
	text = left.ReplaceAllString(text, "")
	check := func(each func(msg string)) {
		for _, form := range []string{"func _() error {\n%\n}", "%"} {
			file, err := parser.ParseFile(fset, document, head.String()+strings.Replace(form, "%", text, 1), 0)
			if err != nil {
				continue
			}
			config := types.Config{Importer: from, Error: func(err error) {
				if e, ok := err.(types.Error); ok {
					each(e.Msg)
				}
			}}
			_, _ = config.Check("p", fset, []*ast.File{file}, nil) // Error has them all
			return
		}
	}
	own := make(map[string]bool)
	check(func(msg string) {
		if m := ownType.FindStringSubmatch(msg); m != nil {
			own[m[1]] = true
		}
	})
	for name := range own {
		fmt.Fprintf(&head, "type %s struct{}\n", name)
	}
	check(func(msg string) {
		if !granted.MatchString(msg) {
			t.Errorf("%s: %s, in\n%s", document, msg, text)
		}
	})
}
