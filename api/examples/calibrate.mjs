// Measures the models of `shardplan calibrate --emit DIR` with ONNX Runtime for Node.
//
//     npm install onnxruntime-node && node calibrate.mjs DIR [--threads 1] [--processes 1] [--seconds 0.3] [--only TEXT]
//
// Writes DIR/times.csv, and a profile of ONNX Runtime for each kernel that is timed by itself. A kernel is repeated until
// its three shortest times agree within 10 %, or a while that grows with --seconds is over. With --processes N it is one of
// N processes that run each kernel at the same time, on --threads cores each (by taskset, where there is one): what a device
// takes whose neighbours share memory, caches and clock with it.
import { execFileSync, fork } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const AGREE = 0.1, LEAST = 5, ROUNDS = 8;

const folder = process.argv[2], options = { threads: '1', processes: '1', seconds: '0.3', only: '' };
for (let i = 3; i < process.argv.length; i += 2) options[process.argv[i].replace(/^--/, '')] = process.argv[i + 1];
const budget = Number(options.seconds) * 1000;

async function loadRuntime() {
  const require = createRequire(pathToFileURL(path.join(process.cwd(), 'calibrate.mjs')));
  return (await import(pathToFileURL(require.resolve('onnxruntime-node')))).default;
}
const ort = await loadRuntime();

const sessionOptions = (more = {}) => ({ graphOptimizationLevel: 'all', executionMode: 'sequential', logSeverityLevel: 3,
  intraOpNumThreads: Number(options.threads), interOpNumThreads: 1, ...more });

const ARRAYS = { float32: Float32Array, float64: Float64Array, float16: Uint16Array, uint8: Uint8Array, int8: Int8Array };

// Numbers of 0.5 .. 1.5; halves of them are 0x3800 .. 0x3c00.
function feedsOf(session) {
  const feeds = {};
  for (const { name, type, shape } of session.inputMetadata) {
    const size = shape.reduce((a, b) => a * b, 1);
    if (!ARRAYS[type]) throw new Error(`no inputs of type ${type}`);
    const value = type === 'float16' ? (i) => 0x3800 + (i & 1023) : type.includes('int') ? (i) => i & 63 : (i) => 0.5 + (i % 1024) / 1024;
    feeds[name] = new ort.Tensor(type, ARRAYS[type].from({ length: size }, (_, i) => value(i)), shape);
  }
  return feeds;
}

const agree = (times) => {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted.length >= LEAST && sorted[0] > 0 && sorted[2] <= sorted[0] * (1 + AGREE);
};

/* ---- other devices of the host ---- */

function pin(number) {
  const threads = Number(options.threads), cores = `${number * threads}-${number * threads + threads - 1}`;
  try {
    execFileSync('taskset', ['-a', '-c', '-p', cores, String(process.pid)], { stdio: 'ignore' });
  } catch {
    console.error(`process ${number} is not bound to cores ${cores}`);
  }
}

// Runs the model that was last asked for, over and over, and says when it has begun.
async function accompany(number) {
  let wanted = '', model = '', session, feeds;
  pin(number);
  process.on('message', (next) => { wanted = next; });
  process.on('disconnect', () => process.exit());
  for (;;) {
    if (wanted !== model) {
      await session?.release();
      session = undefined;
      model = wanted;
      try {
        session = await ort.InferenceSession.create(model, sessionOptions());
        feeds = feedsOf(session);
      } catch {} // whoever measures tells it
      process.send(model);
    }
    if (session) await session.run(feeds);
    await new Promise((resolve) => { session ? setImmediate(resolve) : setTimeout(resolve, 1); });
  }
}

const others = [];
function startOthers() {
  if (Number(options.processes) > 1) pin(0);
  for (let i = 1; i < Number(options.processes); i++) {
    const other = fork(process.argv[1], [folder, '--threads', options.threads, '--companion', String(i)]);
    other.on('exit', () => { if (!other.isEnded) { console.error(`process ${i} has ended`); process.exit(1); } });
    others.push(other);
  }
}

