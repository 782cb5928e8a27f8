package main

import (
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
)

func TestSanity(t *testing.T) { _ = sanity.NewTestConfig() }
