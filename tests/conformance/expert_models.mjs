// Plans of a model whose experts are not chosen alike and lie on several devices: what `plan --emit` writes computes what
// the model does, in the simulation and in the devices' models, whatever load and order the workload says; and files of one
// layout are the same files. TAP on standard output.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';
import { inFolder, runDevices } from './device_run.mjs';
import { difference } from './simulate_tensor.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
const CLI = process.env.SHARDPLAN ?? join(HERE, '../../build/api/cli/shardplan');
const folder = mkdtempSync(join(tmpdir(), 'experts-'));
const options = { logSeverityLevel: 3, intraOpNumThreads: 1 };
const [TOKENS, HIDDEN, INNER, EXPERTS, CHOSEN, LAYERS, DEVICES] = [24, 16, 251, 8, 2, 2, 4]; // 251 is a prime number: no device has a part

const numbers = (count, seed) => Array.from({ length: count }, (_, i) => Math.fround(Math.sin((i + 1) * 12.9898 + seed) * 0.3));
const weight = (name, shape, seed) => ({ name, dtype: 'float32', shape, data: numbers(shape.reduce((all, extent) => all * extent, 1), seed) });

function model() {
  const nodes = [], initializers = [];
  for (let i = 0, x = 'x'; i < LAYERS; i++, x = `y${i - 1}`) {
    initializers.push(weight(`router${i}`, [HIDDEN, EXPERTS], i), weight(`fc1.${i}`, [EXPERTS, INNER, HIDDEN], i + 10), weight(`fc2.${i}`, [EXPERTS, HIDDEN, INNER], i + 20));
    nodes.push({ name: `router${i}.product`, op: 'MatMul', inputs: [x, `router${i}`], outputs: [`scores${i}`] });
    nodes.push({ name: `experts${i}`, op: 'MoE', domain: 'com.microsoft', inputs: [x, `scores${i}`, `fc1.${i}`, '', `fc2.${i}`], outputs: [`y${i}`], attributes: { k: CHOSEN, normalize_routing_weights: 1, activation_type: 'relu' } });
  }
  return { name: 'experts', opset: { 'ai.onnx': 18, 'com.microsoft': 1 }, inputs: [{ name: 'x', dtype: 'float32', shape: [TOKENS, HIDDEN] }], outputs: [`y${LAYERS - 1}`], initializers, nodes };
}

// Devices that compute slowly beside their links, so that experts on several pay.
const cluster = { groups: [{ count: DEVICES, device: { name: 'slow', memory_bytes: 1e9, memory_bandwidth: 1e7, flops: { float32: 1e8 } } }], mesh: [{ size: DEVICES, bandwidth: 1e10, latency: 1e-8 }], launch_seconds: 1e-9, runtime: 'generic' };
const phases = [{ name: 'all', dims: {} }];
const hot = Array.from({ length: EXPERTS }, (_, e) => (e < 2 ? 6 : 1));
const workloads = { 'no load': {}, 'a list': { expert_load: hot }, 'a balanced list': { expert_load: hot, expert_order: 'balanced' }, 'one layer': { expert_load: { experts1: { zipf: 1 } }, expert_order: 'balanced' } };

function compare(results, expected) {
  for (const name of Object.keys(expected)) {
    const why = difference(results[name], expected[name], { rtol: 1e-3, atol: 1e-5 });
    if (why) throw new Error(`output '${name}': ${why}`);
  }
}

const files = new Map(); // by layout: the simulation's bytes
let same = 0;

async function check(file, name, feeds, expected) {
  const out = mkdtempSync(join(folder, 'plan-')), workload = join(out, 'workload.json');
  writeFileSync(workload, JSON.stringify({ phases, ...workloads[name] }));
  execFileSync(CLI, ['plan', file, '--cluster', join(folder, 'cluster.json'), '--workload', workload, '--strategy', 'tensor', '--objective', 'latency', '--emit', out], { stdio: ['ignore', 'ignore', 'pipe'] });
  const plan = JSON.parse(readFileSync(join(out, 'plan.json'), 'utf8'));
  const layers = plan.stages.flatMap(({ experts }) => experts ?? []);
  const wanted = name === 'no load' ? 0 : name === 'one layer' ? 1 : LAYERS;
  if (layers.length !== wanted) throw new Error(`${layers.length} layers have unequal experts on several devices, not ${wanted}`);
  compare(await (await ort.InferenceSession.create(join(out, 'simulation.onnx'), options)).run(feeds), expected);
  compare((await runDevices(inFolder(out), feeds, expected)).results, expected);
  const layout = JSON.stringify(plan.stages.map(({ mesh }) => mesh)), bytes = readFileSync(join(out, 'simulation.onnx'));
  const known = files.get(layout);
  files.set(layout, known ?? bytes);
  if (known && !known.equals(bytes)) throw new Error('a load changes the files of a layout');
  same += known !== undefined;
  return plan.proof?.state;
}

const graph = join(folder, 'graph.json'), file = join(folder, 'model.onnx');
let failures = 0;
writeFileSync(graph, JSON.stringify(model()));
writeFileSync(join(folder, 'cluster.json'), JSON.stringify(cluster));
execFileSync(CLI, ['strip', graph, '-o', file], { stdio: ['ignore', 'ignore', 'inherit'] });
const feeds = { x: new ort.Tensor('float32', Float32Array.from(numbers(TOKENS * HIDDEN, 5), (value) => 4 * value), [TOKENS, HIDDEN]) };
const expected = await (await ort.InferenceSession.create(file, options)).run(feeds);
for (const name of Object.keys(workloads))
  try {
    console.log(`ok expert_models: ${name}: ${await check(file, name, feeds, expected)}`);
  } catch (error) {
    failures++;
    console.log(`not ok expert_models: ${name}\n  ${String(error.stderr ?? error).trim()}`);
  }
if (same === 0) {
  failures++;
  console.log('not ok expert_models: no two plans have one layout');
}
rmSync(folder, { recursive: true, force: true });
process.exit(failures > 0 ? 1 : 0);
