package tokenizer

import (
	"maps"
	"slices"
	"strings"
)

// habit is what llama.cpp's converter does with the tokenizers of some architectures
// and with no others.
type habit struct {
	archs        string // as GGUF calls them, with spaces between
	field, value string // of config.json, where that counts, too
	token        string // an added token that shows whose tokenizer it is

	pieces  string            // SentencePiece's files that count for more than a tokenizer.json, the first that is there
	model   string            // the model name in GGUF, if the files would suggest another
	prefix  string            // whether SentencePiece's texts get a space before them: never, always unless the pieces' own file contradicts, or as in tokenizer_config.json
	shifted bool              // SentencePiece's ids are shifted like fairseq's: see [source.shift]
	added   bool              // the tokens that tokenizer.json adds to SentencePiece's count, too
	roles   map[string]string // special tokens that nothing else names: an id, or the text of an added token
	pre     string            // its name for a pre-tokenizer, instead of others that cut in the same way
	visible string            // tokens that are shown although they are special, with spaces between
	scored  bool              // added_tokens_decoder has SentencePiece's own tokens: special ones score 0, the rest like missing ones
	noBOS   bool              // no text begins with bos, whatever the files say
	ends    string            // an added token that is eos, whatever the files say, if the model has it

	template string // the chat template of a model that has none
}

// Roles of GLM's tokens. The list of eos in config.json has them too, and llama.cpp
// takes one.
var glmRoles = map[string]string{"bos": "[gMASK]", "eot": "<|user|>", "unk": "<|endoftext|>", "eom": "<|observation|>"}

// glm4Roles are roles of the tokens of GLM-4, and of what hears with it.
var glm4Roles = map[string]string{"eos": "<|endoftext|>", "eot": "<|user|>", "unk": "<|endoftext|>", "bos": "<|endoftext|>"}

// habits are rows; where several are of one model, all of them count. They are
// set_vocab of the classes in llama.cpp's conversion/, and say which of these differ.
var habits = []habit{
	{archs: "afmoe apertus arcee cogvlm granite granitemoe llama llama-embed mistral3 nanbeige smollm3 ernie4_5 ernie4_5-moe paddleocr", pieces: pieceName, prefix: "said"},
	{archs: "gemma gemma2 gemma3 gemma3n gemma-embedding", pieces: pieceName, prefix: "never"},
	{archs: "arctic arwkv7 baichuan bitnet deepseek dream granitehybrid grok internlm2 jamba mamba2 minicpm minicpm3 nemotron openelm orion pangu-embedded phi3 phimoe plamo " +
		"qwen2 qwen2vl rwkv6qwen2", pieces: pieceName},
	{archs: "phi3 phimoe", added: true},
	{archs: "t5 t5encoder", pieces: pieceName + " spiece.model", model: "t5"},
	{archs: "bert jina-bert-v3", field: "model_type", value: "xlm-roberta", pieces: "sentencepiece.bpe.model", model: "t5", shifted: true},
	{archs: "gemma4", model: "gemma4", visible: `<|channel> <channel|> <|tool_call> <tool_call|> <|tool_response> <tool_response|> <|"|>`},
	{archs: "muse-glimmer", roles: map[string]string{"eot": "<|eot|>"}},
	{archs: "gemma", roles: map[string]string{"eot": "107"}}, // as Code Gemma
	{archs: "nemotron", roles: map[string]string{"pad": "0", "unk": "1"}},
	{archs: "chatglm", roles: map[string]string{"eos": "<|endoftext|>", "eot": "<|user|>", "unk": "<|endoftext|>"}, pre: "chatglm-bpe", noBOS: true},
	{archs: "glm4", roles: glm4Roles, pre: "glm4"},
	{archs: "llama", field: "model_type", value: "Glmasr", roles: glm4Roles, pre: "glm4"},
	{archs: "glm-dsa glm5-next", roles: glmRoles, pre: "glm4"},
	{archs: "glm4moe", field: "model_type", value: "solar_open", roles: map[string]string{"eos": "<|endoftext|>", "eot": "<|endoftext|>", "unk": "<unk>", "bos": "<|startoftext|>"}, pre: "solar-open"},
	{archs: "deepseek2 glm4moe", token: "[gMASK]", roles: glmRoles, pre: "glm4"},
	{archs: "deepseek2-ocr", template: "{% for m in messages %}{{m['content']}}{% endfor %}"},
	{archs: "refact", pre: "refact"},
	{archs: "hunyuan-moe", pre: "hunyuan"},
	{archs: "qwen2", field: "model_type", value: "kormo", pre: "kormo"},
	{archs: "grok", pre: "grok-2"},
	{archs: "hy_v4", pre: "hy_v4"},
	{archs: "arctic", scored: true},
	{archs: "internlm2", prefix: "always", ends: "<|im_end|>"},
	{archs: "llama", field: "model_type", value: "internlm3", ends: "<|im_end|>"},
	{archs: "qwen3vlmoe", field: "model_type", value: "qwen3_omni_moe", roles: map[string]string{"bos": "<|im_end|>", "eos": "<|im_end|>"}},
	{archs: "llama", field: "vocab_size", value: "32016", roles: map[string]string{"prefix": "32007", "suffix": "32008", "middle": "32009", "eot": "32010"}}, // Code Llama
	{archs: "llama", field: "vocab_size", value: "49152", noBOS: true},                                                                                       // small models of Granite
}

// readHabits combines all rows of the model; rows about tokens apply once tokenizer.json is
// read.
func (s *source) readHabits() habit {
	all := habit{roles: map[string]string{}}
	for _, h := range habits {
		if slices.Contains(strings.Fields(h.archs), s.Architecture) && (h.field == "" || strings.Trim(s.config(h.field).String(), `"`) == h.value) &&
			(h.token == "" || s.addedID(h.token) >= 0) {
			all.pieces, all.model, all.prefix, all.pre, all.visible = all.pieces+h.pieces, all.model+h.model, all.prefix+h.prefix, all.pre+h.pre, all.visible+h.visible
			all.template, all.ends = all.template+h.template, all.ends+h.ends
			all.shifted, all.added, all.noBOS, all.scored = all.shifted || h.shifted, all.added || h.added, all.noBOS || h.noBOS, all.scored || h.scored
			maps.Copy(all.roles, h.roles)
		}
	}
	return all
}
