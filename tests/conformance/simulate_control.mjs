// Models with control flow, split in many ways, in the real ONNX Runtime; TAP on standard output.
//
//     node simulate_control.mjs [--program PATH] [--only TEXT] [--seeds N] [--verbose]
//
// TEXT is a part of a model's name; N random ways for each number of devices. PATH is the built simulate_control,
// build/sanitized/tests/conformance/simulate_control unless given. A model fails when a simulation of it cannot be written,
// is refused by the runtime or computes something else than the original; when the runtime does not run the original;
// when nothing inside its graphs was ever split, unless it is said why; and an operator when a factor that its rule calls
// splittable was never split inside. With SIMULATE_KEEP=DIR failing simulations are kept there.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { readLines, simulate } from './simulate.mjs';
import { keep, readArguments, run } from './simulate_tools.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const values = {
  program: path.join(here, '../../build/sanitized/tests/conformance/simulate_control'),
  ...readArguments(['program', 'only', 'seeds'], ['verbose']) };

const models = new Map(), factors = new Map();
const get = (map, key, make) => map.get(key) ?? map.set(key, make()).get(key);
const newRow = () => ({ split: 0, whole: 0, failed: 0 });

// "split": some operator inside ran on a part.
const wayOf = (line, why) => (why ? 'failed' : line.cutInside > 0 ? 'split' : 'whole');

function add(line, result) {
  // What the runtime does not run as it is, it does not run whole either.
  const isAsItIs = line.same && line.controls === 0 && ['refused', 'crashed'].includes(result.status);
  const why = line.failure ?? (result.status === 'ok' || isAsItIs ? null : `${result.status}: ${result.why}`);
  const model = get(models, line.case, () => ({ ...newRow(), op: line.op, why: line.whole, failures: [] }));
  const way = wayOf(line, why);
  if (why) {
    keep(line, result);
    model.failures.push(`${line.name}: ${why}`);
  }
  model[way]++;
  for (const { op, factor, kind } of line.cuts) {
    // Where it is whole with a reason it says nothing of the operator.
    const row = get(factors, line.cuts.length === 1 ? `${op}\t${factor}\t${kind}` : `${op}\ttwo factors\t`, newRow);
    if (!line.whole) row[way]++;
  }
  if (values.verbose && way !== 'split') console.log(`# ${line.name}: ${why ?? `whole: ${(line.notes ?? []).map(({ message }) => message).join(' ') || 'no note'}`}`);
}

function report() {
  let number = 0, failed = 0;
  const total = newRow();
  const tap = (isOk, text, reasons) => {
    failed += !isOk;
    console.log(`${isOk ? 'ok' : 'not ok'} ${++number} ${text}`);
    for (const reason of reasons) console.log(`  ${reason}`);
  };
  for (const [name, model] of models) {
    const isSplit = model.split > 0 || Boolean(model.why);
    for (const key of Object.keys(total)) total[key] += model[key];
    const reasons = [...model.failures.slice(0, 6), ...(isSplit ? [] : ['nothing inside was split'])];
    tap(model.failed === 0 && isSplit, `simulate ${name}: ${model.split} split inside, ${model.whole} whole, ${model.failed} failed${model.why ? `; ${model.why}` : ''}`, reasons);
  }
  console.log('# operator\tfactor\tkind\tsplit\twhole\tfailed');
  for (const [key, row] of [...factors].sort(([a], [b]) => (a < b ? -1 : 1))) console.log(`# ${key}\t${row.split}\t${row.whole}\t${row.failed}`);
  for (const op of ['Loop', 'Scan']) {
    const rows = [...factors].filter(([key]) => key.startsWith(`${op}\t`));
    const never = rows.filter(([, row]) => row.split + row.failed === 0 && row.whole > 0).map(([key]) => `${key.replaceAll('\t', ' ')} was never split`);
    if (!values.only) tap(rows.length > 0 && never.length === 0, `simulate: factors of ${op} are split inside`, never);
  }
  console.log(`# simulate_control: ${models.size} models, ${total.split} simulations split inside, ${total.whole} whole, ${total.failed} failed`);
  return failed;
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-simulate-'));
try {
  const started = Date.now();
  run(values.program, folder, ...['only', 'seeds'].flatMap((name) => (values[name] ? [`--${name}`, values[name]] : [])));
  const written = Date.now();
  const lines = readLines(path.join(folder, 'list.jsonl'));
  const results = new Map();
  await simulate(lines.filter(({ failure }) => !failure), (result) => results.set(result.name, result));
  const lost = { status: 'lost', why: 'no result' };
  for (const line of lines) add(line, results.get(line.name) ?? lost);
  console.log(`# seconds: ${((written - started) / 1000).toFixed(1)} to write, ${((Date.now() - written) / 1000).toFixed(1)} to run`);
  process.exitCode = report() > 0 || lines.length === 0 ? 1 : 0;
} finally {
  fs.rmSync(folder, { recursive: true });
}
