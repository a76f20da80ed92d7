// How honest the cost model is: plans for two processor cores, carried out by ONNX Runtime.
//
//     node tests/bench/stages.mjs [--command build/api/cli/shardplan] [--data DIR] [--only NAME] [--requests 20] [--parts 'ranks speed memory'] [--device cpu-core]
//
// For each large model of the test data (with weights made up, where its own are absent):
//   ranks    the time of every node by the plan for one device (`cpu-core`, or the one given) against ONNX Runtime's profiler: Spearman's rank
//            correlation, and the sums
//   speed-up two pipeline stages in two processes, each pinned to one core, against one process on one core, by the clock and by
//            the time that the busier processor spends; beside what
//            the plan predicts
//   memory   of each stage's process: what the plan says (weights and arena_bytes) against weights plus the peak of ONNX
//            Runtime's arena with its 'basic' optimisations, which arena_bytes is of; and for comparison with 'all' of them
//            (then normalisations and activations are one operator each, and take less) and 'disabled' (then what follows
//            from weights alone is computed in every run, in the arena)
// Nothing is asserted; times are of this machine. Needs two cores, taskset, and `npm ci` in tests/conformance.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { atEnd, need, needProgram } from './lacking.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.join(here, '../..');
const conformance = path.join(root, 'tests/conformance');
const options = { command: path.join(root, 'build/api/cli/shardplan'), data: path.join(root, '../shared/data'), only: '', requests: '20', parts: 'ranks speed memory', device: 'cpu-core' };
for (let i = 2; i < process.argv.length; i += 2) options[process.argv[i].slice(2)] = process.argv[i + 1];

const MODELS = ['resnet50', 'bert_base', 'vit_b_16', 'swin_t'];
if (!options.stage) {
  need(path.join(conformance, 'node_modules/onnxruntime-node'), 'install it first: npm ci --ignore-scripts in tests/conformance');
  need(options.command, 'build it first: meson setup build && ninja -C build');
  needProgram('taskset', 'util-linux');
  need(path.join(options.data, 'models'), 'name the folder of the large models with --data');
}
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

/* ---- stages: tensors go through shared memory ---- */

// A request's tensors are in one of SLOTS files in a folder of shared memory (or of the disk's cache): the size of a head,
// the head with names, types and dims, then the bytes. An empty file `request-N` says that request N is there; the
// receiver removes it when it has read the tensors. So the sender may be SLOTS requests ahead, and neither waits for the
// other's processor. Files and buffers are used again: fresh pages cost more than the copying.
const SLOTS = 3;

const pause = new Int32Array(new SharedArrayBuffer(4));
const waitWhile = (condition) => { while (condition()) Atomics.wait(pause, 0, 0, 0.2); };
const notice = (folder, request) => path.join(folder, `request-${request}`);
const openSlot = (folder, request) => fs.openSync(path.join(folder, `slot-${request % SLOTS}`), fs.constants.O_RDWR | fs.constants.O_CREAT);

