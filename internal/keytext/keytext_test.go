package keytext_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/internal/keytext"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestRead(t *testing.T) {
	keys, err := keytext.Read(strings.NewReader("a b\r\n\n\"c\\n\\xff\"\tits error \xff\nd\nbase64:a/8=\nbase64:YmFzZTY0Og==\n\"base64:a\""))
	if want := []string{"a b", "c\n\xff", "d", "k\xff", "base64:", "base64:a"}; err != nil || !slices.Equal(keys, want) {
		t.Errorf("%q, %v", keys, err)
	}
	for _, bad := range []string{"a\n\"b", "a\nbase64:a", "b\nbase64:YQ==", strings.Repeat("a", 2<<20)} {
		var invalid *driver.InvalidError
		if _, err := keytext.Read(strings.NewReader(bad)); !errors.As(err, &invalid) || invalid.Field != "keys" || invalid.Rule == "" || len(bad) < 99 && invalid.Value != "line 2" {
			t.Errorf("%v", err)
		}
	}
}

// A list of keys as editors and spreadsheets save it.
func TestReadMarked(t *testing.T) {
	keys, err := keytext.Read(strings.NewReader("\ufeffa\r\nb\r\n"))
	if want := []string{"a", "b"}; err != nil || !slices.Equal(keys, want) {
		t.Errorf("%q, %v; want %q", keys, err, want)
	}
	keys, err = keytext.Read(strings.NewReader("\ufeff\"a\\xff\"\n"))
	if want := []string{"a\xff"}; err != nil || !slices.Equal(keys, want) {
		t.Errorf("%q, %v; want %q", keys, err, want)
	}
	for _, bad := range []string{"\xff\xfea\x00\n\x00", "a\nb\xff"} { // UTF-16, Latin-1
		var invalid *driver.InvalidError
		if keys, err := keytext.Read(strings.NewReader(bad)); !errors.As(err, &invalid) || !strings.HasPrefix(invalid.Value, "line ") {
			t.Errorf("%q: %q, %v", bad, keys, err)
		}
	}
}
