// What `shardplan plan --emit` writes of small models, in the real ONNX Runtime; TAP on standard output.
//
//     node plan_models.mjs [--cases FOLDER] [--only TEXT] [--every N] [--verbose]
//
// ONNX's backend cases and the models of tests/fuzz/corpus/plan are planned on 1, 2, 3, 4 and 8 devices that are so slow
// that splitting the smallest operator pays. No plan may end with status 4 or with a signal or come of a search that
// failed in part, and the simulation must compute what the model does. A part of the cases runs, every N-th one and
// those that take sequences or optionals, and all with SHARDPLAN_TEST_THOROUGH=1; of TEXT only those whose name has it.
// FOLDER has the unpacked onnx-backend-tests.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { simulate } from './simulate.mjs';
import { readContainer } from './simulate_tensor.mjs';
import { keep, readArguments, run } from './simulate_tools.mjs';
import { fields } from './wire.mjs';

const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const cli = process.env.SHARDPLAN ?? path.join(top, 'build/api/cli/shardplan');
const data = process.env.SHARDPLAN_TEST_DATA ?? path.join(top, '../shared/data');
const archive = path.join(data, 'onnx-backend-tests.tar.gz');
const corpus = path.join(top, 'tests/fuzz/corpus/plan');
const values = { every: process.env.SHARDPLAN_TEST_THOROUGH ? '1' : '16', ...readArguments(['cases', 'only', 'every'], ['verbose']) };
const counts = [1, 2, 3, 4, 8];

// What ONNX Runtime 1.30 computes wrongly (simulate_cases.mjs): a cast of 2 or 4 bits to 8 in its own memory, and rows of
// one 2-bit element.
const defects = /^test_cast(like)?_U?INT[24]_to_U?INT8|^test_quantizelinear_u?int2 on [48]$/;

/* ---- models ---- */

// The model's inputs that have no default, its outputs, and whether what it gives is random.
function interfaceOf(bytes) {
  const graph = [...fields(bytes)].findLast(([number]) => number === 7)?.[1] ?? Buffer.alloc(0);
  const found = { inputs: [], outputs: [], isRandom: false }, weights = new Set();
  for (const [number, payload] of fields(graph)) {
    if (![1, 5, 11, 12].includes(number)) continue;
    const parts = [...fields(payload)];
    const textOf = (field) => parts.find(([other]) => other === field)?.[1]?.toString() ?? '';
    if (number === 1) found.isRandom ||= /Random|Bernoulli|Multinomial|Dropout/.test(textOf(4));
    else if (number === 5) weights.add(textOf(8));
    else if (number === 11 || number === 12) found[number === 11 ? 'inputs' : 'outputs'].push(valueOf(parts, textOf(1)));
  }
  found.inputs = found.inputs.filter(({ name }) => !weights.has(name));
  return found;
}

// Name, type and extents in a ValueInfoProto; -1 for an extent that is no number. Of what is a sequence or an optional
// (of a tensor or a sequence) that it is, and the type of its tensors.
function valueOf(parts, name) {
  const inside = (message, field) => [...fields(message ?? Buffer.alloc(0))].find(([other]) => other === field)?.[1];
  const type = parts.find(([field]) => field === 2)?.[1], tensor = inside(type, 1), optional = inside(type, 9);
  const sequence = inside(optional ? inside(optional, 1) : type, 4), elem = inside(inside(sequence ? inside(sequence, 1) : inside(optional, 1), 1), 1);
  const container = optional || sequence ? { isOptional: Boolean(optional), isSequence: Boolean(sequence) } : undefined;
  const dims = [...fields(inside(tensor, 2) ?? Buffer.alloc(0))].filter(([field]) => field === 1).map(([, dim]) => Number(inside(dim, 1) ?? -1));
  return { name, type: Number(inside(tensor, 1) ?? 0), dims, container, elem: Number(elem ?? 0) };
}

function* backendCases(folder) {
  for (const set of fs.readdirSync(path.join(folder, 'onnx-backend-tests')).sort())
    for (const name of fs.readdirSync(path.join(folder, 'onnx-backend-tests', set)).sort()) {
      const home = path.join(folder, 'onnx-backend-tests', set, name), inputs = path.join(home, 'test_data_set_0');
      if (!fs.existsSync(path.join(home, 'model.onnx'))) continue;
      const { inputs: taken, outputs, isRandom } = interfaceOf(fs.readFileSync(path.join(home, 'model.onnx')));
      const count = fs.existsSync(inputs) ? fs.readdirSync(inputs).filter((file) => file.startsWith('input_')).length : 0;
      const containers = Object.fromEntries(taken.filter((input) => input.container).map((input) => [input.name, input.container]));
      for (const [i, output] of outputs.entries())
        if (output.container?.isSequence) output.count = readContainer(path.join(inputs, `output_${i}.pb`), output.container).length;
      yield { name, file: path.join(home, 'model.onnx'), outputs, containers, shapesOnly: isRandom,
        inputNames: taken.slice(0, count).map((input) => input.name), inputs: Array.from({ length: count }, (_, i) => path.join(inputs, `input_${i}.pb`)) };
    }
}

