package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// configFrom is the environment variable with the default of --config.
const configFrom = "SLIDINGTTL_CONFIG"

// settings is a store in a file of settings. The file also has policies by name, in the form that
// package policyfile reads.
type settings struct {
	URI    string `json:"uri"`
	Layout string `json:"layout"` // a file, relative to the settings
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
	var file struct {
		Stores map[string]settings `json:"stores"`
	}
	content, err := os.ReadFile(a.config)
	if err == nil {
		err = json.Unmarshal(content, &file)
	}
	if err != nil {
		return fmt.Errorf("%w: --config: %w", errUsage, err)
	}
	name := args[0]
	s, ok := file.Stores[name]
	if !ok {
		return fmt.Errorf("%w: --config %s: there is no store %q", errUsage, a.config, name)
	}
	args[0] = s.URI
	if s.Layout != "" && !given("layout") {
		_ = flags.Set("layout", filepath.Join(filepath.Dir(a.config), s.Layout))
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
