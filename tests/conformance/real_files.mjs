// Real files of public repositories, as their authors committed them, and small ones with what they have that the standard
// forbids and runtimes take: what the command makes of each; TAP on standard output.
//
//     node real_files.mjs [--only TEXT] [--plans N] [--verbose]
//
// Each file is inspected and checked, and planned by every strategy on 1, 2, 3, 4 and 8 devices, of these N combinations in
// turn (2 unless given; SHARDPLAN_TEST_THOROUGH: all). What ONNX Runtime loads has to be planned, or does not fit; its values
// have shapes, those of unknown operators aside; and the annotated model, the simulation and the devices' models give what
// the original gives. What it does not load may be refused, and never crashes anything. The end is a table.
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';
import { inFolder, runDevices } from './device_run.mjs';
import { generate } from './simulate.mjs';
import { difference } from './simulate_tensor.mjs';
import { readArguments } from './simulate_tools.mjs';

const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const cli = process.env.SHARDPLAN ?? path.join(top, 'build/api/cli/shardplan');
const real = path.join(process.env.SHARDPLAN_TEST_DATA ?? path.join(top, '../shared/data'), 'real');
const values = readArguments(['only', 'plans'], ['verbose']);
const combinations = [1, 2, 3, 4, 8].flatMap((count) => ['auto', 'grouping', 'pipeline', 'tensor'].map((strategy) => ({ count, strategy })));
const plansOfEach = Number(values.plans ?? (process.env.SHARDPLAN_TEST_THOROUGH ? combinations.length : 2));
// Seconds of convolutions, or of a large vocabulary: planned once, and run where there is time.
const heavy = new Set(['000-mosaic.onnx', '001-la_muse.onnx', '065-dummy_text.onnx', '084-nmp.onnx']);
// Misses that are known, and why.
const explained = new Map([['003-test_subgraph.onnx', 'the branches of an If give results of different ranks, so one has no size']]);
const options = { graphOptimizationLevel: 'disabled', intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 4 };

function madeFiles(folder) {
  execFileSync('python3', [path.join(top, 'tests/conformance/accepted_models.py'), folder]);
  return fs.readdirSync(folder).sort().map((name, index) => ({ index, file: path.join(folder, name), name, dims: {}, isLoaded: true }));
}

function realFiles() {
  if (!fs.existsSync(real)) return [];
  const [head, ...rows] = fs.readFileSync(path.join(real, 'files.tsv'), 'utf8').trim().split('\n').map((line) => line.split('\t'));
  const column = (row, name) => row[head.indexOf(name)];
  return rows.map((row, index) => ({ index, file: path.join(real, column(row, 'file')), name: column(row, 'file'), dims: JSON.parse(column(row, 'dims that were bound')),
    isLoaded: !column(row, 'ORT').startsWith('orig_load') }));
}

// The command's answer; a crash or an internal error is never one.
function ask(verb, ...rest) {
  const { status, signal, stdout, stderr } = spawnSync(cli, [verb, ...rest], { encoding: 'utf8', maxBuffer: 1 << 28, timeout: 300000 });
  const why = stderr.trim().replace(/\s+/g, ' ').slice(0, 300);
  return { status: signal ?? status, stdout, why, isBroken: signal !== null || ![0, 1, 3].includes(status) };
}

/* ---- what the runtime gives ---- */

async function withSession(file, work) {
  const session = await ort.InferenceSession.create(file, options);
  try {
    return await work(session);
  } finally {
    await session.release();
  }
}

// Inputs of the extents that were planned.
function feedsOf({ inputMetadata }, planned) {
  return Object.fromEntries(inputMetadata.map(({ name, type, shape, isTensor }) => {
    if (!isTensor) throw new Error(`input '${name}' is no tensor`);
    return [name, generate(name, { type, dims: planned.get(name) ?? shape.map((dim) => (dim >= 0 ? dim : 1)) })];
  }));
}

// A part of the largest element: sums of many terms in another order. Where a value is in half precision the runtime keeps
// it in single precision between two nodes, and not from one model to the next.
function shareOf({ type, data }, isHalf) {
  if (type === 'float16') return 1e-3;
  if (type !== 'float32' && type !== 'float64') return 1e-5;
  const part = isHalf ? 4e-3 : 5e-4;
  return data.reduce((largest, value) => (Number.isFinite(value) ? Math.max(largest, part * Math.abs(value)) : largest), 1e-5);
}

const textOf = (error) => String(error.message ?? error).replace(/\s+/g, ' ').slice(0, 300);

