// A small decoder with weights of 4 bits (int4_decoder.py), split by the strategy tensor over 2 and 4 devices: what the
// devices run gives what ONNX Runtime gives for the whole, and every kind of its operators is split; TAP on standard output.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';

const here = path.dirname(fileURLToPath(import.meta.url));
const cli = process.env.SHARDPLAN ?? path.join(here, '../../build/api/cli/shardplan');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'int4-decoder-'));
const model = path.join(folder, 'decoder.onnx');
const cluster = path.join(folder, 'cluster.json');

const sizes = { past: 3, total: 4 };

// So slow that splitting pays.
function writeCluster(count) {
  const device = { name: 'slow', memory_bytes: 1e9, memory_bandwidth: 1e9, flops: { float32: 1e7 } };
  fs.writeFileSync(cluster, JSON.stringify({
    groups: [{ name: 'slow', count, device }], mesh: [{ name: 'link', size: count, bandwidth: 1e10, latency: 1e-6 }] }));
}

async function run(file) {
  const session = await ort.InferenceSession.create(file, { intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 4 });
  const feeds = {};
  for (const { name, type, shape: declared } of session.inputMetadata) {
    const shape = declared.map((dim) => sizes[dim] ?? dim);
    const size = shape.reduce((product, dim) => product * dim, 1);
    const value = (i) => Math.sin(i * 7 + name.length);
    feeds[name] = type === 'int64' ? new ort.Tensor(type, BigInt64Array.from({ length: size }, (_, i) => BigInt(i * 37 + 5)), shape)
      : new ort.Tensor(type, Float32Array.from({ length: size }, (_, i) => value(i)), shape);
  }
  return session.run(feeds);
}

function farthest(whole, parts) {
  let most = 0;
  for (const [name, { data, dims }] of Object.entries(whole)) {
    if (JSON.stringify(parts[name]?.dims) !== JSON.stringify(dims)) throw new Error(`'${name}' has other extents`);
    data.forEach((element, i) => { most = Math.max(most, Math.abs(element - parts[name].data[i])); });
  }
  return most;
}

// Types of operators of which some node has an operand that is split.
function splitTypes(plan) {
  const split = new Set(plan.tensors.filter(({ spec }) => /S\[/.test(spec.text)).map(({ name }) => name));
  return split;
}

const given = Object.entries(sizes).flatMap(([name, size]) => ['--dim', `${name}=${size}`]);
let failed = 0;
execFileSync('python3', [path.join(here, 'int4_decoder.py'), model]);
const whole = await run(model);
for (const count of [2, 4]) {
  try {
    const out = path.join(folder, `emitted-${count}`);
    writeCluster(count);
    execFileSync(cli, ['plan', model, '--cluster', cluster, '--strategy', 'tensor', '--objective', 'latency', '--tolerance', '0', '--emit', out, ...given], { stdio: 'pipe' });
    const distance = farthest(whole, await run(path.join(out, 'simulation.onnx')));
    const split = splitTypes(JSON.parse(fs.readFileSync(path.join(out, 'plan.json'), 'utf8')));
    const wanted = ['embedding', 'layer0.q.weight', 'layer0.q.scales', 'layer0.o.weight', 'layer0.down.zeros', 'layer1.attended', 'logits.weight'];
    const missing = wanted.filter((name) => !split.has(name));
    if (distance > 1e-4) throw new Error(`an output differs by ${distance}`);
    if (missing.length > 0) throw new Error(`not split: ${missing.join(', ')}`);
    console.log(`ok int4_decoder: split over ${count} devices, equal to ${distance.toExponential(1)}`);
  } catch (error) {
    failed++;
    console.log(`not ok int4_decoder: ${count} devices\n  ${error.stderr ?? ''}${error.message}`);
  }
}
fs.rmSync(folder, { recursive: true });
process.exit(failed === 0 ? 0 : 1);
