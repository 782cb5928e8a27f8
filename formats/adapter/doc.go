// Package adapter reads what a LoRA adapter adds to a model: modules of low rank, as
// PEFT and mlx-lm save them and as llama.cpp's converter writes them to GGUF files.
//
// [Of] takes an adapter that was opened as a model and groups its tensors by module, with
// the factor that their product is multiplied by. Mapping a module to a tensor of the base
// is left to package views/lora.
//
//	PEFT   adapter_config.json, adapter_model.safetensors
//	         base_model.model.X.lora_A.weight            [r, in]
//	         base_model.model.X.lora_B.weight            [out, r]
//	         base_model.model.X.lora_embedding_A, _B     [r, V], [H, r]
//	         base_model.model.X.lora_magnitude_vector    [out], of DoRA
//	         base_model.model.X.lora_B.bias              [out]
//	         base_model.model.X.weight                   in the place of the base's
//	MLX    adapter_config.json, adapters.safetensors, with the names of mlx-lm's modules
//	         X.lora_a, X.lora_b                          [in, r], [r, out]; of experts [E, r, in], [E, out, r]
//	         X.m                                         [out], of DoRA
//	         X.weight                                    in the place of the base's
//	GGUF   general.type = adapter, adapter.type = lora, adapter.lora.alpha
//	         NAME.lora_a, NAME.lora_b                    [r, in], [out, r]; of token_embd [V, r], [H, r]
//
// A key of adapter_config.json that makes the adapter more than that is refused by its
// name: leaving out a part would produce another model.
package adapter
