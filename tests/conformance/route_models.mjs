// The devices' models of plans in which requests take several routes, in the real ONNX Runtime; TAP on standard output.
//
//     node route_models.mjs [--verbose]
//
// Tiny models with their weights (models/*_tiny.onnx of the test data) are planned on unequal devices with the strategy
// routes. Along each route the models of its devices run one after the other, each input from where the manifest's table
// says; what comes out must be what the original gives.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';
import { readArguments } from './simulate_tools.mjs';

const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const cli = process.env.SHARDPLAN ?? path.join(top, 'build/api/cli/shardplan');
const models = path.join(process.env.SHARDPLAN_TEST_DATA ?? path.join(top, '../shared/data'), 'models');
const values = readArguments([], ['verbose']);
const names = ['bert_tiny', 'gpt2_tiny', 'llama_tiny', 'moe_tiny', 'unet_tiny'];
const options = { graphOptimizationLevel: 'disabled', intraOpNumThreads: 1, logSeverityLevel: 4 };
const cluster = {
  groups: [['a100-sxm4-40gb', 1], ['l4-24gb', 2], ['t4-16gb', 3]].map(([device, count]) => ({ name: device, count, device })),
  mesh: [{ name: 'net', size: 6, bandwidth: 1.25e9, latency: 1e-7 }],
};

// Whole numbers are indices of the smallest tables that there are.
function feed({ type, shape }) {
  const dims = shape.map((dim) => (typeof dim === 'number' && dim > 0 ? dim : 1));
  const count = dims.reduce((product, dim) => product * dim, 1);
  const numbers = Array.from({ length: count }, (_, i) => (type.startsWith('float') ? Math.sin(1 + i) : type === 'bool' ? 1 : (7 * i) % 2));
  if (type === 'int64') return new ort.Tensor(type, BigInt64Array.from(numbers.map(BigInt)), dims);
  if (type === 'bool') return new ort.Tensor(type, Uint8Array.from(numbers), dims);
  return new ort.Tensor(type, type === 'int32' ? Int32Array.from(numbers) : Float32Array.from(numbers), dims);
}

function furthest(own, expected) {
  let most = own.data.length === expected.data.length ? 0 : Infinity;
  for (let i = 0; i < expected.data.length && most < Infinity; i++) {
    const [a, b] = [Number(own.data[i]), Number(expected.data[i])];
    if (!Object.is(a, b)) most = Math.max(most, Math.abs(a - b) / (1 + Math.abs(b)));
  }
  return Number.isNaN(most) ? Infinity : most;
}

async function follow(route, manifest, folder, feeds, sessions) {
  const made = new Map(), results = {};
  for (const id of route.devices) {
    const device = manifest.devices.find((one) => one.id === id);
    if (device.parts.length !== 1) throw new Error(`device ${id} has ${device.parts.length} parts`);
    const [part] = device.parts, taken = {};
    for (const { name, from, tensor } of part.inputs) {
      const source = route.inputs.find((one) => one.device === id && one.input === name);
      taken[name] = from === 'input' ? feeds[tensor] : made.get(`${source.from} ${source.output}`);
    }
    sessions[id] ??= await ort.InferenceSession.create(path.join(folder, part.model), options);
    const given = await sessions[id].run(taken);
    for (const { name, to, tensor } of part.outputs) {
      made.set(`${id} ${name}`, given[name]);
      if (to === 'output') results[tensor] = given[name];
    }
  }
  return results;
}

// With `share` of the memory that the fullest device would need, so that models are cut.
async function check(name, share, folder) {
  const model = path.join(models, `${name}.onnx`), emitted = path.join(folder, name), described = path.join(folder, 'cluster.json');
  const fullest = () => Math.max(...JSON.parse(fs.readFileSync(path.join(emitted, 'plan.json'), 'utf8')).devices.map(({ memory }) => memory.total_bytes));
  fs.writeFileSync(described, JSON.stringify(share < 1 ? { ...cluster, memory_limit_bytes: Math.round(share * fullest()) } : cluster));
  const planned = spawnSync(cli, ['plan', model, '--cluster', described, '--strategy', 'routes', '--emit', emitted, '--no-simulation'],
    { encoding: 'utf8' });
  if (planned.status !== 0) throw new Error(planned.stderr);
  const manifest = JSON.parse(fs.readFileSync(path.join(emitted, 'manifest.json'), 'utf8'));
  if (!(manifest.routes?.length > 1)) throw new Error('there are not several routes');
  const whole = await ort.InferenceSession.create(model, options);
  const feeds = Object.fromEntries(whole.inputMetadata.map((input) => [input.name, feed(input)]));
  const expected = await whole.run(feeds), sessions = {};
  for (const route of manifest.routes) {
    const results = await follow(route, manifest, emitted, feeds, sessions);
    for (const output of whole.outputNames) {
      const far = furthest(results[output], expected[output]);
      if (!(far < 1e-4)) throw new Error(`'${output}' along ${route.devices.join(' -> ')} is ${far} off`);
    }
  }
  return `${manifest.routes.length} routes through ${Object.keys(sessions).length} devices`;
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-routes-'));
let number = 0, failed = 0;
try {
  const there = names.filter((one) => fs.existsSync(path.join(models, `${one}.onnx`)));
  for (const [name, share] of there.flatMap((one) => [[one, 1], [one, 0.8]])) {
    try {
      const said = await check(name, share, folder);
      console.log(`ok ${++number} routes ${name}, ${100 * share} % of memory: ${said}`);
    } catch (error) {
      failed++;
      console.log(`not ok ${++number} routes ${name}, ${100 * share} % of memory\n  ${String(error.message ?? error).replace(/\s+/g, ' ').slice(0, 500)}`);
      if (values.verbose) console.log(error.stack);
    }
  }
  if (number === 0) console.log('ok route_models # SKIP the models are not there');
  console.log(`# route_models: ${number - failed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
} finally {
  fs.rmSync(folder, { recursive: true });
}
