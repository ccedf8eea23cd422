package redis

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The texts are those of Redis 7.0, of Redis 7.2 and later and Valkey, and of a command alone.
func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"ERR The user executing the script can't run this command or subcommand script: 305f4f8e, on @user_script:48.":             "The user executing the script can't run this command or subcommand",
		"ERR ACL failure in script: User reader has no permissions to run the 'set' command script: 305f4f8e, on @user_script:48.": "ACL failure in script: User reader has no permissions to run the 'set' command",
		"ACL failure in script: No permissions to access a key script: 305f4f8e, on @user_script:48.":                              "ACL failure in script: No permissions to access a key",
		"ACL failure in script: User reader has no permissions to run the 'set' command":                                           "ACL failure in script: User reader has no permissions to run the 'set' command",
		"NOPERM User reader has no permissions to run the 'evalsha' command":                                                       "NOPERM User reader has no permissions to run the 'evalsha' command",
		"NOAUTH Authentication required.": "NOAUTH Authentication required.",
	} {
		err := failed(context.Background(), wire.Answer{Kind: wire.Refused, Err: errors.New(text)})
		if !errors.Is(err, driver.ErrRefused) || !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("%q is told as %q; want %v: %s", text, err, driver.ErrRefused, want)
		}
	}
	if err := failed(context.Background(), wire.Answer{Kind: wire.Refused, Err: errors.New("OOM command not allowed")}); errors.Is(err, driver.ErrRefused) {
		t.Errorf("%v is taken for a refused right", err)
	}
}
