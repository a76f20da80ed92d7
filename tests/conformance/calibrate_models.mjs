// `shardplan calibrate` on this machine's processor, from end to end: the set is written, measured by the runner that it
// comes with, and fitted; then models that the fit never saw are planned on that device and run. Of each model: the sum of
// its nodes' times as exported, and the time of a whole run, optimised as ONNX Runtime does by default; over all of them the
// median error, and how their nodes are ranked. TAP on standard output; with SHARDPLAN_TEST_THOROUGH further models, and
// plans of two stages, and of one stage on two devices, in two processes.
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';
import { fillWeights } from './wire.mjs';

const HERE = dirname(fileURLToPath(import.meta.url)), TOP = join(HERE, '../..');
const CLI = process.env.SHARDPLAN ?? join(TOP, 'build/api/cli/shardplan');
const DATA = process.env.SHARDPLAN_TEST_DATA ?? join(TOP, '../shared/data');
const THOROUGH = !!process.env.SHARDPLAN_TEST_THOROUGH;
const SMALL = ['bert_tiny', 'gpt2_tiny', 'llama_tiny', 'lstm_tiny', 'moe_tiny', 'unet_tiny', 'resnet50'];
const FURTHER = ['bert_base', 'swin_t', 'vit_b_16'];
const OFF = 0.2, RANKED = 0.95, SPEED_UP = 0.15; // how far medians may be off, how well nodes have to be ranked
const TOLD = 5e-6; // seconds, measured or predicted, of nodes that are ranked: the profiler itself takes 2 us for each
const ATTEMPTS = 5; // what else runs here only ever makes the agreement worse:
const BUSY = 2;     // processes that want a processor, this one among them, from which on a miss says nothing,
const SLOW = 1.1;   // nor does it where others on the machine's host slow the processor by so much;
const BESIDE = 2;   // so many attempts do then, as further ones would say nothing either

let failures = 0, slowest = 1;
const isBusy = () => loadavg()[0] >= BUSY || slowest >= SLOW;
function report(name, problems) {
  failures += problems.length > 0;
  console.log(`${problems.length > 0 ? 'not ok' : 'ok'} ${name}`);
  for (const problem of problems) console.log(`  ${problem}`);
}
const shardplan = (...parts) => execFileSync(CLI, parts, { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'pipe'] });
const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
};

/* ---- models ---- */

const ARRAYS = { float32: Float32Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array };

// Ids are 0 or 1, which every table has; open extents are those that a plan takes: 1 in front, 128 behind.
function feedsOf(session) {
  const feeds = {};
  for (const { name, type, shape } of session.inputMetadata) {
    const dims = shape.map((extent, i) => (typeof extent === 'number' && extent > 0 ? extent : i === 0 ? 1 : 128));
    const size = dims.reduce((a, b) => a * b, 1);
    const value = type === 'int64' ? (i) => BigInt(i & 1) : type === 'float32' ? (i) => Math.sin(i) : (i) => i & 1;
    feeds[name] = new ort.Tensor(type, ARRAYS[type].from({ length: size }, (_, i) => value(i)), dims);
  }
  return feeds;
}

const options = (level, more = {}) => ({ graphOptimizationLevel: level, executionMode: 'sequential', intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3, ...more });

/* ---- times --------------------------------------------------------------------------------------------------------
 * Whatever else runs here makes times longer. Of what is short the shortest time counts. What is longer than a turn of the
 * scheduler is measured by the time that the processor spent on it, divided by how much slower than at its best it ran a
 * product of the set just before and behind. */

const SHORT = 3; // milliseconds
const yardstick = { session: null, feeds: null, best: 0 };

async function cost(session, feeds) {
  const before = process.cpuUsage(), start = performance.now();
  await session.run(feeds);
  const spent = process.cpuUsage(before);
  return { wall: (performance.now() - start) / 1000, spent: (spent.user + spent.system) / 1e6 };
}

// How many times slower than at its best the processor is at the moment.
async function slowness() {
  const times = [];
  for (let i = 0; i < 3; i++) times.push((await cost(yardstick.session, yardstick.feeds)).spent);
  return Math.max(median(times) / yardstick.best, 1);
}

/** Runs for a while: [{wall, spent, slow}] */
async function runs(session, feeds, milliseconds) {
  const list = [];
  for (let begin = performance.now(), before = await slowness(); list.length < 3 || performance.now() < begin + milliseconds;) {
    const one = await cost(session, feeds);
    if (one.wall * 1000 < SHORT) {
      list.push({ ...one, slow: 1 });
      continue;
    }
    const behind = await slowness();
    list.push({ ...one, slow: (before + behind) / 2 });
    before = behind;
  }
  return list;
}

/** Seconds of a run: of short ones without what a run itself takes. */
async function timeRuns(model, level, milliseconds, base) {
  const session = await ort.InferenceSession.create(model, options(level)), feeds = feedsOf(session);
  await session.run(feeds);
  const list = await runs(session, feeds, milliseconds), shortest = Math.min(...list.map(({ wall }) => wall));
  await session.release();
  return (shortest * 1000 < SHORT ? shortest : median(list.map(({ spent, slow }) => spent / slow))) - base;
}

