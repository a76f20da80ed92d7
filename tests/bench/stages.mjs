// How honest the cost model is: plans for two processor cores, carried out by ONNX Runtime.
//
//     node tests/bench/stages.mjs [--command build/api/cli/shardplan] [--data DIR] [--only NAME] [--requests 20] [--parts 'ranks speed memory'] [--device cpu-core] [--alone DEVICE]
//
// For each large model of the test data (with weights made up, where its own are absent):
//   ranks    the time of every node by the plan for one device (`cpu-core`, or the one given) against ONNX Runtime's profiler: Spearman's rank
//            correlation, and the sums
//   speed    two pipeline stages, and one stage of two devices, in two processes (api/examples/run), each pinned to one core,
//            against one process on one core, by the clock and by the time that the busier processor spends; beside what
//            the plan predicts
//   memory   of each stage's process: what the plan says (weights and arena_bytes) against weights plus the peak of ONNX
//            Runtime's arena with its 'basic' optimisations, which arena_bytes is of; and for comparison with 'all' of them
//            (then normalisations and activations are one operator each, and take less) and 'disabled' (then what follows
//            from weights alone is computed in every run, in the arena)
// For predictions of two processes that slow each other, describe the device as one of two at work:
//     shardplan calibrate --emit set && node set/calibrate.mjs set --processes 2    (in tests/conformance)
//     shardplan calibrate --from set --name this-core --memory 8e9 --threads 1 -o core.json    then --device core.json
// and with another set, measured without --processes, one that has the machine for itself: --alone alone.json. The process that
// the speed-up is over runs alone.
// Nothing is asserted; times are of this machine. Needs two cores, taskset, and `npm ci` in tests/conformance.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { atEnd, need, needProgram } from './lacking.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.join(here, '../..');
const conformance = path.join(root, 'tests/conformance');
const options = { command: path.join(root, 'build/api/cli/shardplan'), data: path.join(root, '../shared/data'), only: '', requests: '20', parts: 'ranks speed memory', device: 'cpu-core', alone: '' };
for (let i = 2; i < process.argv.length; i += 2) options[process.argv[i].slice(2)] = process.argv[i + 1];

const MODELS = ['resnet50', 'bert_base', 'vit_b_16', 'swin_t'];
for (const name of ['command', 'data', 'device', 'alone']) if (fs.existsSync(options[name])) options[name] = path.resolve(options[name]);
need(path.join(conformance, 'node_modules/onnxruntime-node'), 'install it first: npm ci --ignore-scripts in tests/conformance');
need(options.command, 'build it first: meson setup build && ninja -C build');
needProgram('taskset', 'util-linux');
need(path.join(options.data, 'models'), 'name the folder of the large models with --data');
process.chdir(conformance); // whose ONNX Runtime the processes take
const { RANK, makeUp, measureThroughput, start } = await import(pathToFileURL(path.join(root, 'api/examples/run/run.mjs')));
const { default: ort } = await import(pathToFileURL(path.join(conformance, 'node_modules/onnxruntime-node/dist/index.js')));
const { fillWeights } = await import(pathToFileURL(path.join(conformance, 'wire.mjs')));

/* ---- one session, in whichever process ---- */

const sessionOptions = (level, more = {}) => ({ graphOptimizationLevel: level, intraOpNumThreads: 1, interOpNumThreads: 1,
  executionMode: 'sequential', logSeverityLevel: 3, ...more });

// Ids are 0 or 1, which every table has.
function makeFeeds(session) {
  const feeds = {};
  for (const { name, type, shape } of session.inputMetadata) {
    const size = shape.reduce((a, b) => a * b, 1);
    if (type === 'int64') feeds[name] = new ort.Tensor('int64', BigInt64Array.from({ length: size }, (_, i) => BigInt(i & 1)), shape);
    else feeds[name] = new ort.Tensor('float32', Float32Array.from({ length: size }, (_, i) => Math.sin(i)), shape);
  }
  return feeds;
}

