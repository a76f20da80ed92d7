// What a plan for one device says of its memory against what ONNX Runtime has in the course of a run, on models where both
// have to have the same (held_memory.py), and what the models of two stages take against what the plan gives them; TAP on
// standard output.
//
// The inputs are the caller's: ONNX Runtime reads them where they are, so they are there as long as the run lasts. What it
// makes is in its arena, and its profile says after each node how much of that is in use, results included.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';

const here = path.dirname(fileURLToPath(import.meta.url));
const cli = process.env.SHARDPLAN ?? path.join(here, '../../build/api/cli/shardplan');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'held-memory-'));
const RANDOM = 40;
const SLACK = 1024; // numbers for Slice and Reshape are made in the arena

// Bytes of the inputs, and the most that the arena has in use. `level`: of the runtime's optimisations; a decoder's keys are
// turned as they are read from `extended` on, and rows of moves have to stay as they are.
async function measure(model, level = 'extended') {
  const profile = path.join(folder, 'profile');
  const session = await ort.InferenceSession.create(model, { graphOptimizationLevel: level, logSeverityLevel: 4, intraOpNumThreads: 1,
    interOpNumThreads: 1, enableMemPattern: false, enableProfiling: true, profileFilePrefix: profile, extra: { session: { disable_prepacking: '1' } } });
  const feeds = Object.fromEntries(session.inputMetadata.map(({ name, shape }) =>
    [name, new ort.Tensor('float32', new Float32Array(shape.reduce((product, dim) => product * dim, 1)), shape)]));
  await session.run(feeds);
  session.endProfiling();
  await session.release();
  const [file] = fs.readdirSync(folder).filter((name) => name.startsWith('profile'));
  const events = JSON.parse(fs.readFileSync(path.join(folder, file)));
  fs.rmSync(path.join(folder, file));
  const used = events.map(({ args }) => Number(args?.mem_bytes_requested_in_use ?? 0));
  return [Object.values(feeds).reduce((sum, { data }) => sum + data.byteLength, 0), Math.max(...used)];
}

let failed = 0;
execFileSync('python3', ['-B', path.join(here, 'held_memory.py'), folder, String(RANDOM)]);
for (const name of ['decoder', ...Array.from({ length: RANDOM }, (_, i) => `random-${i}`)]) {
  const model = path.join(folder, `${name}.onnx`);
  const plan = JSON.parse(execFileSync(cli, ['plan', model, '--devices', '1', '--device', 'cpu-core', '--json'], { stdio: 'pipe' }));
  const [inputs, arena] = await measure(model, name === 'decoder' ? 'extended' : 'disabled'), { activations_peak_bytes: planned } = plan.devices[0].memory;
  const differs = Math.abs(planned - inputs - arena) > SLACK;
  failed += differs;
  console.log(`${differs ? 'not ok' : 'ok'} held_memory ${name}: ${planned} bytes planned, ${inputs} of inputs and ${arena} measured`);
}

// A stage holds what it is sent, too.
const emitted = path.join(folder, 'emitted');
const stages = JSON.parse(execFileSync(cli, ['plan', path.join(folder, 'decoder.onnx'), '--devices', '2', '--device', 'cpu-core', '--strategy', 'pipeline',
  '--emit', emitted, '--json'], { stdio: 'pipe' })).devices;
for (const { id, memory: { activations_peak_bytes: planned } } of stages) {
  const [inputs, arena] = await measure(path.join(emitted, `device-${id}.onnx`));
  const exceeds = inputs + arena > planned + SLACK;
  failed += exceeds;
  console.log(`${exceeds ? 'not ok' : 'ok'} held_memory stage of device ${id}: ${planned} bytes planned, ${inputs} of inputs and ${arena} measured`);
}
fs.rmSync(folder, { recursive: true });
process.exit(failed === 0 ? 0 : 1);
