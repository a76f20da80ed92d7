// Plans on devices of unequal speed or memory, in which one stage, or one of several, has shares of unequal size: what
// `plan --emit` writes computes what the model does, in the simulation and in the devices' models, and no operator that
// the plan splits is whole there. Collectives on unequal pieces have a name of their own. TAP on standard output.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';
import { inFolder, runDevices } from './device_run.mjs';
import { difference } from './simulate_tensor.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
const CLI = process.env.SHARDPLAN ?? join(HERE, '../../build/api/cli/shardplan');
const models = join(process.env.SHARDPLAN_TEST_DATA ?? join(HERE, '../../../shared/data'), 'models');
const folder = mkdtempSync(join(tmpdir(), 'unequal-'));
const options = { logSeverityLevel: 3, intraOpNumThreads: 1 };

const group = (name, speed, memory) => ({ count: 1, device: { name, memory_bytes: memory, memory_bandwidth: speed * 1e8, flops: { float32: speed * 1e9 } } });
const clusterOf = (groups) => ({ groups, mesh: [{ name: 'net', size: groups.length, bandwidth: 1e10, latency: 1e-8 }], launch_seconds: 1e-9, runtime: 'generic' });
const nodesOf = (groups) => ({ ...clusterOf(groups), mesh: [{ name: 'out', size: 2, bandwidth: 1e6, latency: 1e-4 }, { name: 'net', size: groups.length / 2, bandwidth: 1e10, latency: 1e-8 }] });
// By speed; by memory, of which one device has too little for half of the weights and what is alive, and none enough for all; three at once.
const clusters = {
  'three to one': () => clusterOf([group('fast', 3, 1e9), group('slow', 1, 1e9)]),
  'little memory': (bytes) => clusterOf([group('large', 1, 0.9 * bytes + 1e5), group('small', 1, 0.3 * bytes + 1e5)]),
  'one, two and one': () => clusterOf([group('a', 1, 1e9), group('b', 2, 1e9), group('c', 1, 1e9)]),
  'two nodes': (bytes) => nodesOf([group('a', 3, 0.45 * bytes + 1e5), group('b', 1, 0.2 * bytes + 1e5), group('c', 2, 0.45 * bytes + 1e5), group('d', 1, 0.25 * bytes + 1e5)]) };
const SEVERAL = 'two nodes'; // with slow links between them and too little memory in each: no plan of one stage is quick

// Integers below the smallest vocabulary, ones for masks.
function feed(name, { type, shape }) {
  const size = shape.reduce((all, extent) => all * extent, 1);
  if (type === 'int64') return new ort.Tensor('int64', BigInt64Array.from({ length: size }, (_, i) => (/mask/.test(name) ? 1n : /tt/.test(name) ? BigInt(i % 2) : BigInt((i * 7) % 50))), shape);
  return new ort.Tensor('float32', Float32Array.from({ length: size }, (_, i) => Math.sin(i * 7 + name.length)), shape);
}

function compare(results, expected) {
  for (const name of Object.keys(expected)) {
    const why = difference(results[name], expected[name], { rtol: 1e-3, atol: 1e-4 });
    if (why) throw new Error(`output '${name}': ${why}`);
  }
}

async function check(file, name) {
  const out = mkdtempSync(join(folder, 'plan-')), cluster = join(out, 'cluster.json');
  const { parameter_bytes: bytes } = JSON.parse(execFileSync(CLI, ['inspect', join(models, file), '--json']));
  writeFileSync(cluster, JSON.stringify(clusters[name](bytes)));
  execFileSync(CLI, ['plan', join(models, file), '--cluster', cluster, ...(name === SEVERAL ? [] : ['--strategy', 'tensor']), '--objective', 'latency', '--emit', out], { stdio: ['ignore', 'ignore', 'pipe'] });
  const plan = JSON.parse(readFileSync(join(out, 'plan.json'), 'utf8')), { notes } = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'));
  const { stages } = plan.outline, shares = stages.find((stage) => stage.shares)?.shares;
  if (!shares) throw new Error('no shares were chosen');
  if ((stages.length > 1) !== (name === SEVERAL)) throw new Error(`${stages.length} stages`);
  if (Math.min(...shares) === Math.max(...shares)) throw new Error(`the shares are equal: ${shares}`);
  for (const { memory } of plan.devices) if (memory.total_bytes > memory.capacity_bytes) throw new Error('a device has too little memory');
  for (const { kind } of plan.collectives) uneven.add(kind);
  const plain = plan.collectives.find(({ kind }) => ['all-gather', 'all-to-all', 'reduce-scatter', 'send-receive'].includes(kind));
  if (plain && stages.length === 1) throw new Error(`the pieces of ${plain.tensor} are unequal, but the plan says ${plain.kind}`);
  const whole = (notes ?? []).find(({ code }) => ['OPERANDS_DISAGREE', 'FACTOR_WHOLE', 'LOCAL_FORM', 'SHARDS_UNEVEN'].includes(code));
  if (whole) throw new Error(whole.message);
  const original = await ort.InferenceSession.create(join(models, file), options);
  const feeds = Object.fromEntries(original.inputMetadata.map((input) => [input.name, feed(input.name, input)]));
  const expected = await original.run(feeds);
  const simulation = await ort.InferenceSession.create(join(out, 'simulation.onnx'), options);
  compare(await simulation.run(feeds), expected);
  compare((await runDevices(inFolder(out), feeds, expected)).results, expected);
  return shares;
}

const uneven = new Set(); // kinds of collectives
let failures = 0;
if (!existsSync(models)) console.log(`ok unequal_plans # SKIP ${models} is not there`);
else
  for (const file of ['bert_tiny.onnx', 'gpt2_tiny.onnx', 'llama_tiny.onnx', 'moe_tiny.onnx'])
    for (const name of Object.keys(clusters))
      try {
        console.log(`ok unequal_plans: ${file}, ${name}: shares ${(await check(file, name)).join(', ')}`);
      } catch (error) {
        failures++;
        console.log(`not ok unequal_plans: ${file}, ${name}\n  ${String(error.stderr ?? error).trim()}`);
      }
if (existsSync(models) && ![...uneven].some((kind) => kind.endsWith('-v'))) {
  failures++;
  console.log(`not ok unequal_plans: no collective is of unequal pieces: ${[...uneven].join(', ')}`);
}
rmSync(folder, { recursive: true, force: true });
process.exit(failures > 0 ? 1 : 0);