// Throws what differs; gives 'equal', or why there is nothing to compare with.
async function compare(original, isHalf, folder) {
  const file = (name) => path.join(folder, name);
  const planned = new Map(JSON.parse(fs.readFileSync(file('plan.json'), 'utf8')).tensors.map(({ name, shape }) => [name, shape]));
  let feeds, expected;
  try {
    expected = await withSession(original, (session) => session.run(feeds = feedsOf(session, planned)));
  } catch (error) {
    return `the original does not run: ${textOf(error)}`;
  }
  const expectSame = (what, results) => {
    for (const [name, tensor] of Object.entries(expected)) {
      const why = difference(results[name], tensor, { rtol: 1e-3, atol: shareOf(tensor, isHalf) });
      if (why) throw new Error(`${what}, output '${name}': ${why}`);
    }
  };
  const run = (what, results) => results.catch((error) => { throw new Error(`${what}: ${textOf(error)}`); });
  for (const what of ['annotated', 'simulation']) {
    expectSame(what, await run(what, withSession(file(`${what}.onnx`), (session) => session.run(feeds))));
  }
  expectSame('devices', (await run('devices', runDevices(inFolder(folder), feeds, expected))).results);
  return 'equal';
}

/* ---- one file ---- */

const codesOf = (stdout, severity) => [...new Set(JSON.parse(stdout || '{}').diagnostics?.filter((item) => item.severity === severity).map(({ code }) => code))];

async function examine({ index, file, name, dims, isLoaded }, folder) {
  const misses = [];
  const bound = Object.entries(dims).flatMap(([dim, extent]) => ['--dim', `${dim}=${extent}`]);
  let isHalf = false;
  const line = { name, shaped: '-', check: '', plans: 0, noFit: 0, equal: 0, notRun: 0 };
  const inspected = ask('inspect', file, '--values', '--json', ...bound);
  if (inspected.status === 0) {
    const model = JSON.parse(inspected.stdout);
    const isUnshaped = ({ dtype, shape }) => dtype !== null && !shape; // a size that two unknown ones broadcast to is null
    const all = Object.entries(model.values), unshaped = all.filter(([, value]) => isUnshaped(value)).map(([name]) => name);
    isHalf = all.some(([, { dtype }]) => dtype === 'float16');
    line.shaped = `${all.length - unshaped.length}/${all.length}`;
    if (isLoaded && unshaped.length && !model.unknown_operators.length) misses.push(`without a shape: ${unshaped.slice(0, 5)}`);
  } else if (isLoaded || inspected.isBroken) misses.push(`inspect: ${inspected.status} ${inspected.why}`);
  const checked = ask('check', file, '--json');
  if (checked.isBroken || (checked.status && !checked.stdout)) misses.push(`check: ${checked.status} ${checked.why}`);
  else line.check = codesOf(checked.stdout, 'error').join(' ');
  const isShort = heavy.has(name) && !process.env.SHARDPLAN_TEST_THOROUGH && !values.plans;
  for (let turn = 0; turn < (isShort ? 1 : plansOfEach); turn++) {
    // Neighbours in the list of files get other combinations; of one file all are different.
    const { count, strategy } = combinations[(index * 7 + turn * 9) % combinations.length], what = `${strategy} on ${count}`;
    fs.rmSync(folder, { recursive: true, force: true });
    const planned = ask('plan', file, '--devices', count, '--device', 'a100-sxm4-80gb', '--strategy', strategy, '--emit', folder, ...bound);
    if (planned.status === 0) line.plans++;
    else if (planned.status === 3) line.noFit++;
    else if (isLoaded || planned.isBroken) misses.push(`${what}: ${planned.status} ${planned.why}`);
    if (planned.status !== 0 || !isLoaded || isShort) continue;
    try {
      const result = await compare(file, isHalf, folder);
      line[result === 'equal' ? 'equal' : 'notRun']++;
      if (values.verbose && result !== 'equal') console.log(`# ${name}: ${result}`);
    } catch (error) {
      misses.push(`${what}: ${textOf(error)}`);
    }
  }
  return { ...line, misses };
}

const lines = [];
const temporary = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-real-')), folder = path.join(temporary, 'emitted');
let all = [];
try {
  const made = path.join(temporary, 'made');
  fs.mkdirSync(made);
  all = [...madeFiles(made), ...realFiles()].filter(({ name }) => name.includes(values.only ?? ''));
  for (const [number, file] of all.entries()) {
    const line = await examine(file, folder);
    lines.push(line);
    const why = line.misses.length ? explained.get(line.name) : null;
    console.log(`${line.misses.length && !why ? 'not ok' : 'ok'} ${number + 1} real ${line.name}${why ? ` # TODO ${why}` : ''}`);
    for (const miss of line.misses) console.log(`${why ? '#' : ' '} ${miss}`);
    line.isWrong = line.misses.length > 0 && !why;
  }
} finally {
  fs.rmSync(temporary, { recursive: true });
}
console.log('# file: shaped values; plans, none fits; equal, not run by the runtime; errors of check');
for (const { name, shaped, plans, noFit, equal, notRun, check } of lines) console.log(`# ${name}: ${shaped}; ${plans}, ${noFit}; ${equal}, ${notRun}; ${check}`);
const failed = lines.filter(({ isWrong }) => isWrong).length;
const missed = lines.filter(({ misses, isWrong }) => misses.length && !isWrong).length;
console.log(`# real_files: ${lines.length - failed - missed} passed, ${missed} missed as explained, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
