package main

import (
	"encoding/json"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// names are what a tree declares: "redis.New", "Options.Prefix", "func TestSoak", and "redis"
// and "Options" themselves. Packages of one name, and types, are taken together.
type names map[string]bool

// foreign are names of others that look like ours.
var foreign = names{"Bucket.Internal": true, "sql.DB": true}

func readNames(t *testing.T, tree *tree) names {
	t.Helper()
	all := make(names)
	for _, m := range tree.modules {
		for _, name := range m.files {
			if path.Ext(name) != ".go" {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(tree.root, m.dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			all.add(file)
			if pkg := file.Name.Name; pkg != "main" && !strings.Contains(m.dir+"/"+name, "internal/") {
				all[pkg] = true
			}
		}
	}
	return all
}

func (all names) add(file *ast.File) {
	pkg := file.Name.Name
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			of := pkg
			if d.Recv != nil {
				of = base(d.Recv.List[0].Type)
			}
			all[of+"."+d.Name.Name], all["func "+d.Name.Name] = true, true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					all[pkg+"."+s.Name.Name] = true
					if s.Name.IsExported() {
						all[s.Name.Name] = true
					}
					all.members(s.Name.Name, s.Type)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						all[pkg+"."+n.Name] = true
					}
				}
			}
		}
	}
}

// members adds the fields and methods of a type. One that embeds another, or is declared by
// it, is open: it may have more.
func (all names) members(of string, is ast.Expr) {
	var list *ast.FieldList
	switch is := is.(type) {
	case *ast.StructType:
		list = is.Fields
	case *ast.InterfaceType:
		list = is.Methods
	case *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr:
		all[of+" is open"] = true
		return
	default:
		return
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			all[of+"."+n.Name] = true
		}
		if len(f.Names) == 0 {
			all[of+" is open"] = true
		}
	}
}

// base is the name of the type that an expression comes to.
func base(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return base(e.X)
	case *ast.IndexExpr:
		return base(e.X)
	case *ast.IndexListExpr:
		return base(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

var (
	fence     = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	quoted    = regexp.MustCompile("`[^`\n]+`")
	link      = regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)
	qualified = regexp.MustCompile(`\b([A-Za-z]\w*)\.([A-Z]\w*)`)
	testName  = regexp.MustCompile("^`((?:Test|Benchmark|Fuzz)[A-Z]\\w*)`$")
)

// What a document names is there: the file that it links to, the test that shows what it
// says, the function, type or field of ours. Its Go is Go, and its JSON is JSON.
func TestDocuments(t *testing.T) {
	tree := readTestTree(t)
	all := readNames(t, tree)
	for _, m := range tree.modules {
		for _, name := range m.files {
			if path.Ext(name) == ".md" && name != "CHANGELOG.md" { // which tells of what is gone
				t.Run(path.Join(m.dir, name), func(t *testing.T) { checkDocument(t, all, filepath.Join(tree.root, m.dir, name)) })
			}
		}
	}
}

func checkDocument(t *testing.T, all names, name string) {
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	prose := fence.ReplaceAllString(string(content), "")
	for _, l := range link.FindAllStringSubmatch(quoted.ReplaceAllString(prose, ""), -1) {
		if to := l[1]; to != "" && !strings.Contains(to, "://") {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), to)); err != nil {
				t.Errorf("a link leads nowhere: %v", err)
			}
		}
	}
	for _, q := range quoted.FindAllString(prose, -1) {
		if n := testName.FindStringSubmatch(q); n != nil && !all["func "+n[1]] {
			t.Errorf("there is no %s", n[1])
		}
		checkNames(t, all, q)
	}
	for _, block := range fence.FindAllStringSubmatch(string(content), -1) {
		switch block[1] {
		case "go":
			checkGo(t, block[2])
			checkNames(t, all, block[2])
		case "json":
			if !json.Valid([]byte(block[2])) {
				t.Errorf("this is not JSON:\n%s", block[2])
			}
		}
	}
}

// checkNames looks up what text names of ours.
func checkNames(t *testing.T, all names, text string) {
	t.Helper()
	for _, q := range qualified.FindAllStringSubmatch(text, -1) {
		if name := q[0]; all[q[1]] && !all[name] && !all[q[1]+" is open"] && !foreign[name] {
			t.Errorf("%s has no %s", q[1], q[2])
		}
	}
}

