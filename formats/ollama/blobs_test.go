package ollama

import (
	"reflect"
	"strings"
	"testing"
)

func TestBlobs(t *testing.T) {
	const model = `{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:` + hexA + `","size":7}`
	text := `{"config":{"digest":"sha256-` + strings.ToUpper(hexB) + `","size":5},"layers":[` + model + `,` + model + `,{"mediaType":"x","digest":"?"}]}`
	got, err := Blobs("m", []byte(text))
	want := []Blob{{"blobs/sha256-" + hexB, "sha256:" + hexB, 5}, {"blobs/sha256-" + hexA, "sha256:" + hexA, 7}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := Blobs("m", []byte(strings.Replace(text, `"size":5`, `"size":5,"x":1`, 1)+"x")); err == nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
	other := strings.Replace(model, `"size":7`, `"size":8`, 1)
	if _, err := Blobs("m", []byte(`{"layers":[`+model+`,`+other+`]}`)); err == nil || !strings.Contains(err.Error(), "has 8 bytes, and for another layer 7") {
		t.Error(err)
	}
	if n := (Name{"h", "n", "m", "t"}); n.Manifest() != "manifests/h/n/m/t" {
		t.Error(n.Manifest())
	}
}
