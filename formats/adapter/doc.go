// Package adapter reads what a LoRA adapter adds to a model: modules of low rank, as
// PEFT saves them and as llama.cpp's converter writes them to GGUF files.
//
// [Of] takes an adapter that was opened as a model and says of each module which tensors
// belong together, and by what their product is multiplied. Which tensor of a base a
// module is for is not known here: see package views/lora.
//
//	PEFT   adapter_config.json, adapter_model.safetensors
//	         base_model.model.X.lora_A.weight            [r, in]
//	         base_model.model.X.lora_B.weight            [out, r]
//	         base_model.model.X.lora_embedding_A, _B     [r, V], [H, r]
//	         base_model.model.X.lora_magnitude_vector    [out], of DoRA
//	         base_model.model.X.lora_B.bias              [out]
//	         base_model.model.X.weight                   in the place of the base's
//	GGUF   general.type = adapter, adapter.type = lora, adapter.lora.alpha
//	         NAME.lora_a, NAME.lora_b                    [r, in], [out, r]; of token_embd [V, r], [H, r]
//
// A key of adapter_config.json that says that the adapter is more than that is refused by
// its name: a part of it that is left out would be another model.
package adapter
