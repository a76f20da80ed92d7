// Annotated models in the real ONNX Runtime; TAP on standard output.
//
// For every model and 2 and 8 devices (where SHARDPLAN_TEST_THOROUGH is set, 1 and 4, too): `shardplan plan -o` writes the annotated model; the runtime takes it exactly as
// it takes the original, and computes the same bits; `shardplan strip` gives back the original bytes. Models whose weights
// are external and absent get files of zeros (holes, no disk) so that they load; they are loaded, not run.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';
import { externalFiles } from './wire.mjs';

const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const recount = path.join(top, 'tests/tools/recount.py');
const cli = process.env.SHARDPLAN ?? path.join(top, 'build/api/cli/shardplan');
const shared = process.env.SHARDPLAN_TEST_DATA ?? path.join(top, '../shared/data');
const device = 'a100-sxm4-80gb';
const counts = process.env.SHARDPLAN_TEST_THOROUGH ? [1, 2, 4, 8] : [2, 8];
const optimizations = ['disabled', 'all'];
const symbols = { batch: 2 }; // extents of symbolic input dimensions; others are 16

let failed = 0;
function report(name, test) {
  return Promise.resolve().then(test).then(
    () => console.log(`ok ${name}`),
    (error) => {
      failed++;
      const detail = `${error.stderr ?? ''}${error.message}`.trim();
      console.log(`not ok ${name}\n${detail.replace(/^/gm, '  ')}`);
    });
}

function models() {
  const folders = [path.join(top, 'tests/data'), path.join(shared, 'models'), path.join(shared, 'onnx-light')];
  return folders.filter((folder) => fs.existsSync(folder)).flatMap((folder) =>
    fs.readdirSync(folder).filter((name) => name.endsWith('.onnx')).sort().map((name) => path.join(folder, name)));
}

function load(file, optimization) {
  return ort.InferenceSession.create(file, {
    graphOptimizationLevel: optimization, intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 4 });
}

// The same inputs every time: small integers that every vocabulary has, reals in [-1, 1).
function feeds(session) {
  const result = {};
  for (const { name, type, shape } of session.inputMetadata) {
    const dims = shape.map((dim) => (typeof dim === 'number' && dim >= 0 ? dim : symbols[dim] ?? 16));
    const size = dims.reduce((product, dim) => product * dim, 1);
    if (type === 'int64') {
      const modulus = /id/.test(name) ? 61n : 2n;
      result[name] = new ort.Tensor(type, BigInt64Array.from({ length: size }, (_, i) => (BigInt(i) * 7n + 3n) % modulus), dims);
    } else if (type === 'float32') {
      let state = 12345;
      const next = () => ((state = (Math.imul(state, 1103515245) + 12345) >>> 0) / 2 ** 31) - 1;
      result[name] = new ort.Tensor(type, Float32Array.from({ length: size }, next), dims);
    } else {
      throw new Error(`no inputs of type ${type}`);
    }
  }
  return result;
}

async function compute(file, optimization) {
  const session = await load(file, optimization);
  const outputs = await session.run(feeds(session));
  await session.release();
  return Object.entries(outputs).map(([name, { type, dims, data }]) =>
    ({ name, type, dims, bytes: Buffer.from(data.buffer, data.byteOffset, data.byteLength) }));
}

function expectSame(expected, actual) {
  const head = (outputs) => JSON.stringify(outputs.map(({ name, type, dims }) => ({ name, type, dims })));
  if (head(expected) !== head(actual)) throw new Error(`outputs differ: ${head(expected)} and ${head(actual)}`);
  for (const [index, { name, bytes }] of expected.entries()) {
    if (bytes.length === 0) throw new Error(`output ${name} is empty: nothing was compared`);
    if (!bytes.equals(actual[index].bytes)) throw new Error(`output ${name} has other bits`);
  }
}

// What creating a session does: its inputs and outputs, or its refusal.
async function behaviour(file) {
  try {
    const session = await load(file, 'disabled');
    const result = JSON.stringify([session.inputMetadata, session.outputMetadata]);
    await session.release();
    return { loads: true, result };
  } catch (error) {
    return { loads: false, result: error.message };
  }
}

async function checkModel(file, folder) {
  const original = fs.readFileSync(file);
  const external = externalFiles(original);
  const label = path.relative(top, file).replace(/^.*shared\/data\//, '');
  const runs = external.size === 0 && !file.includes('onnx-light');
  for (const [name, size] of external) {
    fs.closeSync(fs.openSync(path.join(folder, name), 'w'));
    fs.truncateSync(path.join(folder, name), size);
  }
  // External data is looked up beside the model: original and annotated both live in the temporary folder.
  const copy = path.join(folder, 'original.onnx');
  fs.writeFileSync(copy, original);
  const expected = {};
  if (runs) for (const level of optimizations) expected[level] = await compute(copy, level);
  const wanted = runs ? null : await behaviour(copy);
  if (wanted) await report(`original loads: ${label}`, () => { if (!wanted.loads) throw new Error(wanted.result); });

  for (const count of counts) {
    const name = `${label} on ${count}`;
    const annotated = path.join(folder, 'annotated.onnx');
    const stripped = path.join(folder, 'stripped.onnx');
    for (const old of [annotated, stripped]) fs.rmSync(old, { force: true });
    await report(`plan: ${name}`, () => {
      const plan = path.join(folder, 'plan.json');
      execFileSync(cli, ['plan', copy, '--device', device, '--devices', String(count), '--replicas', '1', '-o', annotated, '--plan', plan],
        { stdio: 'pipe' });
      execFileSync('python3', [recount, plan, copy], { stdio: ['ignore', 'inherit', 'inherit'] });
      if (fs.readFileSync(annotated).equals(original)) throw new Error('nothing was annotated');
    });
    if (!fs.existsSync(annotated)) continue;
    await report(`strip gives the original back: ${name}`, () => {
      execFileSync(cli, ['strip', annotated, '-o', stripped], { stdio: 'pipe' });
      if (!fs.readFileSync(stripped).equals(original)) throw new Error('the bytes differ');
    });
    if (wanted) {
      await report(`loads as the original: ${name}`, async () => {
        const actual = await behaviour(annotated);
        if (actual.loads !== wanted.loads || actual.result !== wanted.result) throw new Error(actual.result);
      });
    } else {
      for (const level of optimizations) {
        await report(`same bits, optimization ${level}: ${name}`, async () =>
          expectSame(expected[level], await compute(annotated, level)));
      }
    }
  }
}

for (const file of models()) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-conformance-'));
  try {
    await checkModel(file, folder);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}
process.exitCode = failed ? 1 : 0;
