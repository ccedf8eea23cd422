package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const gremlins = "github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0"

// A mutant is one change of one file.
type mutant struct {
	file       string // absolute
	id         string // what it changes, without the line's number
	line, col  int
	start, end int // the bytes of the file that it replaces
	with       string
}

func (m mutant) String() string {
	file, rest, _ := strings.Cut(m.id, ": ")
	return fmt.Sprintf("%s:%d: %s", file, m.line, rest)
}

// apply returns text, of the mutant's file, as the mutant has it.
func (m mutant) apply(text []byte) []byte {
	return slices.Concat(text[:m.start], []byte(m.with), text[m.end:])
}

// replacements are what gremlins' operators make of a token. Its report says only
// where the token is.
var replacements = map[string]map[string]string{
	"ARITHMETIC_BASE":         {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*"},
	"CONDITIONALS_BOUNDARY":   {">=": ">", ">": ">=", "<=": "<", "<": "<="},
	"CONDITIONALS_NEGATION":   {"==": "!=", "!=": "==", ">=": "<", ">": "<=", "<=": ">", "<": ">="},
	"INCREMENT_DECREMENT":     {"--": "++", "++": "--"},
	"INVERT_ASSIGNMENTS":      {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="},
	"INVERT_BITWISE":          {"&^": "&", "&": "|", "|": "&", "^": "&", "<<": ">>", ">>": "<<"},
	"INVERT_BWASSIGN":         {"&^=": "&=", "&=": "|=", "|=": "&=", "^=": "&=", "<<=": ">>=", ">>=": "<<="},
	"INVERT_LOGICAL":          {"&&": "||", "||": "&&"},
	"INVERT_LOOPCTRL":         {"break": "continue", "continue": "break"},
	"INVERT_NEGATIVES":        {"-": "+"},
	"REMOVE_SELF_ASSIGNMENTS": {"+=": "=", "-=": "=", "*=": "=", "/=": "=", "%=": "=", "&=": "=", "|=": "=", "^=": "=", "&^=": "=", "<<=": "=", ">>=": "="},
}

// source is a file of the package, parsed.
type source struct {
	path string
	text []byte
	set  *token.FileSet
	ast  *ast.File
}

func (s *source) offset(p token.Pos) int { return s.set.Position(p).Offset }

// mutants returns every mutant of the package, in the order of their places.
func (t *tests) mutants(ctx context.Context) ([]mutant, error) {
	report, err := t.gremlins(ctx)
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range t.files {
		s := &source{path: filepath.Join(t.dir, name), set: token.NewFileSet()}
		if s.text, err = os.ReadFile(s.path); err != nil {
			return nil, err
		}
		if s.ast, err = parser.ParseFile(s.set, s.path, s.text, 0); err != nil {
			return nil, err
		}
		found, err := s.tokens(report[name])
		if err != nil {
			return nil, err
		}
		found = append(found, s.removals()...)
		slices.SortStableFunc(found, func(a, b mutant) int { return a.start - b.start })
		seen := map[string]int{}
		for _, m := range found {
			key := fmt.Sprint(m.start, " ", m.end, m.with)
			if seen[key]++; seen[key] > 1 {
				continue // two operators come to the same
			}
			if _, err := parser.ParseFile(token.NewFileSet(), "", m.apply(s.text), parser.SkipObjectResolution); err != nil {
				continue // a pointer is no product
			}
			m.id = fmt.Sprintf("%s/%s: %s: %s", t.place, name, s.function(m.start), m.id)
			if seen[m.id]++; seen[m.id] > 1 {
				m.id += fmt.Sprintf(" (the same again, %d)", seen[m.id])
			}
			all = append(all, m)
		}
	}
	return all, nil
}

// site is a place in gremlins' report.
type site struct {
	Type         string
	Line, Column int
}

// gremlins returns the places by file. It is given a copy of the files in a folder that
// its own run of the tests passes over, for that run needs the module's workspace.
func (t *tests) gremlins(ctx context.Context) (map[string][]site, error) {
	dir := filepath.Join(t.work, "gremlins")
	if err := os.MkdirAll(filepath.Join(dir, "testdata"), 0o755); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"go.mod": "module m\n", "m.go": "package m\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	for _, name := range t.files {
		text, err := os.ReadFile(filepath.Join(t.dir, name))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, "testdata", name), text, 0o644); err != nil {
			return nil, err
		}
	}
	args := []string{"run", gremlins, "unleash", "--dry-run", "--output", "report.json"}
	for operator := range replacements {
		args = append(args, "--"+strings.ToLower(strings.ReplaceAll(operator, "_", "-")))
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("gremlins: %w\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		return nil, err
	}
	var report struct {
		Files []struct {
			Name      string `json:"file_name"`
			Mutations []site
		}
	}
	if err := json.Unmarshal(b, &report); err != nil {
		return nil, err
	}
	sites := map[string][]site{}
	for _, f := range report.Files {
		sites[filepath.Base(f.Name)] = f.Mutations
	}
	return sites, nil
}

