// Every way of splitting the operators of ONNX's backend tests in the real ONNX Runtime; TAP on standard output.
//
//     node simulate_cases.mjs [--program PATH] [--cases FOLDER] [--only OPERATOR] [--case NAME] [--pairs all|some|none]
//         [--every N] [--further N] [--shares N] [--devices N] [--targets T] [--verbose]
//
// OPERATOR may be a whole domain, "com.microsoft.".
//
// PATH is the built simulate_cases, build/sanitized/tests/conformance/simulate_cases unless given; FOLDER has the unpacked
// onnx-backend-tests, which are unpacked each time unless given. The program splits and writes,
// simulate.mjs runs and compares, and here is said what came of it: a table of operators and factors, and a line of TAP
// for each operator. An operator fails when a simulation of it cannot be written, is refused by the runtime or computes
// something else than the original; and when a factor that may be split was whole in all that passed.
//
// With SIMULATE_KEEP=DIR each failing simulation is kept there as NAME.onnx, with NAME.original.onnx and NAME.json (the
// line of the list with what went wrong, the inputs' values among it). --verbose prints every run that is not "ok".
//
// Each factor is split; of the ways that follow the first one of each factor (more shards, two factors, rows), and of those
// of models of several nodes, one of --further N is run, of 3 unless given, all where a part of the cases is asked for.
// Of ways with shards of unequal size one of --shares N is run, of 24 unless given, all with SHARDPLAN_TEST_THOROUGH;
// "--every 1000000 --shares 1" runs these alone.
//
// The models of the devices of one of --devices simulations, of 11 unless given, run as their manifest says (device_run.mjs),
// for one of the targets in turn unless T names one or says "all", as with SHARDPLAN_TEST_THOROUGH. What they give together
// must be what the original gives, too. Not counted: what the runtime has no kernel for in old operator sets, and models
// whose inputs or outputs the binding cannot take.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { readLines, simulate, targets } from './simulate.mjs';
import { keep, readArguments, run } from './simulate_tools.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const data = process.env.SHARDPLAN_TEST_DATA ?? path.join(here, '../../../shared/data');
const archive = path.join(data, 'onnx-backend-tests.tar.gz');
const asked = readArguments(['program', 'cases', 'only', 'case', 'pairs', 'every', 'further', 'shares', 'devices', 'targets'], ['verbose']);
const values = {
  program: path.join(here, '../../build/sanitized/tests/conformance/simulate_cases'),
  shares: process.env.SHARDPLAN_TEST_THOROUGH ? '1' : '24',
  further: process.env.SHARDPLAN_TEST_THOROUGH || asked.only || asked.case || asked.every ? '1' : '3',
  devices: asked.only || asked.case ? '1' : '11',
  targets: process.env.SHARDPLAN_TEST_THOROUGH ? 'all' : 'turn',
  ...asked };

// What is a sample says nothing of a factor that is whole in all of it.
const sampled = new RegExp(['propagated|any way|scattered|in rows', ...(values.shares === '1' ? [] : ['in shares'])].join('|'));

/* ---- what came of it ---- */

// What ONNX Runtime 1.30 computes wrongly: a simulation of these cases that is "wrong" says nothing. The first is right
// where the values in between are outputs; the second is wrong in a model of the one node too (QuantizeLinear with a zero
// point of [3, 1] by the scales of axis 0).
const defects = [
  [/^test_cast(like)?_U?INT[24]_to_U?INT8/, 'casts a 2- or 4-bit tensor to 8 bits in its own memory, over elements that are still to be read'],
  [/^test_quantizelinear_u?int2-d1\.(4$|.*shares(3_1|1_2_1)$)/, 'packs rows of one 2-bit element over each other']];
const defectOf = (name) => defects.find(([pattern]) => pattern.test(name))?.[1];

const factorOf = (line) => line.cuts.map(({ family }) => family).join(' x ');
const kindsOf = (line) => line.cuts.map(({ kind }) => kind).join(' x ');

// Of these inputs only the shape is read, so a cut of them alone brings nothing anywhere.
const readsShapes = new Set(['EyeLike']);

// "split": the node ran on parts; "constant": its result is known, and no device runs it; "whole": it ran on all of it.
function wayOf(line) {
  if (line.ops === 0 || (line.cutParts === 0 && !line.isWhole && readsShapes.has(line.op))) return 'constant';
  return line.isWhole || line.cutParts === 0 ? 'whole' : 'split';
}

class Operator {
  rows = new Map();
  failures = [];
  unsupported = new Set();
  passed = 0;

  row(line) {
    const key = `${factorOf(line)}\t${kindsOf(line)}`;
    if (!this.rows.has(key)) this.rows.set(key, { split: 0, whole: 0, constant: 0, failed: 0, notes: new Set(), single: line.cuts.length === 1 });
    return this.rows.get(key);
  }

