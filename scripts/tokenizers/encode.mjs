// Encodes texts with Hugging Face's own library, as a program does that loads a
// tokenizer.json. It reads jobs from standard input, one JSON object a line:
//
//   tokenizer     path of a tokenizer.json
//   texts         texts to encode, twice: as they are, and with what the
//                 tokenizer puts around them
//
// and prints the same number of lines: {ok, error, ids, idsSpecial, decoded}.
// decoded has the texts of ids.
import readline from "node:readline";
import {createRequire} from "node:module";

const {Tokenizer} = createRequire(import.meta.url)("tokenizers");

async function run(job) {
    const tokenizer = Tokenizer.fromFile(job.tokenizer);
    const encode = async (text, addSpecialTokens) => (await tokenizer.encode(text, null, {addSpecialTokens})).getIds();
    const out = {ok: true, ids: [], idsSpecial: [], decoded: []};
    for (const text of job.texts) {
        const ids = await encode(text, false);
        out.ids.push(ids);
        out.idsSpecial.push(await encode(text, true));
        out.decoded.push(await tokenizer.decode(ids, false));
    }
    return out;
}

for await (const line of readline.createInterface({input: process.stdin})) {
    let out;
    try {
        out = await run(JSON.parse(line));
    } catch (e) {
        out = {ok: false, error: String(e?.message ?? e).split("\n")[0]};
    }
    process.stdout.write(JSON.stringify(out) + "\n");
}
