// Package tokenizer reads and writes the tokenizer of a model: in any of the forms
// that Hugging Face directories have, and in the keys of GGUF.
//
//	tokenizer.json ----> ReadFiles -+                +-> Keys --> tokenizer.*
//	tokenizer.model                 +-> Vocabulary --+
//	vocab.json, ...     tokenizer.* --> ReadKeys     +-> Files -> tokenizer.json, ...
//
// A [Vocabulary] is what both say. What a form has is in the file named after it:
//
//	tokenizer.ggml.model   tokenizer.json, others
//	gpt2                   BPE of bytes; vocab.json and merges.txt   bpe.go, slow.go
//	                       tekken.json, of Mistral                   tekken.go
//	llama                  BPE of characters; tokenizer.model        bpe.go, sentencepiece.go, pieces.go
//	gemma4                 BPE of characters, by merges              bpe.go
//	bert                   WordPiece                                 wordpiece.go
//	t5                     Unigram; spiece.model                     unigram.go, sentencepiece.go
//
// What single architectures have of their own is in their descriptions (package architectures), and what single
// classes of tokenizers have in their code is in classes.txt.
//
// [Vocabulary.Keys] are the keys of llama.cpp's own converter, with two deviations that
// make llama.cpp produce the source's tokens: the scores of a SentencePiece-like
// tokenizer.json follow its merges, and flags whose default would be another in llama.cpp
// are always written. [Vocabulary.Files] and [Ends], the tokens that end a generation,
// follow llama.cpp's use of the keys.
//
// A tokenizer that is there and is not recognised is an error with the reason,
// never a guess: a file with a wrong tokenizer loads, runs and answers badly. In
// particular a chain of pre-tokenizers gets a name only by what it matches
// (expression.go), from the table pretokenizers.json, and not by a hash of what it
// does to some text.
//
// The files are strangers': each is bounded, time and memory are in proportion
// to the files and to the rows of the embedding, and whatever else a file claims
// is compared with what it holds.
package tokenizer
