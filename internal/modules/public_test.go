package main

import (
	"bufio"
	"encoding/json"
	"errors"
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

// What is public at a release stays for years. So each name that a user of a package sees (its
// functions, types, methods, constants, variables, fields and methods of interfaces) is used by
// another package, by an example or by a guide, or public.txt says why it is public; and there
// are no more of them than public.txt says.
func TestPublicNames(t *testing.T) {
	t.Parallel()
	tree := readTestTree(t)
	src := readSources(t, tree)
	public := make(map[types.Object]string) // "archive Stats.Days"
	for name, p := range src.packages {
		if pkg := strings.TrimPrefix(name, src.root); p.Name() != "main" && !strings.HasSuffix(pkg, "test") &&
			!strings.Contains(pkg, "internal/") && !within(pkg, "examples/...", "bench/...") {
			addPublic(public, pkg, p.Scope())
		}
	}
	most, why := readPublic(t)
	if len(public) > most {
		t.Errorf("%d names are public, more than the %d of public.txt", len(public), most)
	}
	if len(public) < most {
		t.Logf("%d names are public: so public.txt can say, instead of %d", len(public), most)
	}
	used := src.used
	src.addGuides(tree, public, used)
	addSignatures(public, used)
	var unused []string
	for o, name := range public {
		if !used[o] && !src.ofInterface(o, used) {
			unused = append(unused, name)
		}
	}
	slices.Sort(unused)
	for _, name := range unused {
		if why[name] == "" {
			t.Errorf("%s is public, and no other package, example or guide uses it: unexport it, use it, or say in public.txt why", name)
		}
		delete(why, name)
	}
	for name := range why {
		t.Logf("public.txt need not list %s: it is used, or gone", name)
	}
}

// readPublic returns the number of names that public.txt allows, and its reasons.
func readPublic(t *testing.T) (int, map[string]string) {
	t.Helper()
	file, err := os.Open("public.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	most, why := 0, make(map[string]string)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if most == 0 {
			if most, err = strconv.Atoi(line); err != nil {
				t.Fatal(err)
			}
			continue
		}
		name, reason, ok := strings.Cut(line, ": ")
		if !ok || reason == "" {
			t.Errorf("public.txt does not say why: %s", line)
		}
		if why[name] != "" {
			t.Errorf("public.txt has %s twice", name)
		}
		why[name] = reason
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return most, why
}

// addPublic adds the names that users of a package see.
func addPublic(public map[types.Object]string, pkg string, scope *types.Scope) {
	for _, name := range scope.Names() {
		o := scope.Lookup(name)
		if !o.Exported() {
			continue
		}
		public[o] = pkg + " " + name
		is, ok := o.(*types.TypeName)
		if !ok || is.IsAlias() {
			continue
		}
		member := func(o types.Object) {
			if o.Exported() {
				public[o] = pkg + " " + name + "." + o.Name()
			}
		}
		named := is.Type().(*types.Named)
		for m := range named.Methods() {
			member(m)
		}
		switch is := named.Underlying().(type) {
		case *types.Struct:
			for f := range is.Fields() {
				if !f.Embedded() {
					member(f)
				}
			}
		case *types.Interface:
			for m := range is.ExplicitMethods() {
				member(m)
			}
		}
	}
}

// sources are the packages of the tree with their types.
type sources struct {
	root       string // of import paths, with a slash
	fset       *token.FileSet
	files      map[string][]*ast.File // by import path; its examples by that and "_test"
	packages   map[string]*types.Package
	from       types.Importer            // of other packages
	used       map[types.Object]bool     // by another package, or an example
	interfaces map[string][]*types.Named // by their methods
}

func readSources(t *testing.T, tree *tree) *sources {
	t.Helper()
	src := &sources{
		root: tree.modules[0].path + "/", fset: token.NewFileSet(), files: make(map[string][]*ast.File),
		packages: make(map[string]*types.Package), used: make(map[types.Object]bool), interfaces: make(map[string][]*types.Named),
	}
	args := []string{"list", "-json=ImportPath,Dir,GoFiles,XTestGoFiles"}
	for _, m := range tree.modules {
		args = append(args, "./"+m.dir+"/...")
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = tree.root
	out, err := output(cmd)
	if err != nil {
		t.Fatal(err)
	}
	foreign := make(map[string]bool)
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir       string
			GoFiles, XTestGoFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Concat(p.GoFiles, p.XTestGoFiles) {
			of := p.ImportPath
			if strings.HasSuffix(name, "_test.go") {
				if of += "_test"; !strings.HasPrefix(name, "example") {
					continue
				}
			}
			file, err := parser.ParseFile(src.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			src.files[of] = append(src.files[of], file)
			for _, i := range file.Imports {
				if name, _ := strconv.Unquote(i.Path.Value); !strings.HasPrefix(name, src.root) {
					foreign[name] = true
				}
			}
		}
	}
	exports := exported(t, tree.root, slices.Collect(maps.Keys(foreign)))
	src.from = importer.ForCompiler(src.fset, "gc", func(pkg string) (io.ReadCloser, error) { return os.Open(exports[pkg].file) })
	for name := range src.files {
		if _, err := src.Import(name); err != nil && !strings.HasSuffix(name, "_test") { // examples may use what tests declare
			t.Fatal(err)
		}
	}
	for name := range foreign {
		if p, err := src.from.Import(name); err == nil {
			src.addInterfaces(p)
		}
	}
	for _, p := range src.packages {
		src.addInterfaces(p)
	}
	return src
}

// Import checks a package of ours, and reads another's types.
func (src *sources) Import(name string) (*types.Package, error) {
	files := src.files[name]
	if files == nil {
		return src.from.Import(name)
	}
	if p := src.packages[name]; p != nil {
		return p, nil
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: src}
	if strings.HasSuffix(name, "_test") {
		config.Error = func(error) {} // examples may use what tests declare
	}
	p, err := config.Check(name, src.fset, files, info)
	src.packages[name] = p
	for _, o := range info.Uses {
		switch is := o.(type) {
		case *types.Var:
			o = is.Origin()
		case *types.Func:
			o = is.Origin()
		}
		if o.Pkg() != nil && o.Pkg() != p {
			src.used[o] = true
		}
	}
	return p, err
}

func (src *sources) addInterfaces(p *types.Package) {
	for _, name := range p.Scope().Names() {
		o, ok := p.Scope().Lookup(name).(*types.TypeName)
		if !ok {
			continue
		}
		if is, ok := o.Type().(*types.Named); ok && types.IsInterface(is) {
			for m := range is.Underlying().(*types.Interface).Methods() {
				src.interfaces[m.Name()] = append(src.interfaces[m.Name()], is)
			}
		}
	}
}

// ofInterface reports whether a method is one of an interface, or makes its type one of it.
func (src *sources) ofInterface(o types.Object, used map[types.Object]bool) bool {
	m, ok := o.(*types.Func)
	if !ok || m.Signature().Recv() == nil {
		return false
	}
	of := m.Signature().Recv().Type()
	if p, ok := of.(*types.Pointer); ok {
		of = p.Elem()
	}
	named := of.(*types.Named)
	if types.IsInterface(of) {
		return used[named.Origin().Obj()] // whoever uses it has its methods, or writes them
	}
	if m.Name() == "Unwrap" || m.Name() == "Is" || m.Name() == "As" {
		return true // for package errors
	}
	return slices.ContainsFunc(src.interfaces[m.Name()], func(i *types.Named) bool {
		return types.Implements(types.NewPointer(instance(named)), instance(i).Underlying().(*types.Interface))
	})
}

// instance is a type with any for each of its parameters.
func instance(named *types.Named) types.Type {
	if named.TypeParams().Len() == 0 {
		return named
	}
	args := slices.Repeat([]types.Type{types.Universe.Lookup("any").Type()}, named.TypeParams().Len())
	is, err := types.Instantiate(nil, named.Origin(), args, false)
	if err != nil {
		panic(err)
	}
	return is
}

// addGuides adds what documents name: in their Go, whose variables have no types there, so that
// any member of that name is taken as used; and quoted in their prose, with its type or package.
func (src *sources) addGuides(tree *tree, public map[types.Object]string, used map[types.Object]bool) {
	named := make(map[string]bool) // "redis.New", "Options.Prefix"; "Prefix" of Go
	for _, m := range tree.modules {
		for _, f := range m.files {
			if path.Ext(f) != ".md" || f == "CHANGELOG.md" {
				continue
			}
			text := tree.read(m, f)
			for _, block := range fence.FindAllStringSubmatch(text, -1) {
				if block[1] == "go" {
					for _, n := range mention.FindAllStringSubmatch(block[2], -1) {
						named[n[1]], named[n[2]+n[3]] = true, true
					}
				}
			}
			for _, quote := range quoted.FindAllString(fence.ReplaceAllString(text, ""), -1) {
				for _, n := range qualified.FindAllString(quote, -1) {
					named[n] = true
				}
			}
		}
	}
	for o, name := range public {
		_, name, _ = strings.Cut(name, " ")
		if _, member, ok := strings.Cut(name, "."); ok && (named[name] || named[member]) || named[o.Pkg().Name()+"."+name] {
			used[o] = true
		}
	}
}

var mention = regexp.MustCompile(`\b(\w+\.([A-Z]\w*))|\b([A-Z]\w*):`)

// addSignatures adds the types that a user has from what is used: its results, arguments and fields.
func addSignatures(public map[types.Object]string, used map[types.Object]bool) {
	seen := make(map[types.Type]bool)
	var add func(is types.Type)
	add = func(is types.Type) {
		if seen[is] {
			return
		}
		seen[is] = true
		switch is := is.(type) {
		case *types.Named:
			if o := is.Origin().Obj(); public[o] != "" {
				used[o] = true
			}
			for a := range is.TypeArgs().Types() {
				add(a)
			}
		case *types.Alias:
			used[is.Obj()] = true
			add(is.Rhs())
		case *types.Map:
			add(is.Key())
			add(is.Elem())
		case *types.Signature:
			for v := range is.Params().Variables() {
				add(v.Type())
			}
			for v := range is.Results().Variables() {
				add(v.Type())
			}
		case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
			add(is.Elem())
		}
	}
	for o := range used {
		if public[o] != "" {
			add(o.Type())
		}
	}
}