// documented returns the files of each package that others may import.
func documented(t *testing.T) (*token.FileSet, map[string][]*ast.File) {
	t.Helper()
	tree := readTestTree(t)
	packages := make(map[string][]*ast.File)
	fset := token.NewFileSet()
	for _, m := range tree.modules {
		for _, f := range m.files {
			name := path.Join(m.dir, f)
			if path.Ext(f) != ".go" || strings.HasSuffix(f, "_test.go") || strings.Contains("/"+name, "/internal/") {
				continue
			}
			file, err := parser.ParseFile(fset, filepath.Join(tree.root, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			packages[path.Dir(name)] = append(packages[path.Dir(name)], file)
		}
	}
	return fset, packages
}

// go doc and pkg.go.dev leave out a comment within a type that belongs to no field, such as the heading of a group.
func TestCommentsOfGroups(t *testing.T) {
	fset, packages := documented(t)
	for _, files := range packages {
		for _, file := range files {
			shown := make(map[*ast.CommentGroup]bool)
			ast.Inspect(file, func(n ast.Node) bool {
				if f, ok := n.(*ast.Field); ok {
					shown[f.Doc], shown[f.Comment] = true, true
				}
				return true
			})
			ast.Inspect(file, func(n ast.Node) bool {
				s, ok := n.(*ast.TypeSpec)
				if !ok || !s.Name.IsExported() {
					return true
				}
				for _, c := range file.Comments {
					if s.Type.Pos() < c.Pos() && c.End() < s.Type.End() && !shown[c] {
						t.Errorf("%s: go doc does not show %q", fset.Position(c.Pos()), c.Text())
					}
				}
				return true
			})
		}
	}
}

// The first sentence about a package, and about each name that it exports, is a line: go doc
// and pkg.go.dev list it.
func TestFirstSentences(t *testing.T) {
	fset, packages := documented(t)
	for dir, files := range packages {
		p, err := doc.NewFromFiles(fset, files, dir)
		if err != nil {
			t.Fatal(err)
		}
		check := func(name, text string) {
			if first := p.Synopsis(text); len(first) > 100 {
				t.Errorf("%s: the first sentence about %s has %d columns, and should have 100: %s", dir, name, len(first), first)
			}
		}
		check("the package", p.Doc)
		checkAll := func(values []*doc.Value, funcs []*doc.Func) {
			for _, v := range values {
				check(v.Names[0], v.Doc)
			}
			for _, f := range funcs {
				check(f.Name, f.Doc)
			}
		}
		checkAll(append(p.Consts, p.Vars...), p.Funcs)
		for _, is := range p.Types {
			check(is.Name, is.Doc)
			checkAll(append(is.Consts, is.Vars...), append(is.Funcs, is.Methods...))
		}
	}
}

var (
	reference = regexp.MustCompile(`https://pkg\.go\.dev/(?:badge/)?github\.com/slidingttl/slidingttl/([a-z0-9/]+)`)
	workflow  = regexp.MustCompile(`/actions/workflows/([a-z]+\.yml)`)
)

// Every README and every guide is a page of the site, and leads to the reference of a package that is
// there; every badge leads to a workflow that is there.
func TestReferenceLinks(t *testing.T) {
	tree := readTestTree(t)
	site := tree.read(tree.modules[0], "site/.vitepress/config.mjs")
	for _, m := range tree.modules {
		for _, f := range m.files {
			name := path.Join(m.dir, f)
			if path.Base(name) != "README.md" && path.Dir(name) != "docs" || path.Ext(name) != ".md" {
				continue
			}
			text := tree.read(m, f)
			found := reference.FindAllStringSubmatch(text, -1)
			if !strings.HasPrefix(name, "internal/") {
				if len(found) == 0 {
					t.Errorf("%s links no page of pkg.go.dev", name)
				}
				if !strings.Contains(site, "'"+name+"'") {
					t.Errorf("%s is no page of the site", name)
				}
			}
			for _, r := range found {
				if files, _ := filepath.Glob(filepath.Join(tree.root, r[1], "*.go")); len(files) == 0 {
					t.Errorf("%s links %s, which is no package", name, r[0])
				}
			}
			for _, w := range workflow.FindAllStringSubmatch(text, -1) {
				if _, err := os.Stat(filepath.Join(tree.root, ".github", "workflows", w[1])); err != nil {
					t.Errorf("%s has a badge of %v", name, err)
				}
			}
		}
	}
}

var installRow = regexp.MustCompile("(?m)^\\| `([^`]*)` \\| (.*) \\| (.*) \\|$")

// The README's install table has every module that somebody may want, and packages that are there.
func TestInstallTable(t *testing.T) {
	tree := readTestTree(t)
	root := tree.modules[0]
	want := make(map[string]bool)
	for _, m := range tree.modules {
		if !within(m.dir, "internal/...", "examples/...", "bench") {
			want[m.path] = true
		}
	}
	_, table, _ := strings.Cut(tree.read(root, "README.md"), "\n## Install\n")
	for _, row := range installRow.FindAllStringSubmatch(table, -1) {
		name := path.Join(root.path, strings.TrimSuffix(row[1], "..."))
		if !want[name] {
			t.Errorf("the install table has %s, which is no module to be installed, or twice", name)
		}
		delete(want, name)
		if name != root.path {
			continue
		}
		for _, quote := range quoted.FindAllString(row[2], -1) {
			pkg := strings.Trim(quote, "`")
			if owner := tree.owner(pkg + "/doc.go"); owner.path != name {
				t.Errorf("%s is in the module %s, not in %s", pkg, owner.path, name)
			}
			if _, err := os.Stat(filepath.Join(tree.root, pkg)); err != nil {
				t.Error(err)
			}
		}
	}
	for name := range want {
		t.Errorf("the install table lacks %s", name)
	}
}

var left = regexp.MustCompile(`(?m)^\s*\.\.\.$`)

// checkGo wants a program, declarations, statements or fields. What is left out is a line
// of three dots.
func checkGo(t *testing.T, text string) {
	t.Helper()
	text = left.ReplaceAllString(text, "")
	var first error
	for _, form := range []string{"package p\nfunc _() {\n%\n}", "package p\n%", "%", "package p\nvar _ = t{\n%\n}"} {
		_, err := parser.ParseFile(token.NewFileSet(), "", strings.Replace(form, "%", text, 1), 0)
		if err == nil {
			return
		}
		if first == nil {
			first = err
		}
	}
	t.Errorf("this is not Go: %v\n%s", first, text)
}
