// Quantised networks, planned, split and computed by the real ONNX Runtime; TAP on standard output.
//
// tests/tools/quantised_resnet.py makes a residual network in each form in which quantizers write theirs. On 2 and 4 devices
// so slow that splitting pays, `shardplan plan --strategy tensor --emit` must split its operators, and the simulation of
// the parts compute what the model does: elements of 8 or 16 bits, and no more than a step of rounding apart where real
// sums are taken in another order.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';

const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const cli = process.env.SHARDPLAN ?? path.join(top, 'build/api/cli/shardplan');
// Elements of the result that may differ, by how many steps of it: integers are added exactly.
const forms = { qoperator: [0, 8 / 255], qdq: [0.1, 8 / 255], qdq16: [0.2, 8 / 65535], qcdq: [0.1, 8 / 255] };
const load = (file) => ort.InferenceSession.create(file, { graphOptimizationLevel: 'disabled', logSeverityLevel: 4 });

function slow(count) {
  const rate = { float32: 1e8, int8: 2e8 };
  return { groups: [{ name: 'slow', count, device: { name: 'slow', memory_bytes: 1e9, memory_bandwidth: 1e9, flops: rate } }],
    mesh: [{ name: 'bus', size: count, bandwidth: 1e10, latency: 1e-6 }] };
}

async function outputs(file, feeds) {
  const session = await load(file);
  const results = await session.run(feeds);
  const values = results[session.outputNames[0]].data;
  await session.release();
  return values;
}

// What is fed is the same every time, in [-1, 1).
function picture(batch) {
  let state = 12345;
  const next = () => ((state = (Math.imul(state, 1103515245) + 12345) >>> 0) / 2 ** 31) - 1;
  return new ort.Tensor('float32', Float32Array.from({ length: batch * 3 * 16 * 16 }, next), [batch, 3, 16, 16]);
}

function plan(model, devices, ...options) {
  const cluster = path.join(folder, `cluster-${devices}.json`);
  fs.writeFileSync(cluster, JSON.stringify(slow(devices)));
  execFileSync(cli, ['plan', model, '--cluster', cluster, ...options], { stdio: 'pipe' });
}

let failed = 0, number = 0;
function report(name, detail, why) {
  failed += why.length > 0;
  console.log(`${why.length ? 'not ok' : 'ok'} ${++number} ${name}: ${detail}${why.map((text) => `\n  ${text}`).join('')}`);
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-quantised-'));

async function network(form, batch, devices) {
  const model = path.join(folder, `${form}-${batch}.onnx`), out = path.join(folder, `${form}-${batch}-${devices}`), why = [];
  const [share, step] = forms[form];
  execFileSync('python3', ['-B', path.join(top, 'tests/tools/quantised_resnet.py'), form, batch, model]);
  plan(model, devices, '--strategy', 'tensor', '--emit', out);
  const [stage] = JSON.parse(fs.readFileSync(path.join(out, 'plan.json'))).stages;
  const whole = await outputs(model, { image: picture(batch) });
  const parts = await outputs(path.join(out, 'simulation.onnx'), { image: picture(batch) });
  const differences = Array.from(parts, (value, i) => Math.abs(value - whole[i]));
  const worst = Math.max(...differences), count = differences.filter((difference) => difference > 0).length;
  const splits = [...new Set(stage.mesh.flatMap((axis) => axis.splits.map(({ operator, factor }) => `${operator} ${factor}`)))];
  if (new Set(whole).size < 8) why.push('the network gives nearly the same everywhere');
  if (stage.devices.length !== devices || splits.length === 0) why.push(`the plan splits nothing over ${devices} devices`);
  if (batch === 1 && !splits.some((split) => /Conv [mghw]/.test(split))) why.push(`no convolution is split: ${splits}`);
  if (worst > step * 1.001 || count > share * whole.length) why.push(`elements differ by up to ${worst / step} steps`);
  report(`quantised network ${form}, batch ${batch}, on ${devices} devices`, `${count} of ${whole.length} elements differ; ${splits.join(', ')}`, why);
}

// Small ones that were refused; what comes out of each node is in ONNX Runtime's ContribOperators.md.
function refused() {
  const faults = path.join(process.env.SHARDPLAN_TEST_DATA ?? path.join(top, '../shared/data'), 'faults');
  if (!fs.existsSync(faults)) return console.log(`ok ${++number} quantised network # SKIP ${faults} is not there`);
  const linear = path.join(folder, 'contribqdq.onnx'), out = path.join(folder, 'plan.json');
  execFileSync('python3', ['-B', path.join(faults, 'real-files/declared.py'), linear, 'contribqdq'], { cwd: path.join(faults, 'real-files') });
  const wanted = new Map([[path.join(faults, 'qoperator-quantized/qblock.json'), { q2: '8,16,8,8 uint8', q3: '8,16,1,1 uint8', q5: '8,10 uint8' }],
    [linear, { q: '2,4 uint16', d: '2,4 float32' }]]);
  for (const [model, types] of wanted) {
    plan(model, 2, '--plan', out);
    const tensors = new Map(JSON.parse(fs.readFileSync(out)).tensors.map((tensor) => [tensor.name, tensor]));
    const why = Object.entries(types).map(([name, type]) => [name, type, `${tensors.get(name)?.shape} ${tensors.get(name)?.dtype}`])
      .filter(([, type, found]) => type !== found).map(([name, type, found]) => `${name} is ${found} instead of ${type}`);
    report(`quantised model ${path.basename(model)}`, `${Object.keys(types).length} types`, why);
  }
}

try {
  refused();
  for (const form of Object.keys(forms)) for (const [batch, devices] of [[1, 2], [1, 4], [8, 2]]) await network(form, batch, devices);
} finally {
  fs.rmSync(folder, { recursive: true });
}
process.exitCode = failed ? 1 : 0;
