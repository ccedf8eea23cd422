package cosmostest

import (
	"strings"
	"unicode"
)

// kind is what a token is.
type kind int

const (
	atEnd kind = iota
	atWord
	atNumber
	atString
	atParameter
	atSign
)

// next reads a token.
func (p *parser) next() {
	for p.at < len(p.text) && strings.ContainsRune(" \t\r\n", rune(p.text[p.at])) {
		p.at++
	}
	begin := p.at
	if p.at == len(p.text) {
		p.kind, p.token = atEnd, ""
		return
	}
	part := func(c byte) bool {
		return c == '_' || c >= 0x80 || unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c))
	}
	run := func(in func(byte) bool) {
		for p.at++; p.at < len(p.text) && in(p.text[p.at]); p.at++ {
		}
		p.token = p.text[begin:p.at]
	}
	switch c := p.text[p.at]; {
	case c == '\'' || c == '"':
		var b strings.Builder
		for p.at++; p.at < len(p.text) && p.text[p.at] != c; p.at++ {
			if p.text[p.at] == '\\' && p.at+1 < len(p.text) {
				p.at++
			}
			b.WriteByte(p.text[p.at])
		}
		if p.at == len(p.text) {
			p.fail("the end of a string")
			return
		}
		p.at++
		p.kind, p.token = atString, b.String()
	case c >= '0' && c <= '9' || c == '-':
		p.kind = atNumber
		run(func(c byte) bool { return part(c) || c == '.' || c == '+' })
	case c == '@':
		p.kind = atParameter
		run(part)
	case part(c):
		p.kind = atWord
		run(part)
	default:
		p.kind = atSign
		p.at++
		if two := p.text[begin:min(begin+2, len(p.text))]; two == "<=" || two == ">=" || two == "!=" || two == "<>" {
			p.at++
		}
		p.token = p.text[begin:p.at]
	}
}
