// Runs sakura_conform of a WebAssembly module on a file of test vectors: node conform.mjs MODULE VECTORS
import { readFileSync } from "node:fs";

const [module, vectors] = process.argv.slice(2).map((path) => readFileSync(path));
const { instance } = await WebAssembly.instantiate(module, {});
const { memory, sakura_conform, __heap_base } = instance.exports;
const place = Math.ceil(__heap_base.value / 64) * 64;
const missing = place + vectors.length - memory.buffer.byteLength;
if (missing > 0) memory.grow(Math.ceil(missing / 65536));
new Uint8Array(memory.buffer).set(vectors, place);
const failure = sakura_conform(place);
console.log(failure === 0 ? "scalar wasm conform" : `failed ${failure}`);
process.exit(failure === 0 ? 0 : 1);
