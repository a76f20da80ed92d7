// Complete models split in many ways in the real ONNX Runtime; TAP on standard output.
//
//     node simulate_models.mjs [--program PATH] [--only TEXT] [--seeds N] [--nodes FIRST-LAST] [--devices N] [--targets T] [--verbose]
//
// TEXT is a part of a name; of random ways there are N of each kind, and only the nodes FIRST to LAST are split.
// PATH is the built simulate_models, build/sanitized/tests/conformance/simulate_models unless given. Each way of splitting
// must compute what the model does, to 1e-4, exchange what is expected where that is said, and give every device the bytes of weights that its shardings say: exactly
// those that are stated or inferred, and of those that are only assumed whole as much as it needs; as many as the plan says where it is
// one of blocks. With SIMULATE_KEEP=DIR
// failing simulations are kept there.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { readLines, simulate } from './simulate.mjs';
import { keep, readArguments, run } from './simulate_tools.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const asked = readArguments(['program', 'only', 'seeds', 'nodes', 'devices', 'targets'], ['verbose']);
const thorough = Boolean(process.env.SHARDPLAN_TEST_THOROUGH);
const values = {
  devices: thorough || asked.only ? '1' : '4', targets: thorough ? 'all' : 'turn',
  program: path.join(here, '../../build/sanitized/tests/conformance/simulate_models'),
  ...asked };

// A node that cannot be split as it is stated needs more than its part.
const needsMore = new Set(['FACTOR_WHOLE', 'OPERANDS_DISAGREE', 'SHARDS_UNEVEN']);

function weightsOf({ told, stated, assumed, notes }) {
  const isMore = notes.some(({ code }) => needsMore.has(code));
  const wrong = told.findIndex((bytes, device) => bytes < stated[device] || (!isMore && bytes > stated[device] + assumed[device]));
  return wrong < 0 ? null : `device ${wrong} is told ${told[wrong]} bytes of weights instead of ${stated[wrong]} to ${stated[wrong] + assumed[wrong]}`;
}

// A plan promises the weights that a device gets. It counts the shapes and indices that become constants, too.
function planWrong({ told, planned }) {
  const wrong = planned === undefined ? -1 : told.findIndex((bytes, device) => bytes > planned[device] || planned[device] > bytes * 1.02 + 1024);
  return wrong < 0 ? null : `device ${wrong} is told ${told[wrong]} bytes of weights, the plan says ${planned[wrong]}`;
}

const exchangesOf = (line) => Object.entries(line.exchanges).map(([kind, count]) => `${count} ${kind}`).join(', ');

// Slicing what is there is no communication.
function exchangesWrong({ exchanges, expectedExchanges }) {
  const { 'all-slice': slices, ...others } = exchanges;
  const found = exchangesOf({ exchanges: others });
  return expectedExchanges === undefined || expectedExchanges === found ? null : `the devices exchange '${found}' instead of '${expectedExchanges}'`;
}

function summary(line) {
  return `${line.ops} operators, ${exchangesOf(line) || 'no exchanges'}; weights ${line.told.join(', ')}`;
}

function report(line, result, number) {
  const why = line.failure ?? (result.status === 'ok' ? weightsOf(line) ?? exchangesWrong(line) ?? planWrong(line) : `${result.status}: ${result.why}`);
  if (why) keep(line, result);
  const detail = line.failure ? '' : `: ${line.isLarge ? 'not run' : `error ${(result.error ?? NaN).toExponential(1)}`}, ${summary(line)}`;
  console.log(`${why ? 'not ok' : 'ok'} ${number} simulate ${line.name}${detail}`);
  if (why) console.log(`  ${why}`);
  const notes = new Map();
  for (const { code, message } of line.notes ?? []) notes.set(code, [...(notes.get(code) ?? []), message]);
  for (const [code, messages] of notes) console.log(`# ${line.name}: ${messages.length} ${code}, e.g. ${messages[0]}`);
  if (values.verbose) for (const { code, message } of line.notes ?? []) console.log(`#   ${code}: ${message}`);
  return !why;
}

// Lines of TAP for the devices' models; how many there are, and how many are right.
function reportDevices(lines, results) {
  const all = lines.flatMap(({ name }) => (results.get(name)?.devices ?? []).map((result) => ({ name, ...result })));
  for (const [i, { name, target, status, why, counts }] of all.entries()) {
    if (status === 'ok') console.log(`ok ${i + 1} devices ${name}, ${target}: ${counts.models} models in ${counts.sessions} turns, ${counts.collectives} collectives`);
    else console.log(`not ok ${i + 1} devices ${name}, ${target}\n  ${status}: ${why}`);
  }
  return { count: all.length, passed: all.filter(({ status }) => status === 'ok').length };
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-simulate-'));
try {
  const started = Date.now();
  run(values.program, folder, '--large', 'yes', ...['only', 'seeds', 'nodes', 'devices', 'targets'].flatMap((name) => (values[name] ? [`--${name}`, values[name]] : [])));
  const written = Date.now();
  const lines = readLines(path.join(folder, 'list.jsonl'));
  const results = new Map();
  await simulate(lines.filter((line) => !line.failure && !line.isLarge), (result) => results.set(result.name, result));
  // Large models have no weights to compute with.
  for (const { name } of lines.filter(({ isLarge }) => isLarge)) results.set(name, { status: 'ok' });
  const lost = { status: 'lost', why: 'no result' };
  const passed = lines.filter((line, i) => report(line, results.get(line.name) ?? lost, i + 1)).length;
  const devices = reportDevices(lines, results);
  const isMissing = values.devices !== '0' && devices.count === 0 && lines.some(({ failure, isLarge }) => !failure && !isLarge);
  if (isMissing) console.log('not ok devices: no models are there');
  if (lines.length === 0) console.log('ok simulate_models # SKIP the models are not there');
  console.log(`# simulate_models: ${passed} passed, ${lines.length - passed} failed; ` +
    `devices' models: ${devices.passed} passed, ${devices.count - devices.passed} failed; seconds: ` +
    `${((written - started) / 1000).toFixed(1)} to write, ${((Date.now() - written) / 1000).toFixed(1)} to run`);
  process.exitCode = passed < lines.length || devices.passed < devices.count || isMissing ? 1 : 0;
} finally {
  fs.rmSync(folder, { recursive: true });
}
