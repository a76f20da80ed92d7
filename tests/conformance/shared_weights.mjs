// The simulation of a plan refers to the weights that the devices' files hold (plan --emit): it has none of its own where
// they lie in files, and ONNX Runtime computes with it what it computes with the original. TAP on standard output.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';

const HERE = dirname(fileURLToPath(import.meta.url));
const CLI = process.env.SHARDPLAN ?? join(HERE, '../../build/api/cli/shardplan');
const OPTIONS = { logSeverityLevel: 3, intraOpNumThreads: 1 };
const LAYERS = 4, WIDTH = 64, BYTES = LAYERS * (WIDTH + 1) * WIDTH * 4;
const folder = mkdtempSync(join(tmpdir(), 'shared-weights-')), model = join(folder, 'model.onnx');

const wave = (length, step) => Float32Array.from({ length }, (_, i) => Math.sin(i * step) / 4);

async function run(path) {
  const session = await ort.InferenceSession.create(path, OPTIONS);
  const [{ name, shape }] = session.inputMetadata;
  const results = await session.run({ [name]: new ort.Tensor('float32', wave(shape.reduce((size, dim) => size * dim, 1), 3), shape) });
  return Object.values(results)[0];
}

function cluster(count) {
  const path = join(folder, `slow${count}.json`);
  const device = { name: 'slow', memory_bytes: 1e9, memory_bandwidth: 1e8, flops: { float32: 1e6 } };
  writeFileSync(path, JSON.stringify({ groups: [{ count, device }], mesh: [{ name: 'net', size: count, bandwidth: 1e10, latency: 1e-7 }] }));
  return path;
}

let failures = 0;
execFileSync('python3', [join(HERE, '../tools/onnx_make.py'), '--weights', 'external', 'mlp', String(LAYERS), String(WIDTH), model]);
writeFileSync(join(folder, 'weights.bin'), wave(BYTES / 4, 7));
const whole = await run(model);
for (const strategy of ['tensor', 'pipeline']) {
  for (const count of [1, 2, 3]) {
    const problems = [], out = join(folder, `${strategy}-${count}`);
    const size = (pattern) => readdirSync(out).filter((name) => pattern.test(name)).reduce((sum, name) => sum + statSync(join(out, name)).size, 0);
    try {
      execFileSync(CLI, ['plan', model, '--cluster', cluster(count), '--strategy', strategy, '--emit', out], { stdio: 'pipe' });
      const parts = await run(join(out, 'simulation.onnx'));
      const worst = whole.data.reduce((most, value, i) => Math.max(most, Math.abs(value - parts.data[i])), 0);
      const scale = whole.data.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      if (!(worst <= 1e-5 * scale && scale > 0)) problems.push(`differs by ${worst} of ${scale}`);
      if (size(/^simulation\.onnx/) > BYTES / 4) problems.push(`the simulation has ${size(/^simulation\.onnx/)} bytes`);
      if (size(/^device-\d+\.onnx\.data$/) < 0.95 * BYTES) problems.push('the weights are not in the files of the devices');
    } catch (error) {
      problems.push(String(error.stderr ?? error).trim());
    }
    failures += problems.length > 0;
    console.log(`${problems.length > 0 ? 'not ok' : 'ok'} shared_weights: ${strategy} on ${count}`);
    for (const problem of problems) console.log(`  ${problem}`);
  }
}
rmSync(folder, { recursive: true, force: true });
process.exit(failures > 0 ? 1 : 0);
