package server

import (
	"slices"
	"testing"
)

func TestServerEnv(t *testing.T) {
	got := keepEnv([]string{"PATH=/bin", "SECRET=1", "HF_HOME=/h", "HF_TOKEN=x", "TENSORFS_X=1", "LD_PRELOAD=x", "GOGC=50", "PATHS=1", "HOME="}, nil)
	if want := []string{"PATH=/bin", "HF_HOME=/h", "TENSORFS_X=1", "GOGC=50", "HOME="}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAbsoluteEnv: a server, whose directory is / and whose environment has less, finds the same places.
func TestAbsoluteEnv(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HOME", "/home/u")
	t.Setenv("DATA", "/data")
	got := absoluteEnv([]string{"HF_HOME=~/hf", "HF_HUB_CACHE=$DATA/hub", "HUGGINGFACE_HUB_CACHE=", "HF_TOKEN_PATH=t", "OLLAMA_MODELS=~/o", "PATH=~/bin", "XDG_CACHE_HOME=$DATA/c",
		`OLLAMA_MODELS="/o"`, "NETRC=~/$DATA", "AWS_CONFIG_FILE=$DATA/aws", "AWS_CA_BUNDLE=ca.pem", "DOCKER_CONFIG=~/d", "AWS_REGION=x"})
	want := []string{"HF_HOME=/home/u/hf", "HF_HUB_CACHE=/data/hub", "HUGGINGFACE_HUB_CACHE=", "HF_TOKEN_PATH=" + dir + "/t", "OLLAMA_MODELS=" + dir + "/~/o", "PATH=~/bin", "XDG_CACHE_HOME=/data/c",
		"OLLAMA_MODELS=/o", "NETRC=/home/u/$DATA", "AWS_CONFIG_FILE=/data/aws", "AWS_CA_BUNDLE=" + dir + "/ca.pem", "DOCKER_CONFIG=" + dir + "/~/d", "AWS_REGION=x"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