const runAlong = (model) => Promise.all(others.map((other) => new Promise((resolve) => { other.once('message', resolve); other.send(model); })));

/* ---- measuring ---- */

// Seconds of whole runs.
async function timeRuns(model) {
  await runAlong(model);
  const session = await ort.InferenceSession.create(model, sessionOptions()), feeds = feedsOf(session), times = [];
  await session.run(feeds);
  for (const begin = performance.now(), end = begin + budget * ROUNDS; ;) {
    const start = performance.now();
    await session.run(feeds);
    const now = performance.now();
    times.push((now - start) / 1000);
    if (times.length >= LEAST && (now > end || (now > begin + budget / 2 && agree(times)))) break;
  }
  await session.release();
  return times.sort((a, b) => a - b).slice(0, 20);
}

function nodesOf(profile) {
  const nodes = new Map();
  for (const { cat, name, dur } of JSON.parse(fs.readFileSync(profile))) {
    if (cat !== 'Node' || !name.endsWith('_kernel_time')) continue;
    const kernel = name.split('#')[0];
    nodes.set(kernel, [...(nodes.get(kernel) ?? []), dur]);
  }
  return [...nodes].filter(([kernel]) => kernel.split('.').length === 3);
}

// Profiles of some rounds; an earlier measurement's are gone.
async function profileNodes(model, name) {
  const prefix = path.join(folder, `${name}.profile`), seen = new Map();
  for (const file of fs.readdirSync(folder)) if (file.startsWith(`${name}.profile`)) fs.rmSync(path.join(folder, file));
  await runAlong(model);
  for (let round = 0; round < ROUNDS; round++) {
    const session = await ort.InferenceSession.create(model, sessionOptions({ enableProfiling: true, profileFilePrefix: `${prefix}${round}` }));
    const feeds = feedsOf(session);
    for (let begin = performance.now(), i = 0; i < LEAST || (i < 200 && performance.now() < begin + budget / 2); i++) await session.run(feeds);
    session.endProfiling();
    await session.release();
    const file = fs.readdirSync(folder).find((each) => each.startsWith(`${name}.profile${round}`));
    for (const [kernel, times] of nodesOf(path.join(folder, file))) seen.set(kernel, [...(seen.get(kernel) ?? []), ...times]);
    if (seen.size > 0 && [...seen.values()].every(agree)) break;
  }
}

if (options.companion) await accompany(Number(options.companion)); // until the process that measures leaves
startOthers();
const [head, ...rows] = fs.readFileSync(path.join(folder, 'set.csv'), 'utf8').trim().split('\n').map((line) => line.split(','));
const output = [`# runtime: ONNX Runtime ${ort.env.versions.node ?? ort.env.versions.common}, CPUExecutionProvider${others.length > 0 ? `, ${others.length + 1} processes at once` : ''}`,
  `# date: ${new Date().toISOString().slice(0, 10)}`, 'kernel,dtype,shape,seconds'];
let base = 0;
for (const row of rows) {
  const entry = Object.fromEntries(head.map((name, i) => [name, row[i]])), copies = Number(entry.copies);
  if (Number(entry.ranks) > 1 || !entry.file.includes(options.only)) continue;
  const model = path.join(folder, entry.file);
  try {
    if (entry.timing === 'node') {
      await profileNodes(model, entry.file.replace(/\.onnx$/, ''));
      continue;
    }
    const times = await timeRuns(model);
    if (copies === 1) base = times[0]; // of a run itself
    else for (const seconds of times) output.push([entry.kernel, entry.dtype, entry.shape, Math.max(seconds - base, 0) / (copies - 1)].join(','));
  } catch (error) {
    console.error(`${entry.file} is left out: ${String(error.message ?? error).split('\n')[0]}`);
  }
}
for (const other of others) {
  other.isEnded = true;
  other.disconnect();
}
fs.writeFileSync(path.join(folder, 'times.csv'), output.join('\n') + '\n');