const typeNames = { 1: 'float32', 6: 'int32', 7: 'int64', 9: 'bool', 11: 'float64' };

function* corpusCases() {
  for (const name of fs.existsSync(corpus) ? fs.readdirSync(corpus).sort() : []) {
    const file = path.join(corpus, name), { inputs, outputs, isRandom } = interfaceOf(fs.readFileSync(file));
    const feeds = Object.fromEntries(inputs.map(({ name: input, type, dims }) => [input, { type: typeNames[type], dims: dims.map((dim) => Math.max(dim, 0)) }]));
    yield { name: `corpus ${name}`, file, outputs, shapesOnly: isRandom, feeds };
  }
}

/* ---- plans ---- */

function clusterFile(folder, count) {
  const device = { name: 'slow', memory_bytes: 1e12, memory_bandwidth: 1e12, flops: { float32: 1e7 } };
  const file = path.join(folder, `cluster-${count}.json`);
  fs.writeFileSync(file, JSON.stringify({ groups: [{ name: 'slow', count, device }], mesh: [{ name: 'link', size: count, bandwidth: 1e12, latency: 1e-7 }] }));
  return file;
}

// { status } of the command, or { failure }, or { line } for the simulation.
function plan(folder, item, count) {
  const out = path.join(folder, 'out'), kept = path.join(folder, `${item.name.replace(/\W+/g, '_')}-${count}.onnx`);
  fs.rmSync(out, { recursive: true, force: true });
  const { status, signal, stderr } = spawnSync(cli, ['plan', item.file, '--cluster', path.join(folder, `cluster-${count}.json`), '--replicas', '1', '--emit', out], { encoding: 'utf8' });
  const said = stderr.trim().split('\n').at(-1).slice(0, 300);
  if (signal || status === 4 || status === 2 || status === null) return { failure: `${signal ?? `status ${status}`}: ${said}` };
  if (status !== 0) return { refused: said.match(/\[(\w+)\]/)?.[1] ?? said };
  const found = JSON.parse(fs.readFileSync(path.join(out, 'plan.json'), 'utf8')).diagnostics.find(({ code }) => code === 'SEARCH_FAILED');
  if (found) return { failure: found.message };
  fs.renameSync(path.join(out, 'simulation.onnx'), kept);
  return { line: { ...item, case: item.name, count, name: `${item.name} on ${count}`, model: kept, original: item.file } };
}

// What went wrong, by model: one line for all numbers of devices.
class Faults {
  lines = new Map();
  add(name, count, why) {
    const key = `${name}: ${why}`;
    this.lines.set(key, [...(this.lines.get(key) ?? []), count]);
  }
  report(name, total, counted) {
    console.log(`${this.lines.size ? 'not ok' : 'ok'} plan ${name}: ${total} plans, ${counted}`);
    for (const [why, counts] of this.lines) console.log(`  on ${counts.sort().join(', ')}: ${why}`);
    return this.lines.size;
  }
}

async function check(folder, name, cases) {
  const faults = new Faults(), lines = [], refused = new Map(), statuses = new Map();
  for (const item of cases)
    for (const count of counts) {
      const { failure, refused: code, line } = plan(folder, item, count);
      if (failure) faults.add(item.name, count, failure);
      else if (code) refused.set(code, (refused.get(code) ?? 0) + 1);
      else lines.push(line);
    }
  await simulate(lines, (result) => {
    const line = lines.find((item) => item.name === result.name);
    const status = result.status === 'wrong' && defects.test(line.name) ? 'runtime' : result.status;
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    if (['wrong', 'refused', 'crashed'].includes(status)) {
      faults.add(line.case, line.count, `${status}: ${result.why}`);
      keep(line, result);
    } else if (values.verbose && status !== 'ok') console.log(`# ${result.name}: ${status}: ${result.why}`);
  });
  const countsOf = (map) => [...map].map(([key, count]) => `${count} ${key}`).join(', ') || 'none';
  return faults.report(name, cases.length * counts.length, `simulations: ${countsOf(statuses)}; not planned: ${countsOf(refused)}`);
}

/* ---- main ---- */

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-plan-'));
try {
  for (const count of counts) clusterFile(folder, count);
  const isAsked = ({ name }) => !values.only || name.includes(values.only);
  let failed = await check(folder, 'own models', [...corpusCases()].filter(isAsked));
  if (!fs.existsSync(archive) && !values.cases) {
    console.log(`ok plan backend cases # SKIP ${archive} is not there`);
  } else {
    if (!values.cases) run('tar', '-xzf', archive, '-C', folder);
    const all = [...backendCases(values.cases ?? folder)].filter((item, i) =>
      isAsked(item) && (values.only || Object.keys(item.containers).length > 0 || i % Number(values.every) === 0));
    failed += await check(folder, 'backend cases', all);
  }
  process.exitCode = failed ? 1 : 0;
} finally {
  fs.rmSync(folder, { recursive: true });
}