  add(line, result) {
    if (result.status === 'runtime' || result.status === 'skipped') {
      this.unsupported.add(result.why);
      return;
    }
    const row = this.row(line);
    const broken = (line.notes ?? []).find(({ code }) => code === 'LOCAL_FORM');
    if (broken) Object.assign(result, { status: 'failed', why: broken.message });
    if (result.status === 'ok') {
      this.passed++;
      row[wayOf(line)]++;
    } else {
      row.failed++;
      this.failures.push(`${line.name}: ${result.status}: ${result.why}`);
    }
    for (const note of line.notes ?? []) row.notes.add(`${note.code}: ${note.message}`);
  }

  // Factors that nobody has seen split although they may be.
  neverSplit() {
    return [...this.rows].filter(([key, row]) => row.single && !sampled.test(key) && row.whole > 0 && row.split === 0)
      .map(([key, row]) => `${key.replace('\t', ' (')}) was whole in all ${row.whole} simulations: ${[...row.notes].slice(0, 2).join(' ') || 'without a note'}`);
  }
}

function report(lines, results) {
  const operators = new Map();
  const of = (name) => operators.get(name) ?? operators.set(name, new Operator()).get(name);
  const published = new Map();
  for (const line of lines.filter((item) => item.cuts)) {
    const result = line.failure ? { status: 'failed', why: line.failure } : results.get(line.name) ?? { status: 'lost', why: 'no result' };
    if (result.status === 'wrong' && defectOf(line.name)) Object.assign(result, { status: 'runtime', why: `the runtime ${defectOf(line.name)}` });
    of(line.op).add(line, result);
    if (result.published && !['same', 'none'].includes(result.published)) published.set(line.case, result.published);
    if (result.status !== 'ok' && result.status !== 'runtime') keep(line, result);
    if (values.verbose && result.status !== 'ok') console.log(`# ${line.name}: ${result.status}: ${result.why}`);
    if (values.verbose && result.status === 'ok' && wayOf(line) === 'whole') console.log(`# ${line.name}: whole: ${(line.notes ?? []).map(({ message }) => message).join(' ') || 'no note'}`);
  }
  const skips = new Map();
  for (const { skip, case: name } of lines.filter((line) => line.skip)) skips.set(skip, [...(skips.get(skip) ?? []), name]);
  for (const [why, names] of skips) console.log(`# not simulated, ${why}: ${names.join(', ')}`);
  for (const [name, why] of published) console.log(`# the runtime does not compute what ${name} has: ${why}`);
  console.log('# operator\tfactor\tkind\tsplit\twhole\tconstant\tfailed');
  const sorted = [...operators].sort(([a], [b]) => (a < b ? -1 : 1));
  for (const [name, operator] of sorted) {
    for (const [key, row] of [...operator.rows].filter(([, { single }]) => single))
      console.log(`# ${name}\t${key}\t${row.split}\t${row.whole}\t${row.constant}\t${row.failed}`);
  }
  return sorted;
}

function tap(operators) {
  let failed = 0, number = 0, unsupported = 0;
  const total = { split: 0, whole: 0, constant: 0, failed: 0 };
  for (const [name, operator] of operators) {
    const sum = { split: 0, whole: 0, constant: 0, failed: 0 };
    for (const row of operator.rows.values()) for (const key of Object.keys(sum)) sum[key] += row[key];
    for (const key of Object.keys(sum)) total[key] += sum[key];
    const never = operator.neverSplit();
    const isOk = sum.failed === 0 && never.length === 0;
    if (operator.rows.size === 0) {
      unsupported++;
      console.log(`ok ${++number} simulate ${name} # SKIP the runtime: ${[...operator.unsupported][0]}`);
      continue;
    }
    failed += !isOk;
    console.log(`${isOk ? 'ok' : 'not ok'} ${++number} simulate ${name}: ${sum.split} split, ${sum.whole} whole, ${sum.constant} constant, ${sum.failed} failed`);
    for (const why of [...never, ...operator.failures.slice(0, 8)]) console.log(`  ${why}`);
    if (operator.failures.length > 8) console.log(`  and ${operator.failures.length - 8} more`);
    for (const why of operator.unsupported) console.log(`# some cases of ${name} do not run in the runtime: ${why}`);
  }
  console.log(`# simulate_cases: ${operators.length} operators, ${failed} failed, ${unsupported} that the runtime does not have; ` +
    `${total.split} simulations split, ${total.whole} whole, ${total.constant} constant, ${total.failed} failed`);
  console.log(`# simulate_cases: ${inShares(operators)}`);
  return failed;
}

// Of what is run in shards of unequal size alone: factors of operators, and simulations of them.
function inShares(operators) {
  const rows = operators.flatMap(([, operator]) => [...operator.rows]).filter(([key, { single }]) => single && key.endsWith('\tin shares')).map(([, row]) => row);
  const sum = (key) => rows.reduce((all, row) => all + row[key], 0);
  return `${rows.length} factors in shares of 3/1, 2/1 or 1/2/1, ${rows.filter(({ split }) => split > 0).length} of them split somewhere; ` +
    `${sum('split')} simulations split, ${sum('whole')} whole, ${sum('constant')} constant, ${sum('failed')} failed`;
}