// Without prepacking and without patterns of memory, the arena has nothing but activations: weights are counted apart.
async function profile(model, level, runs) {
  const prefix = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'profile-')), 'p');
  const session = await ort.InferenceSession.create(model, sessionOptions(level, { enableProfiling: true, profileFilePrefix: prefix, enableMemPattern: false, extra: { session: { disable_prepacking: '1' } } }));
  const feeds = makeFeeds(session);
  for (let i = 0; i < runs; i++) await session.run(feeds);
  session.endProfiling();
  await session.release();
  const folder = path.dirname(prefix);
  const events = JSON.parse(fs.readFileSync(path.join(folder, fs.readdirSync(folder)[0])));
  fs.rmSync(folder, { recursive: true });
  return events.filter((event) => event.cat === 'Node' && event.name.endsWith('_kernel_time'));
}

/* ---- models and plans ---- */

const shardplan = (...args) => execFileSync(options.command, args, { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'ignore'] });

function ranks(values) {
  const order = values.map((value, index) => [value, index]).sort((a, b) => a[0] - b[0]);
  const result = new Array(values.length);
  for (let i = 0; i < order.length; ) {
    let j = i;
    while (j < order.length && order[j][0] === order[i][0]) j++;
    for (let k = i; k < j; k++) result[order[k][1]] = (i + j - 1) / 2;
    i = j;
  }
  return result;
}

function spearman(a, b) {
  const x = ranks(a), y = ranks(b), n = a.length, mean = (n - 1) / 2;
  let xy = 0, xx = 0, yy = 0;
  for (let i = 0; i < n; i++) { xy += (x[i] - mean) * (y[i] - mean); xx += (x[i] - mean) ** 2; yy += (y[i] - mean) ** 2; }
  return xy / Math.sqrt(xx * yy);
}

function predictedNodes(plan, model) {
  const [head, ...lines] = shardplan('export', plan, '--model', model, '--format', 'csv').trim().split(/\r?\n/);
  const columns = head.split(','), name = columns.indexOf('node'), seconds = columns.indexOf('seconds');
  return new Map(lines.map((line) => line.split(',')).map((fields) => [fields[name], Number(fields[seconds])]));
}

const percent = (part, whole) => `${(100 * (part / whole - 1)).toFixed(1)}%`;
const megabytes = (bytes) => (bytes / 1e6).toFixed(1);

async function compareTimes(name, plan, model) {
  const predicted = predictedNodes(plan, model), measured = new Map();
  for (const event of await profile(model, 'disabled', 4)) {
    const node = event.name.slice(0, -'_kernel_time'.length);
    measured.set(node, Math.min(measured.get(node) ?? Infinity, event.dur / 1e6));
  }
  const nodes = [...measured.keys()].filter((node) => predicted.get(node) > 0);
  const own = nodes.map((node) => measured.get(node)), theirs = nodes.map((node) => predicted.get(node));
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  console.log(`${name} ranks     ${nodes.length} nodes, Spearman ${spearman(own, theirs).toFixed(3)}; all together ${sum(own).toFixed(3)} s measured, ${sum(theirs).toFixed(3)} s predicted`);
}

// Processor cores as the devices of a plan: seconds from one request to the next by the clock, and those that the busier
// processor spends on each.
async function timeRequests(folder, model, plan) {
  const out = fs.mkdtempSync(path.join(folder, 'ranks-'));
  shardplan('export', plan, '--model', model, '--format', 'sessions', '-o', out);
  const processes = await start(out, { command: (rank) => ['taskset', '-c', String(rank), ...RANK] });
  try {
    const feeds = makeUp(processes.manifest);
    for (let i = 0; i < 2; i++) await processes.run(feeds);
    const { throughput_per_second: rate, devices } = await measureThroughput(processes, feeds, Number(options.requests), processes.ranks.length + 1);
    return { seconds: 1 / rate, spent: Math.max(...devices.map(({ spent }) => spent)) };
  } finally {
    await processes.stop();
    fs.rmSync(out, { recursive: true });
  }
}

