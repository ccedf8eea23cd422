package compare

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

var (
	denies = regexp.MustCompile(`\[no\b[^\]]*\]\(\.\./bench/compare/(\w+\.go)#(Test\w+)\)`)
	no     = regexp.MustCompile(`(?i)\bno\b`)
	named  = regexp.MustCompile(`\[([\w./-]+)\]\([^)]*\) (v\d\S*)`)
)

// Each cell of docs/compare.md that says no names a test here of 40 lines at most, and each test here is
// named by one. The versions in its heading are those that the tests run against.
func TestPage(t *testing.T) {
	programs := make(map[string]bool) // file and name
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Test") || name == "page_test.go" || name == "yes_test.go" {
				continue
			}
			programs[name+" "+f.Name.Name] = true
			if lines := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1; lines > 40 {
				t.Errorf("%s has %d lines, and should have 40", f.Name.Name, lines)
			}
		}
	}
	page, err := os.ReadFile("../../docs/compare.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]bool)
	questions := 0
	for line := range strings.Lines(string(page)) {
		if !regexp.MustCompile(`^\| \d+ \|`).MatchString(line) {
			continue
		}
		questions++
		for cell := range strings.SplitSeq(line, "|") {
			for _, m := range denies.FindAllStringSubmatch(cell, -1) {
				if !programs[m[1]+" "+m[2]] {
					t.Errorf("there is no %s in %s", m[2], m[1])
				}
				shown[m[1]+" "+m[2]] = true
			}
			if no.MatchString(denies.ReplaceAllString(cell, "")) {
				t.Errorf("nothing shows %q", cell)
			}
		}
	}
	if questions != 14 {
		t.Errorf("the page has %d questions", questions)
	}
	for p := range programs {
		if !shown[p] {
			t.Errorf("no cell names %s", p)
		}
	}
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := make(map[string]string)
	for _, r := range mod.Require {
		versions[r.Mod.Path] = strings.TrimSuffix(r.Mod.Version, "+incompatible")
	}
	found := 0
	for _, m := range named.FindAllStringSubmatch(string(page), -1) {
		found++
		if got := versions[m[1]]; got != m[2] {
			t.Errorf("the page is about %s %s, and the tests about %q", m[1], m[2], got)
		}
	}
	if found != 7 {
		t.Errorf("the page names %d versions", found)
	}
}
