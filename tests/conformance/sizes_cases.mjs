// Models whose sizes the file does not say (sizes_models.py, and detectors as an exporter wrote them), planned with what
// the options say of them: on 2 and 4 slow devices, by each strategy. ONNX Runtime computes the original, the simulation
// and the devices' models. TAP on standard output.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import ort from 'onnxruntime-node';
import { inFolder, runDevices } from './device_run.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
const CLI = process.env.SHARDPLAN ?? join(HERE, '../../build/api/cli/shardplan');
const TOLERANCE = 1e-4;
const OPTIONS = { logSeverityLevel: 3, intraOpNumThreads: 1 };
const folder = mkdtempSync(join(tmpdir(), 'sizes-'));

let failures = 0;
function report(name, problems) {
  failures += problems.length > 0;
  console.log(`${problems.length > 0 ? 'not ok' : 'ok'} ${name}`);
  for (const problem of problems.slice(0, 8)) console.log(`  ${problem}`);
}

/** Devices so slow that splitting pays. */
function cluster(count) {
  const path = join(folder, `slow${count}.json`);
  const device = { name: 'slow', memory_bytes: 1e9, memory_bandwidth: 1e8, flops: { float32: 1e6 } };
  writeFileSync(path, JSON.stringify({ groups: [{ count, device }], mesh: [{ name: 'net', size: count, bandwidth: 1e10, latency: 1e-7 }] }));
  return path;
}

let seed = 1;
const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
const ARRAYS = { float32: Float32Array, int64: BigInt64Array, bool: Uint8Array };

function feedsOf(session, given) {
  return Object.fromEntries(session.inputMetadata.map(({ name, type, shape }) => {
    const [dims, value] = given[name] ?? [shape.map(Number)];
    const data = new ARRAYS[type](dims.reduce((size, dim) => size * dim, 1));
    for (let i = 0; i < data.length; i++)
      data[i] = type === 'int64' ? BigInt(value ?? Math.floor(random() * 10)) : (value ?? random() * 2 - 1);
    return [name, new ort.Tensor(type, data, dims)];
  }));
}

function compare(expected, found) {
  const problems = [];
  for (const [name, one] of Object.entries(expected)) {
    const other = found[name];
    if (other === undefined || String(one.dims) !== String(other.dims)) {
      problems.push(`${name} has shape [${other?.dims}], not [${one.dims}]`);
      continue;
    }
    const worst = one.data.reduce((most, value, i) => Math.max(most, Math.abs(Number(value) - Number(other.data[i]))), 0);
    if (!(worst <= TOLERANCE)) problems.push(`${name} differs by ${worst}`);
  }
  return problems;
}

async function run(test, devices, strategy) {
  const out = join(folder, 'out'), name = `${test.name} ${test.options.join(' ')} on ${devices} by ${strategy}`;
  rmSync(out, { recursive: true, force: true });
  try {
    execFileSync(CLI, ['plan', test.path, '--cluster', cluster(devices), '--strategy', strategy, ...test.options, '--emit', out],
      { stdio: ['ignore', 'ignore', 'pipe'] });
    const plan = JSON.parse(readFileSync(join(out, 'plan.json'), 'utf8'));
    const original = await ort.InferenceSession.create(test.path, OPTIONS);
    const simulation = await ort.InferenceSession.create(join(out, 'simulation.onnx'), OPTIONS);
    const feeds = feedsOf(original, test.feeds);
    const expected = await original.run(feeds);
    const problems = compare(expected, await simulation.run(
      Object.fromEntries(simulation.inputNames.map((input) => [input, feeds[input]]))));
    problems.push(...compare(expected, (await runDevices(inFolder(out), feeds, expected)).results));
    const used = new Set(plan.devices.filter((device) => device.stage !== null)).size;
    if (strategy === 'tensor' && used < 2) problems.push('one device does all');
    if (strategy === 'tensor' && test.isSplit && plan.collectives.length === 0) problems.push('nothing is split');
    report(name, problems);
  } catch (error) {
    report(name, [String(error.stderr ?? error).trim()]);
  }
}

/** Detectors of exported/export_detectors.py. Without options a plan assumes a picture of 128 x 128. */
function exported() {
  const pictures = [[['--dim', 'height=64', '--dim', 'width=80'], [3, 64, 80]], [[], [3, 128, 128]]];
  return ['ssd', 'rcnn'].flatMap((name) => {
    const path = join(folder, `${name}.onnx`);
    writeFileSync(path, gunzipSync(readFileSync(join(HERE, 'exported', `${name}.onnx.gz`))));
    return pictures.map(([options, dims]) => ({ name, path, options, feeds: { image: [dims] }, isSplit: true,
      strategies: options.length ? ['auto', 'grouping', 'pipeline', 'tensor'] : ['tensor'] }));
  });
}

/** The same as ONNX Runtime writes it when it has optimised all: on x86 its channels lie in blocks (com.microsoft.nchwc). */
async function optimised(test) {
  const path = join(folder, `optimised_${test.name}.onnx`);
  const session = await ort.InferenceSession.create(test.path, { ...OPTIONS, graphOptimizationLevel: 'all', optimizedModelFilePath: path });
  await session.release();
  if (process.arch === 'x64' && !readFileSync(path).includes('ReorderOutput')) report(`optimised ${test.name}`, ['no channels lie in blocks']);
  return { ...test, name: `optimised ${test.name}`, path };
}

execFileSync('python3', [join(HERE, 'sizes_models.py'), folder], { stdio: ['ignore', 'inherit', 'inherit'] });
const cases = JSON.parse(readFileSync(join(folder, 'cases.json'), 'utf8'));
const pictures = await Promise.all(cases.filter(({ name }) => name === 'picture').map(optimised));
for (const test of [...cases, ...pictures, ...exported()])
  for (const devices of [2, 4])
    for (const strategy of test.strategies ?? ['auto', 'tensor', 'pipeline'])
      await run(test, devices, strategy);
rmSync(folder, { recursive: true, force: true });
process.exit(failures > 0 ? 1 : 0);
