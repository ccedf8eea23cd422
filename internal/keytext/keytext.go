// Package keytext has keys as text, the form in which archives and the command write them.
package keytext

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Prefix begins the text of a key that is not valid UTF-8, or begins so itself.
const Prefix = "base64:"

// Encode returns key as text.
func Encode(key string) string {
	if utf8.ValidString(key) && !strings.HasPrefix(key, Prefix) {
		return key
	}
	return Prefix + base64.StdEncoding.EncodeToString([]byte(key))
}

// parse returns the key that text stands for in a list of keys: Encode's result, or itself.
func parse(text string) (string, error) {
	key, err := Decode(text)
	if err != nil || key != text && Encode(key) != text {
		return "", errNoKey
	}
	return key, nil
}

var errNoKey = errors.New(`it begins with "base64:", and is not how an archive writes a key`)

// Decode undoes Encode.
func Decode(text string) (string, error) {
	coded, ok := strings.CutPrefix(text, Prefix)
	if !ok {
		return text, nil
	}
	key, err := base64.StdEncoding.DecodeString(coded)
	return string(key), err
}

// Read reads keys one a line, in UTF-8 with or without a byte order mark. It
// skips empty lines. A line that begins with a double quote is a Go string ("a\nb"), for keys
// that contain a newline or are not text; what follows it after a tab is not read. A line that begins with base64: is a
// key as an archive writes it, for one that is not text or begins so itself: a Go string says that too.
func Read(r io.Reader) ([]string, error) {
	var keys []string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		key := lines.Text()
		if n == 1 {
			key = strings.TrimPrefix(key, "\ufeff")
		}
		if strings.HasPrefix(key, `"`) {
			key, _, _ = strings.Cut(key, "\t")
		}
		if !utf8.ValidString(key) {
			return nil, &driver.InvalidError{Field: "keys", Value: fmt.Sprintf("line %d", n), Rule: "must be UTF-8, with other bytes in a Go string"}
		}
		var err error
		if strings.HasPrefix(key, `"`) {
			if key, err = strconv.Unquote(key); err != nil {
				return nil, &driver.InvalidError{Field: "keys", Value: fmt.Sprintf("line %d", n), Rule: "must be a key, or a Go string", Err: err}
			}
		} else if key == "" {
			continue
		} else if key, err = parse(key); err != nil {
			return nil, &driver.InvalidError{Field: "keys", Value: fmt.Sprintf("line %d", n), Rule: "must be a key as an archive writes it, or a Go string", Err: err}
		}
		keys = append(keys, key)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, &driver.InvalidError{Field: "keys", Value: "too long a line", Rule: "must have lines of at most 1 MiB"}
	}
	return keys, lines.Err()
}
