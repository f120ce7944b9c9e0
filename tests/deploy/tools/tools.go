//go:build tools

// Package tools pins the programs that render deploy/: the blank imports
// keep the modules in go.mod, `go build` makes the binaries. The folder
// kubectl pins its own.
package tools

import (
	_ "helm.sh/helm/v4/cmd/helm"
	_ "sigs.k8s.io/kustomize/kustomize/v5"
)