/**
 * Node -> its seconds. The profiler counts whole microseconds that are over (half of one is missing on average), and takes
 * as long itself as a small operator does. So, where a run is short, nodes share the time of a run without a profiler.
 */
async function timeNodes(model, folder, milliseconds, base) {
  const prefix = join(mkdtempSync(join(folder, 'profile-')), 'p');
  const session = await ort.InferenceSession.create(model, options('disabled', { enableProfiling: true, profileFilePrefix: prefix }));
  const feeds = feedsOf(session), times = new Map();
  await session.run(feeds);
  const list = await runs(session, feeds, milliseconds), isLong = Math.min(...list.map(({ wall }) => wall)) * 1000 >= SHORT;
  session.endProfiling();
  await session.release();
  const events = JSON.parse(readFileSync(join(dirname(prefix), readdirSync(dirname(prefix))[0])));
  const begins = events.filter(({ name }) => name === 'model_run').map(({ ts }) => ts).slice(1).sort((a, b) => a - b);
  for (const { cat, name, dur, ts } of events) {
    if (cat !== 'Node' || !name.endsWith('_kernel_time') || ts < begins[0]) continue;
    const node = name.slice(0, -'_kernel_time'.length), run = list[begins.findLastIndex((begin) => begin <= ts)];
    const share = dur > SHORT * 1000 ? run.spent / run.wall / run.slow : 1 / run.slow;
    times.set(node, [...(times.get(node) ?? []), ((dur + 0.5) / 1e6) * share]);
  }
  if (isLong) return new Map([...times].map(([node, all]) => [node, median(all)]));
  const nodes = new Map([...times].map(([node, all]) => [node, meanOfShorter(all)]));
  const least = Math.min(...nodes.values()), own = sum([...nodes.values()].map((seconds) => seconds - least));
  const run = await timeRuns(model, 'disabled', milliseconds, base), each = Math.max(run - own, 0) / nodes.size;
  return new Map([...nodes].map(([node, seconds]) => [node, own < run ? seconds - least + each : (seconds - least) * run / own]));
}

const meanOfShorter = (values) => {
  const sorted = [...values].sort((a, b) => a - b).slice(0, Math.ceil(values.length / 2));
  return sum(sorted) / sorted.length;
};

async function prepareYardstick(set) {
  const model = join(set, 'product.float32.128x768x768.onnx'), all = [];
  yardstick.session = await ort.InferenceSession.create(model, options('all'));
  yardstick.feeds = feedsOf(yardstick.session);
  for (const file of readdirSync(set).filter((name) => name.startsWith('product.float32.128x768x768.profile')))
    for (const { cat, name, dur } of JSON.parse(readFileSync(join(set, file)))) if (cat === 'Node' && name.endsWith('_kernel_time')) all.push(dur / 1e6);
  yardstick.best = 4 * all.sort((a, b) => a - b)[2]; // as many nodes
}

/* ---- comparing ---- */

function ranks(values) {
  const order = values.map((value, index) => [value, index]).sort((a, b) => a[0] - b[0]), result = new Array(values.length);
  for (let i = 0, j = 0; i < order.length; i = j) {
    while (j < order.length && order[j][0] === order[i][0]) j++;
    for (let k = i; k < j; k++) result[order[k][1]] = (i + j - 1) / 2;
  }
  return result;
}

function spearman(a, b) {
  const x = ranks(a), y = ranks(b), mean = (a.length - 1) / 2;
  let xy = 0, xx = 0, yy = 0;
  x.forEach((_, i) => { xy += (x[i] - mean) * (y[i] - mean); xx += (x[i] - mean) ** 2; yy += (y[i] - mean) ** 2; });
  return xy / Math.sqrt(xx * yy);
}

function predictedNodes(plan, model) {
  const [head, ...lines] = shardplan('export', plan, '--model', model, '--format', 'csv').trim().split(/\r?\n/).map((line) => line.split(','));
  return new Map(lines.map((fields) => [fields[head.indexOf('node')], Number(fields[head.indexOf('seconds')])]));
}

const sum = (values) => values.reduce((a, b) => a + b, 0);
const milliseconds = (seconds) => `${(seconds * 1000).toFixed(3)} ms`;

