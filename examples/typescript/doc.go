// Package typescript tests the TypeScript in this directory beside the Go drivers; see README.md.
package typescript
