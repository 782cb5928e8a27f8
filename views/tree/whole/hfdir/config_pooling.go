package hfdir

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/tree/whole"
)

// embedding adds the files by which sentence-transformers makes one vector of those
// of all tokens. Without them it takes the mean, and of decoders it wraps each text
// in the chat template.
func (c *configMaker) embedding(f *whole.Files) {
	v, key := c.keys.find("pooling_type")
	if v == nil && c.model() != "bert" {
		return
	}
	n, _ := wholeNumber(v)
	fields := whole.PoolingFields(n)
	if fields == nil {
		how := fmt.Sprintf("%s is %s, which sentence-transformers does not have", key, whole.Shown(v))
		if v == nil {
			how = "the file has no " + key
		}
		f.Notes = append(f.Notes, "there is no modules.json, without which sentence-transformers takes the mean of all tokens: "+how)
		return
	}
	pooling := jsonObject{{"word_embedding_dimension", c.dims["dim"]}}
	for _, field := range fields {
		pooling = append(pooling, jsonMember{field.Name, field.Set})
	}
	var modules []jsonObject
	for i, m := range []struct{ path, class string }{{"", "Transformer"}, {"1_Pooling", "Pooling"}, {"2_Normalize", "Normalize"}} {
		modules = append(modules, jsonObject{{"idx", int64(i)}, {"name", fmt.Sprint(i)}, {"path", m.path}, {"type", "sentence_transformers.models." + m.class}})
	}
	context := c.dims["max_seq_len"]
	for path, text := range map[string][]byte{
		"modules.json":              indented(modules),
		"1_Pooling/config.json":     append(pooling, jsonMember{"include_prompt", true}).text(),
		"sentence_bert_config.json": jsonObject{{"max_seq_length", context}, {"do_lower_case", false}}.text(),
	} {
		f.List = append(f.List, whole.File{Path: path, Data: tensorfs.Bytes(text)})
	}
	f.Exact = false
	f.Notes = append(f.Notes,
		"modules.json: that vectors are brought to the length 1 (2_Normalize) is what llama.cpp does by default; the file does not say it",
		fmt.Sprintf("sentence_bert_config.json: max_seq_length is the model's context of %d tokens; the file does not say how much of a text the release takes", context))
}
