// Runs models for onnxruntime.py: a question and an answer are a line of JSON each.
import fs from 'node:fs';
import { createInterface } from 'node:readline';
import ort from 'onnxruntime-node';
import { fields } from '../wire.mjs';

const METADATA = 14, sessions = [];
const ARRAYS = { float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array, uint8: Uint8Array, int8: Int8Array };

function metadataOf(file) {
  const entries = [...fields(fs.readFileSync(file))].filter(([number]) => number === METADATA);
  return Object.fromEntries(entries.map(([, entry]) => [...fields(entry)].map(([, text]) => text.toString())));
}

async function answer({ load, threads, run, feeds }) {
  if (load) {
    const session = await ort.InferenceSession.create(load, { intraOpNumThreads: threads, interOpNumThreads: 1, logSeverityLevel: 3 });
    sessions.push(session);
    return { number: sessions.length - 1, inputs: session.inputNames, outputs: session.outputNames, metadata: metadataOf(load) };
  }
  const inputs = Object.entries(feeds).map(([name, { type, dims, data }]) => {
    const bytes = Uint8Array.from(Buffer.from(data, 'base64'));
    return [name, new ort.Tensor(type, new ARRAYS[type](bytes.buffer), dims)];
  });
  const results = await sessions[run].run(Object.fromEntries(inputs));
  return { outputs: Object.fromEntries(Object.entries(results).map(([name, { type, dims, data }]) =>
    [name, { type, dims, data: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64') }])) };
}

for await (const line of createInterface(process.stdin)) {
  try {
    console.log(JSON.stringify(await answer(JSON.parse(line))));
  } catch (error) {
    console.log(JSON.stringify({ error: error.message }));
  }
}
