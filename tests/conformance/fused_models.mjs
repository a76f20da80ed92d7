// Fused weights (fused_models.py), planned on 2, 3 and 4 slow devices: what they are taken apart in is split, nothing is
// sent for that, and it takes no longer than with a weight for each. ONNX Runtime computes the original, the simulation
// and the devices' models; the annotated model is free of findings. TAP on standard output.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';
import { inFolder, runDevices } from './device_run.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const cli = process.env.SHARDPLAN ?? path.join(here, '../../build/api/cli/shardplan');
const layers = path.join(process.env.SHARDPLAN_TEST_DATA ?? path.join(here, '../../../shared/data'), 'faults/fused-qkv');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'fused-models-'));
const shardplan = (...options) => execFileSync(cli, options, { stdio: ['ignore', 'pipe', 'pipe'] }).toString();

function clusterFile(count) {
  const file = path.join(folder, `slow${count}.json`);
  const device = { name: 'slow', memory_bytes: 1e9, memory_bandwidth: 1e8, flops: { float32: 1e7 } };
  fs.writeFileSync(file, JSON.stringify({ groups: [{ count, device }], mesh: [{ name: 'net', size: count, bandwidth: 1e10, latency: 1e-6 }] }));
  return file;
}

const load = (file) => ort.InferenceSession.create(file, { graphOptimizationLevel: 'disabled', intraOpNumThreads: 1, logSeverityLevel: 4 });

async function outputs(file, feeds) {
  const session = await load(file);
  const results = await session.run(feeds);
  await session.release();
  return results;
}

async function feedsOf(file) {
  const session = await load(file);
  const [{ shape }] = session.inputMetadata;
  await session.release();
  const data = Float32Array.from({ length: shape.reduce((product, dim) => product * dim, 1) }, (_, i) => Math.sin(i * 7 + 1));
  return { x: new ort.Tensor('float32', data, shape) };
}

function differences(what, expected, found) {
  const { data, dims } = found.y;
  if (String(dims) !== String(expected.y.dims)) return [`${what}: extents ${dims}`];
  const most = data.reduce((worst, value, i) => Math.max(worst, Math.abs(value - expected.y.data[i])), 0);
  return most <= 1e-4 ? [] : [`${what}: differs by ${most}`];
}

// How the tensor's axes are cut: lists of [extent or undefined, shards].
function cutsOf(plan, name) {
  const dims = plan.tensors.find((tensor) => tensor.name === name)?.spec.onnx.sharded_dim ?? [];
  return dims.map(({ simple_sharding: parts }) => parts.map((part) => [part.dim_value, part.num_shards]));
}

function problemsOf({ split, parts }, devices, plan) {
  const product = (cuts) => cuts.reduce((shards, [, own]) => shards * own, 1);
  const problems = split.filter((name) => !cutsOf(plan, name).some((cuts) =>
    product(cuts) === devices && (parts === 1 ? cuts.length === 1 : cuts.length === 2 && cuts[0][0] === parts && cuts[0][1] === 1)))
    .map((name) => `${name} is cut as ${JSON.stringify(cutsOf(plan, name))}`);
  for (const { name, because } of plan.tensors)
    if (split.includes(name) && because.includes(`in ${devices} parts of each of its ${parts}`) !== parts > 1) problems.push(`${name}: ${because}`);
  const early = plan.collectives.filter(({ tensor }) => /qkv|parts|^[qkv]\b|both|gate|up|inner/.test(tensor));
  return [...problems, ...early.map(({ kind, tensor }) => `${kind} of ${tensor}`)];
}

async function check(test, devices, fastest) {
  const file = path.join(folder, `${test.name}.onnx`), out = path.join(folder, `${test.name} ${devices}`);
  shardplan('plan', file, '--cluster', clusterFile(devices), '--strategy', 'tensor', '--objective', 'latency', '--emit', out);
  const plan = JSON.parse(fs.readFileSync(path.join(out, 'plan.json'), 'utf8'));
  const problems = problemsOf(test, devices, plan), latency = plan.estimate.latency_seconds;
  if (test.name === 'separate') fastest[devices] = latency;
  else if (test.split.includes('qkv.bias') && test.name !== 'attention' && latency > fastest[devices] * 1.01)
    problems.push(`${latency} s, and ${fastest[devices]} s where the weights are apart`);
  const feeds = await feedsOf(file), expected = await outputs(file, feeds);
  problems.push(...differences('simulation', expected, await outputs(path.join(out, 'simulation.onnx'), feeds)));
  problems.push(...differences('devices', expected, (await runDevices(inFolder(out), feeds, expected)).results));
  const findings = JSON.parse(shardplan('check', path.join(out, 'annotated.onnx'), '--json'));
  problems.push(...(findings.diagnostics ?? []).filter(({ severity }) => severity !== 'note').map(({ code, message }) => `${code}: ${message}`));
  return problems;
}

// Two layers of a language model, as they are and with a product for each of queries, keys and values. The Split copies what
// it takes apart; beside that the layers take no longer, and what is sent is no more.
function checkLayers(devices) {
  const [fused, separate] = ['fused', 'separate'].map((name) => {
    const model = path.join(layers, `${name}.json`), file = path.join(folder, `${name} ${devices}.json`);
    shardplan('plan', model, '--devices', `${devices}`, '--device', 'l4-24gb', '--objective', 'latency', '--tolerance', '0', '--plan', file);
    const [head, ...lines] = shardplan('export', file, '--model', model, '--format', 'csv').trim().split(/\r?\n/).map((line) => line.split(','));
    const copies = lines.filter((line) => line[head.indexOf('operator')] === 'Split').reduce((sum, line) => sum + Number(line[head.indexOf('seconds')]), 0);
    const { estimate, collectives } = JSON.parse(fs.readFileSync(file, 'utf8'));
    return { seconds: estimate.latency_seconds, copies, sent: collectives.reduce((sum, one) => sum + one.seconds, 0) };
  });
  const problems = [];
  if (fused.seconds - fused.copies > (separate.seconds - separate.copies) * 1.005)
    problems.push(`${fused.seconds} s, of which ${fused.copies} s are copies, and ${separate.seconds} s where the weights are apart`);
  if (fused.sent > separate.sent) problems.push(`${fused.sent} s of collectives, and ${separate.sent} s where the weights are apart`);
  return problems;
}

let failed = 0, number = 0;
function report(name, problems) {
  failed += problems.length > 0;
  console.log(`${problems.length ? 'not ok' : 'ok'} ${++number} ${name}${problems.map((text) => `\n  ${text}`).join('')}`);
}

execFileSync('python3', ['-B', path.join(here, 'fused_models.py'), folder]);
const fastest = {};
for (const test of JSON.parse(fs.readFileSync(path.join(folder, 'cases.json'), 'utf8')))
  for (const devices of [2, 3, 4]) {
    let problems;
    try {
      problems = await check(test, devices, fastest);
    } catch (error) {
      problems = [String(error.stderr || error.message)];
    }
    report(`${test.name} on ${devices} devices`, problems);
  }
if (fs.existsSync(layers))
  for (const devices of [4, 8]) report(`two layers on ${devices} devices`, checkLayers(devices));
console.log(`# fused_models: ${number - failed} passed, ${failed} failed`);
fs.rmSync(folder, { recursive: true });
process.exit(failed === 0 ? 0 : 1);
