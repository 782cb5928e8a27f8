package adapter

// Keys of adapter_config.json. This package reads an adapter by these names, and package views/lora
// writes one by them.
const (
	KeyType        = "peft_type"
	KeyBase        = "base_model_name_or_path"
	KeyRank        = "r"
	KeyRanks       = "rank_pattern" // ranks of some modules
	KeyAlpha       = "lora_alpha"
	KeyAlphas      = "alpha_pattern" // alphas of some modules
	KeyTargets     = "target_modules"
	KeyInit        = "init_lora_weights"
	KeyRSLoRA      = "use_rslora"
	KeyDoRA        = "use_dora"
	KeyBias        = "bias"
	KeyFanInFanOut = "fan_in_fan_out"

	TypeLoRA = "LORA" // the value of KeyType
	BiasNone = "none" // the value of KeyBias if no bias was trained
)

// What names of PEFT's tensors begin with, and what follows the name of a module.
const (
	Prefix         = "base_model.model."
	PartA          = ".lora_A"
	PartB          = ".lora_B"
	PartEmbeddingA = ".lora_embedding_A"
	PartEmbeddingB = ".lora_embedding_B"
	PartMagnitude  = ".lora_magnitude_vector"
)

// Keys of a GGUF file, and what follows the names of the base's tensors in it.
const (
	GGUFType  = "adapter.type"
	GGUFAlpha = "adapter.lora.alpha"
	GGUFPartA = ".lora_a"
	GGUFPartB = ".lora_b"
)
