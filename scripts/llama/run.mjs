// Loads models with llama.cpp, as any program that embeds it does, and says what
// came out. It reads jobs from standard input, one JSON object a line:
//
//   model         path of a GGUF file
//   mmap          map the file (true), or read it (false)
//   texts         texts to tokenize, twice: special tokens as plain text, and recognised
//   prompt        text to go on from, with its special tokens recognised
//   embed         print the embedding of the prompt and generate nothing
//   vocabOnly     load no tensors
//
// and prints the same number of lines: {ok, error, mmap, vocab, tokens,
// tokensSpecial, prompt, greedy, top, embedding}. greedy has the eight most likely
// tokens after the prompt, one after the other; top the five best first ones with
// their logits.
import readline from "node:readline";
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const generated = 8, best = 5, context = 256;
const messages = [];
const llama = await getLlama({
    gpu: false, build: "never", skipDownload: true, progressLogs: false, maxThreads: 1,
    logLevel: LlamaLogLevel.warn, logger: (level, text) => messages.push(`${level}: ${text.trim()}`)
});

// evaluate gives tokens to a sequence and returns the logits after them, best first.
async function evaluate(sequence, tokens) {
    const last = tokens.length - 1;
    const input = tokens.map((t, i) => i < last ? t : [t, {generateNext: {token: true, logits: true, options: {temperature: 0}}}]);
    const outputs = await sequence.controlledEvaluate(input);
    return [...outputs.at(-1).next.logits].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
}

async function run(job) {
    const out = {ok: false};
    const model = await llama.loadModel({
        modelPath: job.model, gpuLayers: 0, useMmap: job.mmap, vocabOnly: Boolean(job.vocabOnly), ignoreMemorySafetyChecks: true, checkTensors: true
    });
    try {
        out.mmap = model.useMmap;
        out.vocab = model.fileInfo.metadata.tokenizer?.ggml?.tokens?.length;
        const texts = job.texts ?? [];
        out.tokens = texts.map((t) => [...model.tokenize(t, false)]);
        out.tokensSpecial = texts.map((t) => [...model.tokenize(t, true)]);
        if (job.prompt !== undefined) {
            out.prompt = [...model.tokenize(job.prompt, true)];
            const {bos, shouldPrependBosToken} = model.tokens;
            if (shouldPrependBosToken && bos != null && out.prompt[0] !== bos) out.prompt.unshift(bos);
        }
        if (job.embed) {
            const c = await model.createEmbeddingContext({contextSize: 64, threads: 1});
            out.embedding = [...(await c.getEmbeddingFor(job.prompt)).vector];
            await c.dispose();
        } else if (job.prompt !== undefined) {
            const c = await model.createContext({contextSize: context, batchSize: context, sequences: 1, threads: 1, flashAttention: false, ignoreMemorySafetyChecks: true});
            const sequence = c.getSequence();
            out.greedy = [];
            for (let tokens = out.prompt; out.greedy.length < generated; tokens = out.greedy.slice(-1)) {
                const logits = await evaluate(sequence, tokens);
                out.top ??= logits.slice(0, best);
                out.greedy.push(logits[0][0]);
            }
            await c.dispose();
        }
        out.ok = true;
    } finally {
        await model.dispose();
    }
    return out;
}

for await (const line of readline.createInterface({input: process.stdin})) {
    messages.length = 0;
    let out;
    try {
        out = await run(JSON.parse(line));
    } catch (e) {
        out = {ok: false, error: [String(e?.message ?? e).split("\n")[0], ...messages.slice(0, 20)].join("; ")};
    }
    process.stdout.write(JSON.stringify(out) + "\n");
}
await llama.dispose();
process.exit(0);
