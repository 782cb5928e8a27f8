//! Reads files config.json, named a line on standard input, with the struct that candle's model
//! of the model_type has. For each it prints "ok", "no class", or what the struct refuses.

use candle_transformers::models::*;
use serde::de::DeserializeOwned;
use std::io::BufRead;

fn read<T: DeserializeOwned>(text: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<T>(text).map(drop)
}

type Read = fn(&str) -> Result<(), serde_json::Error>;

/// The struct of a model_type.
fn of(model_type: &str) -> Option<Read> {
    Some(match model_type {
        "bert" => read::<bert::Config>,
        "deepseek_v2" => read::<deepseek2::DeepSeekV2Config>,
        "distilbert" => read::<distilbert::Config>,
        "falcon" => read::<falcon::Config>,
        "gemma" => read::<gemma::Config>,
        "gemma2" => read::<gemma2::Config>,
        "gemma3_text" => read::<gemma3::Config>,
        "gemma4_text" => read::<gemma4::config::Gemma4TextConfig>,
        "glm4" => read::<glm4_new::Config>,
        "granite" => read::<granite::GraniteConfig>,
        "granitemoehybrid" => read::<granitemoehybrid::GraniteMoeHybridConfig>,
        "lfm2" => read::<lfm2::Lfm2Config>,
        "llama" => read::<llama::LlamaConfig>,
        "mamba" => read::<mamba::Config>,
        "mamba2" => read::<mamba2::Config>,
        "mistral" => read::<mistral::Config>,
        "mixtral" => read::<mixtral::Config>,
        "modernbert" => read::<modernbert::Config>,
        "olmo" => read::<olmo::Config>,
        "olmo2" => read::<olmo2::Config>,
        "phi" => read::<phi::Config>,
        "phi3" => read::<phi3::Config>,
        "qwen2" => read::<qwen2::Config>,
        "qwen2_moe" => read::<qwen2_moe::Config>,
        "qwen3" => read::<qwen3::Config>,
        "qwen3_moe" => read::<qwen3_moe::Config>,
        "smollm3" => read::<smol::smollm3::Config>,
        "stablelm" => read::<stable_lm::Config>,
        "starcoder2" => read::<starcoder2::Config>,
        "t5" => read::<t5::Config>,
        "xlm-roberta" | "roberta" => read::<xlm_roberta::Config>,
        _ => return None,
    })
}

fn main() {
    for path in std::io::stdin().lock().lines().map_while(Result::ok) {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) => {
                println!("{e}");
                continue;
            }
        };
        let kind: Option<String> = serde_json::from_str::<serde_json::Value>(&text)
            .ok()
            .and_then(|c| c["model_type"].as_str().map(str::to_owned));
        match kind.as_deref().and_then(of) {
            None => println!("no class"),
            Some(read) => match read(&text) {
                Ok(()) => println!("ok"),
                Err(e) => println!("{e}"),
            },
        }
    }
}