/* ---- the table of contrib operators ---- */

// Of types that a kernel is registered for; one of float16 alone is tried with casts to float32, which the operator refuses.
const noKernel = /Could not find an implementation|Failed to find kernel|InsertedPrecisionFreeCast/;

// Each operator of com.microsoft: computed on pieces and equal, or why not. One that no case has is a failure.
function contribTable(operators) {
  const found = new Map(operators.map(([name, operator]) => [name.replace(/^com\.microsoft\./, ''), operator]).filter(([name], i) => operators[i][0] !== name));
  const lines = fs.readFileSync(path.join(here, 'contrib_operators.txt'), 'utf8').split('\n').filter((line) => line && !line.startsWith('#'));
  const count = { equal: 0, 'no kernel': 0, 'not computed': 0, missing: 0 };
  for (const line of lines) {
    const [, name, excuse] = line.match(/^(\w+)(?:: (.*))?$/);
    const operator = found.get(name);
    const sum = (key) => [...operator.rows.values()].reduce((total, row) => total + row[key], 0);
    let state = excuse ? 'not computed' : 'missing', detail = excuse ?? [...(operator?.unsupported ?? [])][0] ?? 'no case';
    if (operator?.passed > 0 && operator.failures.length === 0) [state, detail] = ['equal', `${sum('split')} simulations split, ${sum('whole')} whole`];
    else if (operator && [...operator.unsupported].every((why) => noKernel.test(why)) && operator.rows.size === 0) [state, detail] = ['no kernel', 'the runtime has none on a CPU'];
    count[state]++;
    console.log(`# contrib\t${name}\t${state}\t${detail}`);
  }
  const summary = Object.entries(count).map(([state, number]) => `${number} ${state}`).join(', ');
  console.log(`${count.missing ? 'not ok' : 'ok'} simulate: ${lines.length} operators of com.microsoft: ${summary}`);
  return count.missing;
}

// For each target, what the devices' models gave; how many targets failed.
function reportDevices(lines, results) {
  const all = lines.flatMap(({ name }) => (results.get(name)?.devices ?? []).map((result) => ({ name, ...result })));
  const isPart = asked.only !== undefined || asked.case !== undefined;
  return targets.filter((target) => !targets.includes(values.targets) || target === values.targets).filter((target) => {
    const own = all.filter((result) => result.target === target), count = (status) => own.filter((result) => result.status === status).length;
    const isFine = count('wrong') === 0 && (count('ok') > 0 || isPart);
    console.log(`${isFine ? 'ok' : 'not ok'} operators on devices, ${target}: ${count('ok')} right, ${count('wrong')} wrong, ${count('passed over')} passed over`);
    for (const { name, why } of own.filter(({ status }) => status === 'wrong')) console.log(`  ${name}: ${why}`);
    return !isFine;
  }).length;
}

// A product in the place of a difference has to be found wrong, or nothing above says anything.
async function canary(folder) {
  const file = (name, rest) => path.join(folder, 'onnx-backend-tests/node', name, rest);
  const run = { name: 'canary', model: file('test_mul_uint64', 'model.onnx'), original: file('test_sub_uint64', 'model.onnx'), inputNames: ['x', 'y'],
    inputs: [0, 1].map((i) => file('test_sub_uint64', `test_data_set_0/input_${i}.pb`)), outputs: [{ name: 'z', type: 13 }] };
  let status = 'lost';
  await simulate([run], (result) => ({ status } = result), 1);
  console.log(`${status === 'wrong' ? 'ok' : 'not ok'} simulate: what is wrong is seen (${status})`);
  return status === 'wrong' ? 0 : 1;
}

/* ---- main ---- */

if (!fs.existsSync(archive)) {
  console.log(`ok simulate_cases # SKIP ${archive} is not there`);
} else {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-simulate-'));
  try {
    const started = Date.now();
    if (values.cases) fs.symlinkSync(path.join(values.cases, 'onnx-backend-tests'), path.join(folder, 'onnx-backend-tests'));
    else run('tar', '-xzf', archive, '-C', folder);
    const args = ['only', 'case', 'pairs', 'every', 'further', 'shares', 'devices', 'targets'].flatMap((name) => (values[name] ? [`--${name}`, values[name]] : []));
    process.stdout.write(run(values.program, folder, ...args));
    const written = Date.now();
    const lines = readLines(path.join(folder, 'list.jsonl'));
    const results = new Map();
    await simulate(lines.filter((line) => line.cuts && !line.failure), (result) => results.set(result.name, result));
    console.log(`# seconds: ${((written - started) / 1000).toFixed(1)} to write, ${((Date.now() - written) / 1000).toFixed(1)} to run`);
    const operators = report(lines, results);
    let failed = tap(operators);
    failed += reportDevices(lines, results);
    if (!values.case && !values.every && (values.only ?? 'com.microsoft.') === 'com.microsoft.') failed += contribTable(operators);
    process.exitCode = failed + (await canary(folder)) ? 1 : 0;
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}
