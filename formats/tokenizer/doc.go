// Package tokenizer reads the tokenizer of a model, in any of the forms that
// Hugging Face directories have, and says it in the keys of GGUF. It writes such
// files from those keys, too.
//
// [Read] is given the files of a model by name and returns a [Tokenizer]: the
// keys tokenizer.* as llama.cpp's own converter writes them, with two deviations
// that make llama.cpp give the tokens of the source: the scores of a
// SentencePiece-like tokenizer.json follow its merges, and flags whose default
// would be another in llama.cpp are always written.
//
//	tokenizer.model          SentencePiece     model llama  sentencepiece.go
//	tokenizer.json           BPE of bytes      model gpt2   bpe.go, pretokenizer.go
//	                         BPE of characters model llama  spm.go
//	                         WordPiece         model bert   wordpiece.go
//	vocab.json, merges.txt   BPE of bytes      model gpt2   slow.go
//
// A tokenizer that is there and is not recognised is an error with the reason,
// never a guess: a file with a wrong tokenizer loads, runs and answers badly. In
// particular a chain of pre-tokenizers gets a name only by what it matches, from
// the table pretokenizers.json, and not by a hash of what it does to some text.
// Absent for now is Unigram (model t5), which only encoders have.
//
// [Write] is given the metadata of a GGUF file and returns the files of a
// directory; [Ends] says at which tokens a generation ends. Both do what llama.cpp
// does with that metadata:
//
//	tokenizer.ggml.model    tokenizer.json
//	gpt2                    BPE of bytes        write_bpe.go, pretokenizers.json
//	llama                   BPE of characters   write_bpe.go; scores become merges: write_merges.go
//	gemma4                  BPE of characters   write_bpe.go
//	bert                    WordPiece           write_encoders.go
//	t5                      Unigram             write_encoders.go
//
// The files are strangers': each is bounded, time and memory are in proportion
// to the files and to the rows of the embedding, and whatever else a file claims
// is compared with what it holds.
package tokenizer
