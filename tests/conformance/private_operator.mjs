// Operators of nobody's domain that a file tells (private_operator.py), split over 2 and 4 devices: what the devices run
// gives what the whole gives, where a runtime has the operators as functions; TAP on standard output.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';

const here = path.dirname(fileURLToPath(import.meta.url));
const cli = process.env.SHARDPLAN ?? path.join(here, '../../build/api/cli/shardplan');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'private-operator-'));
const file = (name) => path.join(folder, name);

// So slow that splitting pays.
function writeCluster(count) {
  const device = { name: 'slow', memory_bytes: 1e9, memory_bandwidth: 1e9, flops: { float32: 1e6 } };
  fs.writeFileSync(file('cluster.json'), JSON.stringify({
    groups: [{ name: 'slow', count, device }], mesh: [{ name: 'link', size: count, bandwidth: 1e10, latency: 1e-6 }] }));
}

// Fields of a message that follow others join them.
async function run(model) {
  const bytes = Buffer.concat([fs.readFileSync(model), fs.readFileSync(file('functions'))]);
  const target = `${model}.with-functions.onnx`;
  fs.writeFileSync(target, bytes);
  const session = await ort.InferenceSession.create(target, { intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 4 });
  const [{ name, shape }] = session.inputMetadata;
  const size = shape.reduce((product, dim) => product * dim, 1);
  return session.run({ [name]: new ort.Tensor('float32', Float32Array.from({ length: size }, (_, i) => Math.sin(i * 7)), shape) });
}

let failed = 0;
execFileSync('python3', [path.join(here, 'private_operator.py'), file('model.onnx'), file('operators.json'), file('functions')]);
const { y: whole } = await run(file('model.onnx'));
for (const count of [2, 4]) {
  try {
    const out = file(`emitted-${count}`);
    writeCluster(count);
    execFileSync(cli, ['plan', file('model.onnx'), '--cluster', file('cluster.json'), '--strategy', 'tensor', '--objective', 'latency',
      '--operators', file('operators.json'), '--emit', out], { stdio: 'pipe' });
    const { y: parts } = await run(path.join(out, 'simulation.onnx'));
    let scale = 0;
    let distance = 0;
    whole.data.forEach((element, i) => {
      scale = Math.max(scale, Math.abs(element));
      distance = Math.max(distance, Math.abs(element - parts.data[i]));
    });
    const { tensors } = JSON.parse(fs.readFileSync(path.join(out, 'plan.json'), 'utf8'));
    const whole_ones = ['w', 'gated', 'heads'].filter((name) => !tensors.some((t) => t.name === name && /S\[/.test(t.spec.text)));
    if (JSON.stringify(parts.dims) !== JSON.stringify(whole.dims) || !(distance <= 1e-5 * scale)) throw new Error(`differs by ${distance} of ${scale}`);
    if (whole_ones.length > 0) throw new Error(`not split: ${whole_ones.join(', ')}`);
    console.log(`ok private_operator: split over ${count} devices, equal to ${(distance / scale).toExponential(1)}`);
  } catch (error) {
    failed++;
    console.log(`not ok private_operator: ${count} devices\n  ${error.stderr ?? ''}${error.message}`);
  }
}
fs.rmSync(folder, { recursive: true });
process.exit(failed === 0 ? 0 : 1);