function send(folder, request, tensors) {
  const head = Buffer.from(JSON.stringify(Object.entries(tensors).map(([name, { type, dims, data }]) => ({ name, type, dims, bytes: data.byteLength }))));
  const size = Buffer.alloc(4);
  size.writeUInt32LE(head.length);
  waitWhile(() => fs.existsSync(notice(folder, request - SLOTS)));
  const slot = openSlot(folder, request);
  for (const part of [size, head, ...Object.values(tensors).map(({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength))])
    for (let at = 0; at < part.length; ) at += fs.writeSync(slot, part, at);
  fs.closeSync(slot);
  fs.writeFileSync(notice(folder, request), '');
}

const received = new Map();

function receive(folder, request) {
  waitWhile(() => !fs.existsSync(notice(folder, request)));
  const slot = openSlot(folder, request), tensors = {};
  const next = (bytes) => {
    for (let at = 0; at < bytes.length; ) at += fs.readSync(slot, bytes, at, bytes.length - at);
    return bytes;
  };
  for (const { name, type, dims, bytes } of JSON.parse(next(Buffer.alloc(next(Buffer.alloc(4)).readUInt32LE())))) {
    if (!received.has(name)) received.set(name, Buffer.allocUnsafeSlow(bytes));
    const data = next(received.get(name));
    const array = type === 'int64' ? new BigInt64Array(data.buffer) : type === 'bool' ? new Uint8Array(data.buffer) : new Float32Array(data.buffer);
    tensors[name] = new ort.Tensor(type, array, dims);
  }
  fs.closeSync(slot);
  fs.rmSync(notice(folder, request));
  return tensors;
}

// Reports the medians of the seconds from one request's end to the next one's, and of those that the processor spent on it
// meanwhile; the first two warm up.
async function stageProcess(model, requests, from, to) {
  const session = await ort.InferenceSession.create(model, sessionOptions('all'));
  const own = from === '' ? makeFeeds(session) : null, ends = [], spent = [];
  for (let i = 0; i < requests; i++) {
    const outputs = await session.run(own ?? receive(from, i));
    if (to !== '') send(to, i, outputs);
    const { user, system } = process.cpuUsage();
    ends.push(performance.now() / 1000);
    spent.push((user + system) / 1e6);
  }
  const median = (times) => {
    const intervals = times.slice(2).map((end, i) => end - times[i + 1]).sort((a, b) => a - b);
    return intervals[intervals.length >> 1];
  };
  console.log(JSON.stringify({ seconds: median(ends), spent: median(spent) }));
}

function startStage(core, model, from, to) {
  const child = spawn('taskset', ['-c', String(core), process.execPath, fileURLToPath(import.meta.url), '--stage', model,
    '--requests', options.requests, '--from', from, '--to', to], { stdio: ['ignore', 'pipe', 'inherit'] });
  atEnd(() => child.kill('SIGKILL'));
  let text = '';
  child.stdout.on('data', (data) => (text += data));
  return new Promise((resolve, reject) => child.on('close', (status) => {
    if (status === 0) resolve(JSON.parse(text));
    else reject(new Error(`a stage ended with status ${status}`));
  }));
}

if (options.stage) {
  await stageProcess(options.stage, Number(options.requests), options.from, options.to);
  process.exit(0);
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

async function runStages(folder) {
  const shared = fs.mkdtempSync(path.join(fs.existsSync('/dev/shm') ? '/dev/shm' : os.tmpdir(), 'stages-'));
  atEnd(() => fs.rmSync(shared, { recursive: true, force: true }));
  try {
    const models = [0, 1].map((device) => path.join(folder, `device-${device}.onnx`));
    const [first, last] = await Promise.all([startStage(0, models[0], '', shared), startStage(1, models[1], shared, '')]);
    return { seconds: last.seconds, spent: Math.max(first.spent, last.spent) };
  } finally {
    fs.rmSync(shared, { recursive: true });
  }
}

// The best of some rounds each: what else runs on the machine only ever slows them down. Where it takes turns with them on
// the same cores, the time that these spend says what the stages would take on cores of their own.
const ROUNDS = 3;

const better = (a, b) => ({ seconds: Math.min(a.seconds, b.seconds), spent: Math.min(a.spent, b.spent) });

async function compareSpeed(name, folder, model, one, two) {
  let alone = { seconds: Infinity, spent: Infinity }, both = alone;
  for (let round = 0; round < ROUNDS; round++) {
    alone = better(alone, await startStage(0, model, '', ''));
    both = better(both, await runStages(folder));
  }
  const measured = alone.seconds / both.seconds, spent = alone.spent / both.spent;
  const predicted = one.estimate.interval_seconds / two.estimate.interval_seconds;
  console.log(`${name} speed-up  ${measured.toFixed(2)} measured (${alone.seconds.toFixed(3)} s alone, ${both.seconds.toFixed(3)} s in two stages), ${predicted.toFixed(2)} predicted: ${percent(predicted, measured)}; ` +
    `${spent.toFixed(2)} by the processors' time: ${percent(predicted, spent)}`);
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
    shardplan('plan', model, '--devices', '1', '--device', options.device, '--plan', path.join(folder, 'one.json'));
    shardplan('plan', model, '--devices', '2', '--device', options.device, '--strategy', 'pipeline', '--tolerance', '0', '--emit', emitted);
    const one = JSON.parse(fs.readFileSync(path.join(folder, 'one.json'))), two = JSON.parse(fs.readFileSync(path.join(emitted, 'plan.json')));
    if (options.parts.includes('ranks')) await compareTimes(name, path.join(folder, 'one.json'), model);
    if (options.parts.includes('speed')) await compareSpeed(name, emitted, model, one, two);
    if (options.parts.includes('memory')) await compareMemory(name, emitted, two);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}