// tokens returns the mutants at sites.
func (s *source) tokens(sites []site) ([]mutant, error) {
	var found []mutant
	file := s.set.File(s.ast.FileStart)
	for _, at := range sites {
		start := s.offset(file.LineStart(at.Line)) + at.Column - 1
		var was string
		for tok := range replacements[at.Type] {
			if strings.HasPrefix(string(s.text[start:]), tok) && len(tok) > len(was) {
				was = tok
			}
		}
		if was == "" {
			return nil, fmt.Errorf("%s:%d:%d: no known replacement by gremlins' %s", s.path, at.Line, at.Column, at.Type)
		}
		m := s.replace(start, start+len(was), replacements[at.Type][was])
		from, to := s.lineAround(start)
		before, after := string(s.text[from:start]), string(s.text[m.end:to])
		m.id = fmt.Sprintf("%s: %s => %s", at.Type, strings.TrimSpace(before+was+after), strings.TrimSpace(before+m.with+after))
		found = append(found, m)
	}
	return found, nil
}

// removals returns the mutants that lack a statement or a field of a literal.
// A statement stays in an if that is false, so that what it uses is used.
func (s *source) removals() []mutant {
	var found []mutant
	removeStatement := func(n ast.Stmt) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				return
			}
		case *ast.IfStmt:
			if n.Else != nil {
				return
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt, *ast.ReturnStmt, *ast.BranchStmt:
		default:
			return
		}
		start, end := s.offset(n.Pos()), s.offset(n.End())
		m := s.replace(start, end, "if false { "+string(s.text[start:end])+" }")
		m.id = "STATEMENT_REMOVAL: " + s.firstLine(start, end)
		found = append(found, m)
	}
	removeField := func(e ast.Expr) {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return
		}
		if _, ok := field.Key.(*ast.Ident); !ok {
			return
		}
		start, end := s.offset(e.Pos()), s.offset(e.End())
		m := s.replace(start, end, "")
		if end < len(s.text) && s.text[end] == ',' {
			m.end++
		}
		m.id = "FIELD_REMOVAL: " + s.firstLine(start, end)
		found = append(found, m)
	}
	passed := map[ast.Stmt]bool{}
	passLastReturn := func(f *ast.FuncType, body *ast.BlockStmt) {
		if f.Results != nil && body != nil && len(body.List) > 0 {
			passed[body.List[len(body.List)-1]] = true // nothing builds without it
		}
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		var list []ast.Stmt
		switch n := n.(type) {
		case *ast.FuncDecl:
			passLastReturn(n.Type, n.Body)
		case *ast.FuncLit:
			passLastReturn(n.Type, n.Body)
		case *ast.BlockStmt:
			list = n.List
		case *ast.CaseClause:
			list = n.Body
		case *ast.CommClause:
			list = n.Body
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				removeField(e)
			}
		case *ast.IfStmt:
			if n.Else != nil {
				removeStatement(n.Else)
			} else if len(n.Body.List) == 1 {
				passed[n.Body.List[0]] = true // to remove the whole if comes to the same
			}
		}
		for _, stmt := range list {
			if !passed[stmt] {
				removeStatement(stmt)
			}
		}
		return true
	})
	return found
}

func (s *source) replace(start, end int, with string) mutant {
	at := s.set.File(s.ast.FileStart).Pos(start)
	p := s.set.Position(at)
	return mutant{file: s.path, line: p.Line, col: p.Column, start: start, end: end, with: with}
}

// function is the name of the function at an offset.
func (s *source) function(offset int) string {
	for _, d := range s.ast.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && s.offset(d.Pos()) <= offset && offset < s.offset(d.End()) {
			return f.Name.Name
		}
	}
	return "package"
}

func (s *source) lineAround(offset int) (from, to int) {
	from = bytes.LastIndexByte(s.text[:offset], '\n') + 1
	line, _, _ := bytes.Cut(s.text[from:], []byte("\n"))
	line, _, _ = bytes.Cut(line, []byte(" // "))
	return from, max(from+len(line), offset)
}

func (s *source) firstLine(start, end int) string {
	line, _, _ := strings.Cut(string(s.text[start:end]), "\n")
	return line
}