async function compare(name, device, folder, base) {
  const model = join(folder, `${name}.onnx`), plan = join(folder, `${name}.json`);
  copyFileSync(join(DATA, 'models', `${name}.onnx`), model);
  fillWeights(folder, model);
  shardplan('plan', model, '--devices', '1', '--device', device, '--plan', plan);
  const predicted = predictedNodes(plan, model), whole = JSON.parse(readFileSync(plan)).estimate.latency_seconds;
  const measured = await timeNodes(model, folder, 300, base), run = await timeRuns(model, 'all', 300, base);
  const nodes = [...measured.keys()].filter((node) => predicted.get(node) > 0);
  const own = nodes.map((node) => measured.get(node)), theirs = nodes.map((node) => predicted.get(node));
  const told = nodes.filter((node) => Math.max(predicted.get(node), measured.get(node)) >= TOLD);
  const result = { name, nodes: sum(theirs) / sum(own), whole: whole / run, told: told.map((node) => [measured.get(node), predicted.get(node)]) };
  console.log(`# ${name}: ${nodes.length} nodes, ${milliseconds(sum(own))}, predicted ${milliseconds(sum(theirs))} (${result.nodes.toFixed(2)}), ` +
    `Spearman ${spearman(own, theirs).toFixed(3)}; whole ${milliseconds(run)}, predicted ${milliseconds(whole)} (${result.whole.toFixed(2)})`);
  for (const file of readdirSync(folder)) rmSync(join(folder, file), { recursive: true });
  return result;
}

const off = (ratios) => median(ratios.map((ratio) => Math.abs(ratio - 1)));

/** Problems of one measurement, fit and comparison. */
async function attempt(names, folder) {
  const set = join(folder, 'set'), device = join(folder, 'device.json'), work = join(folder, 'work'), problems = [], results = [];
  mkdirSync(work, { recursive: true });
  shardplan('calibrate', '--emit', set);
  execFileSync(process.execPath, [join(set, 'calibrate.mjs'), set, '--threads', '1', '--seconds', '0.1'], { cwd: HERE, stdio: ['ignore', 'inherit', 'inherit'] });
  try {
    shardplan('calibrate', '--from', set, '--name', 'this-core', '--memory', '8e9', '--threads', '1', '-o', device);
  } catch (error) {
    return [String(error.stderr)];
  }
  await prepareYardstick(set);
  const base = await timeRuns(join(set, 'relu.float32.8.onnx'), 'all', 200, 0);
  const slow = await slowness();
  slowest = Math.max(slowest, slow);
  console.log(`# a run itself takes ${milliseconds(base)}, the processor is ${slow.toFixed(2)} times slower than at its best`);
  for (const name of names) results.push(await compare(name, device, work, base));
  await yardstick.session.release();
  const nodes = off(results.map((each) => each.nodes)), whole = off(results.map((each) => each.whole));
  const told = results.flatMap((each) => each.told), rank = spearman(told.map(([own]) => own), told.map(([, theirs]) => theirs));
  console.log(`# median error: sums of nodes ${(100 * nodes).toFixed(1)} %, whole runs ${(100 * whole).toFixed(1)} %; Spearman of ${told.length} nodes ${rank.toFixed(3)}`);
  if (nodes > OFF) problems.push(`sums of nodes are off by ${(100 * nodes).toFixed(1)} % (median)`);
  if (whole > OFF) problems.push(`whole runs are off by ${(100 * whole).toFixed(1)} % (median)`);
  if (rank < RANKED) problems.push(`nodes are ranked with Spearman ${rank.toFixed(3)}`);
  return problems;
}

/** Two devices in two processes against one, by the program that does that; as fast a link as sockets here have. By the processors' time:
 * two cores are rarely free at once. */
function devices(device) {
  const linked = join(dirname(device), 'linked.json'), problems = [];
  writeFileSync(linked, JSON.stringify({ ...JSON.parse(readFileSync(device)), host_bandwidth: 1e9 }));
  for (const name of ['resnet50', 'bert_base']) {
    const text = execFileSync(process.execPath, [join(TOP, 'tests/bench/stages.mjs'), '--command', CLI, '--data', DATA, '--only', name, '--parts', 'speed', '--requests', '12', '--device', linked], { encoding: 'utf8' });
    for (const line of text.trim().split('\n')) {
      console.log(`# ${line}`);
      const [, error] = /by the processors' time: (-?[\d.]+)%$/.exec(line);
      if (Math.abs(Number(error)) > 100 * SPEED_UP) problems.push(line);
    }
  }
  return problems;
}

const names = [...SMALL, ...(THOROUGH ? FURTHER : [])].filter((name) => existsSync(join(DATA, 'models', `${name}.onnx`)));
const folder = mkdtempSync(join(tmpdir(), 'calibrate-'));
try {
  if (names.length === 0) {
    console.log('ok calibrate # SKIP the models are not there');
  } else {
    let problems = [];
    for (let i = 0; i < ATTEMPTS; i++) {
      rmSync(join(folder, 'set'), { recursive: true, force: true });
      problems = await attempt(names, folder);
      if (problems.length === 0 || (i + 1 >= BESIDE && isBusy())) break;
    }
    const name = `calibrate: ${names.length} models on this processor`, [load] = loadavg();
    if (problems.length > 0 && isBusy()) console.log(`ok ${name} # SKIP beside a load of ${load.toFixed(1)}, ${slowest.toFixed(2)} times slower than at best: ${problems.join('; ')}`);
    else report(name, problems);
    if (THOROUGH && problems.length === 0) report('calibrate: two devices in two processes', devices(join(folder, 'device.json')));
  }
} finally {
  rmSync(folder, { recursive: true });
}
process.exitCode = failures > 0 ? 1 : 0;
