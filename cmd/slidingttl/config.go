package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/slidingttl/policyfile"
)

// configFrom is the environment variable with the default of --config.
const configFrom = "SLIDINGTTL_CONFIG"

// settings is a store in a file of settings. The file also has policies by name, in the form that
// package policyfile reads.
type settings struct {
	URI    string `json:"uri"`
	Layout string `json:"layout"` // a file, in JSON relative to the settings
	Policy string `json:"policy"` // its name; empty: the store's name
}

// apply sets the flags of c that are not given from the settings of the store in args[0].
func (a *app) apply(c *cobra.Command, args []string) error {
	flags := c.Flags()
	given := func(name string) bool { f := flags.Lookup(name); return f == nil || f.Changed }
	for _, prefix := range []string{"", "from-", "to-"} {
		if a.config != "" && !given(prefix+"policy-file") && given(prefix+"policy-name") {
			_ = flags.Set(prefix+"policy-file", a.config)
		}
	}
	if !strings.HasPrefix(c.Use, c.Name()+" STORE") || len(args) == 0 || strings.Contains(args[0], ":") {
		return nil
	}
	if a.config == "" {
		return fmt.Errorf("%w: the store must be a URI such as dynamodb://table, or the name of a store in the file of --config or %s", errUsage, configFrom)
	}
	stores, err := readSettings(a.config)
	if err != nil {
		return err
	}
	name := args[0]
	s, ok := stores[name]
	if !ok {
		return fmt.Errorf("%w: --config %s: there is no store %q", errUsage, a.config, name)
	}
	args[0] = s.URI
	if s.Layout != "" && !given("layout") {
		_ = flags.Set("layout", s.Layout)
	}
	for _, prefix := range []string{"", "from-"} {
		if !given(prefix+"policy") && !given(prefix+"policy-file") {
			if s.Policy != "" {
				name = s.Policy
			}
			_ = flags.Set(prefix+"policy-file", a.config)
			_ = flags.Set(prefix+"policy-name", name)
		}
	}
	return nil
}

// readSettings returns the stores of a file of settings by name. A name that is unknown or doubled
// is an error, as in a policy file.
func readSettings(path string) (map[string]settings, error) {
	var file struct {
		Stores map[string]json.RawMessage `json:"stores"`
	}
	stores := make(map[string]settings)
	content, err := os.ReadFile(path)
	if err == nil {
		err = doubled(content)
	}
	if err == nil {
		err = json.Unmarshal(content, &file)
	}
	if err == nil {
		_, err = policyfile.Open(path) // what is not under stores is policies
	}
	for name, text := range file.Stores {
		var s settings
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if failed := d.Decode(&s); failed != nil && err == nil {
			err = fmt.Errorf("stores.%s: %w", name, failed)
		}
		if s.Layout != "" && !filepath.IsAbs(s.Layout) {
			s.Layout = filepath.Join(filepath.Dir(path), s.Layout)
		}
		stores[name] = s
	}
	if err != nil {
		return nil, fmt.Errorf("%w: --config: %w", errUsage, err)
	}
	return stores, nil
}

// doubled returns an error for a name that an object in content has twice, whatever their case:
// encoding/json would take the last.
func doubled(content []byte) error {
	if !json.Valid(content) {
		return nil // who decodes it says what is wrong
	}
	d := json.NewDecoder(bytes.NewReader(content))
	var value func(place string) error
	value = func(place string) error {
		t, err := d.Token()
		seen := make(map[string]bool)
		for (t == json.Delim('{') || t == json.Delim('[')) && d.More() && err == nil {
			at := place
			if t == json.Delim('{') {
				name, _ := d.Token()
				at += "." + fmt.Sprint(name)
				if seen[strings.ToLower(at)] {
					return fmt.Errorf("%s is given twice, the second time at byte %d", at[1:], d.InputOffset())
				}
				seen[strings.ToLower(at)] = true
			}
			err = value(at)
		}
		if t == json.Delim('{') || t == json.Delim('[') {
			_, _ = d.Token()
		}
		return err
	}
	return value("")
}