// The best of some rounds each: what else runs on the machine only ever slows them down. Where it takes turns with them on
// the same cores, the time that these spend says what the devices would take on cores of their own.
const ROUNDS = 3;

const better = (a, b) => ({ seconds: Math.min(a.seconds, b.seconds), spent: Math.min(a.spent, b.spent) });
const intervalOf = (plan) => JSON.parse(fs.readFileSync(plan, 'utf8')).estimate.interval_seconds;

async function compareSpeed(name, folder, model, one, others) {
  const best = new Map([one, ...Object.values(others)].map((plan) => [plan, { seconds: Infinity, spent: Infinity }]));
  for (let round = 0; round < ROUNDS; round++) for (const [plan, times] of best) best.set(plan, better(times, await timeRequests(folder, model, plan)));
  const alone = best.get(one);
  for (const [strategy, plan] of Object.entries(others)) {
    const both = best.get(plan), measured = alone.seconds / both.seconds, spent = alone.spent / both.spent, predicted = intervalOf(one) / intervalOf(plan);
    console.log(`${name} ${strategy.padEnd(8)}  speed-up ${measured.toFixed(2)} measured (${alone.seconds.toFixed(3)} s alone, ${both.seconds.toFixed(3)} s on two cores), ${predicted.toFixed(2)} predicted: ${percent(predicted, measured)}; ` +
      `${spent.toFixed(2)} by the processors' time: ${percent(predicted, spent)}`);
  }
}

async function compareMemory(name, folder, plan) {
  for (const device of plan.devices) {
    const model = path.join(folder, `device-${device.id}.onnx`), peaks = {};
    for (const level of ['basic', 'all', 'disabled']) {
      peaks[level] = 0;
      for (const event of await profile(model, level, 2)) peaks[level] = Math.max(peaks[level], Number(event.args.mem_bytes_requested_in_use));
    }
    const { weights_bytes: weights, arena_bytes: arena, activations_peak_bytes: least } = device.memory, predicted = weights + arena;
    console.log(`${name} memory    stage ${device.id}: ${megabytes(predicted)} MB predicted (${megabytes(weights)} of weights, ${megabytes(arena)} of arena; ${megabytes(least)} live at once); measured ` +
      Object.entries(peaks).map(([level, peak]) => `${megabytes(weights + peak)} MB ${level} (${percent(predicted, weights + peak)})`).join(', '));
  }
}

for (const name of MODELS) {
  if (!name.includes(options.only)) continue;
  const source = path.join(options.data, 'models', `${name}.onnx`);
  if (!fs.existsSync(source)) { console.log(`${name} is not there`); continue; }
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'stages-')), model = path.join(folder, `${name}.onnx`), emitted = path.join(folder, 'plan');
  atEnd(() => fs.rmSync(folder, { recursive: true, force: true }));
  try {
    fs.copyFileSync(source, model);
    fillWeights(folder, model);
    const plans = Object.fromEntries(['one', 'pipeline', 'tensor'].map((strategy) => [strategy, path.join(folder, `${strategy}.json`)]));
    shardplan('plan', model, '--devices', '1', '--device', options.alone || options.device, '--plan', plans.one);
    if (options.parts.includes('ranks')) await compareTimes(name, plans.one, model);
    if (options.parts.includes('memory')) {
      shardplan('plan', model, '--devices', '2', '--device', options.device, '--strategy', 'pipeline', '--tolerance', '0', '--emit', emitted);
      await compareMemory(name, emitted, JSON.parse(fs.readFileSync(path.join(emitted, 'plan.json'))));
    }
    if (!options.parts.includes('speed')) continue;
    const { one, ...others } = plans;
    for (const [strategy, plan] of Object.entries(others))
      shardplan('plan', model, '--devices', '2', '--device', options.device, '--strategy', strategy, '--tolerance', '0', '--plan', plan);
    await compareSpeed(name, folder, model, one, others);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}
