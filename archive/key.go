package archive

import (
	"encoding/base64"
	"errors"
	"strings"
	"unicode/utf8"
)

const keyPrefix = "base64:"

// encodeKey returns key as text, the form in which files store it.
func encodeKey(key string) string {
	if utf8.ValidString(key) && !strings.HasPrefix(key, keyPrefix) {
		return key
	}
	return keyPrefix + base64.StdEncoding.EncodeToString([]byte(key))
}

// parseKey returns the key that text stands for in a list of keys: encodeKey's result, or itself.
func parseKey(text string) (string, error) {
	key, err := decodeKey(text)
	if err != nil || key != text && encodeKey(key) != text {
		return "", errNoKey
	}
	return key, nil
}

var errNoKey = errors.New(`it begins with "base64:", and is not how an archive writes a key`)

// decodeKey undoes encodeKey.
func decodeKey(text string) (string, error) {
	coded, ok := strings.CutPrefix(text, keyPrefix)
	if !ok {
		return text, nil
	}
	key, err := base64.StdEncoding.DecodeString(coded)
	return string(key), err
}
