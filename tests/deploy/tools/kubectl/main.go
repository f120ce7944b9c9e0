// Command kubectl is the real one. Kubernetes' own main (k8s.io/kubernetes/cmd/kubectl) calls the same
// package, but its module cannot be a dependency of this one: it relies on replaces that Go ignores there.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints it as kubectl does, and ends with kubectl's exit code
	}
}
