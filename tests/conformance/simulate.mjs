// Models and what they should compute, in the real ONNX Runtime.
//
//     node simulate.mjs LIST [PROCESSES] > RESULTS
//
// Each line of LIST is one run, as JSON:
//     name      of the run
//     model     the file to run
//     original  the file whose results are right: it runs once for each run of lines that have the same one and the
//               same inputs
//     inputs    TensorProto files of the inputs in `inputNames`
//     feeds     instead of them: {NAME: {"type", "dims", "below", "from" and "to", "fill" or "step"}}: made by a fixed generator
//     expected  TensorProto files that the original's own results are compared with, to be told; may be absent
//     containers  {NAME: {"isOptional", "isSequence"}} of the inputs that are no tensors; their files are SequenceProto
//               or OptionalProto
//     outputs   [{"name", "type"}]: what is compared; type is TensorProto.DataType; of a sequence "elem", and "count"
//               tensors
//     rtol, atol  1e-3 and 1e-6 unless given; shapesOnly: values are random
//
// Each line of RESULTS: {"name", "status", "why", "error"}. Status: "ok", "wrong", "refused" (the runtime does not load
// or run the model although it runs the original), "runtime" (it does not run the original either, or has no
// kernels for operators so old), "crashed" (the
// process died, and not on the original), "skipped" (the binding cannot feed or hand out the types). error is the
// largest relative error. "devices", where the models of the devices are beside the model (MODEL.TARGET.json, their
// manifest): [{"target", "status", "why", "counts"}], whose status is "ok", "wrong" or "passed over": the binding cannot
// take the inputs or the outputs, or the runtime has no kernels for operators so old. Runs are independent; a few processes share them, and one that dies is started again.
import { fork } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';
import { runDevices, withPrefix } from './device_run.mjs';
import { changeModel, difference, isFed, isReal, makeTensor, partsOf, readContainer, readTensor, toFeed } from './simulate_tensor.mjs';

const options = { graphOptimizationLevel: 'disabled', intraOpNumThreads: 1, interOpNumThreads: 1, executionMode: 'sequential',
  enableCpuMemArena: false, enableMemPattern: false, logSeverityLevel: 4 };

// The runtime takes two tensors of one shape for equally large where both have elements in bytes, also where one of them
// packs several elements in a byte, and gives the memory of this one to the other. In parallel it gives none away.
const packed = new Set([21, 22, 23, 25, 26]);
const inParallel = { ...options, executionMode: 'parallel', interOpNumThreads: 2 };

// Operator sets that are not released yet are taken too.
const env = { ...process.env, ALLOW_RELEASED_ONNX_OPSET_ONLY: '0' };

// Whom devices' models are written for.
export const targets = ['ort', 'tensorrt', 'sessions'];

/* ---- one run ---- */

const castOf = (name) => `${name}.as.float32`;

// The same values every time: whole numbers in [0, below), reals in [from, to), words.
export function generate(name, { type, dims, below = 2, from = -1, to = 1, fill, step }) {
  const size = dims.reduce((product, dim) => product * dim, 1);
  let state = [...name].reduce((hash, char) => Math.imul(hash ^ char.charCodeAt(0), 16777619) >>> 0, 2166136261);
  const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const values = Array.from({ length: size }, (_, i) => {
    if (fill !== undefined) return fill;
    if (step !== undefined) return i * step;
    return isReal(type) ? from + next() * (to - from) : Math.floor(next() * (type === 'string' ? 3 : below));
  });
  return makeTensor(type, dims, type === 'string' ? values.map((value) => 'abc'[value]) : values);
}

// The bytes to run and what to feed: { bytes, feeds, fetches }.
export function prepare(file, run) {
  const constants = new Map(), casts = new Map(), containers = new Map(), sequences = new Map(), feeds = {};
  for (const [name, feed] of Object.entries(run.feeds ?? {})) feeds[name] = generate(name, feed);
  for (const [index, input] of (run.inputs ?? []).entries()) {
    const name = run.inputNames[index], container = run.containers?.[name];
    if (container) {
      containers.set(name, { ...container, tensors: readContainer(input, container) });
      continue;
    }
    const tensor = readTensor(input);
    if (isFed(tensor.type)) feeds[run.inputNames[index]] = toFeed(tensor);
    else constants.set(run.inputNames[index], tensor);
  }
  for (const output of run.outputs) {
    if (output.count > 0) sequences.set(output.name, output);
    else if (!isFed(output.type)) casts.set(output.name, castOf(output.name));
  }
  const fetches = run.outputs.flatMap((output) => (output.count > 0 ? partsOf(output) : [casts.get(output.name) ?? output.name]));
  const isPacked = [...constants.values(), ...run.outputs].some(({ type }) => packed.has(type));
  const isChanged = constants.size + casts.size + containers.size + sequences.size > 0;
  const bytes = isChanged ? changeModel(fs.readFileSync(file), { constants, casts, containers, sequences }) : fs.readFileSync(file);
  return { bytes, feeds, fetches, isPacked, isChanged };
}

export async function compute(file, run) {
  const { bytes, feeds, fetches, isPacked } = prepare(file, run);
  const session = await ort.InferenceSession.create(bytes, isPacked ? inParallel : options);
  try {
    const results = await session.run(feeds, fetches);
    return fetches.map((name) => results[name]);
  } finally {
    await session.release();
  }
}

function firstDifference(actual, expected, run, largest) {
  for (const [index, output] of expected.entries()) {
    const why = difference(actual[index], output, run, largest);
    if (why) return `output '${run.outputs[index].name}': ${why}`;
  }
  return null;
}

const textOf = (error) => String(error.message ?? error).replace(/\s+/g, ' ').slice(0, 400);

// What is right: the results of the original, and how they compare with what was published.
async function referenceOf(run) {
  try {
    const results = await compute(run.original, run);
    const published = (run.expected ?? []).map(readTensor);
    const isPublished = published.length === results.length && published.every(({ type }) => isFed(type));
    const why = isPublished ? firstDifference(results, published.map(toFeed), { ...run, atol: 1e-5 }) : null;
    return { results, published: isPublished ? (why ?? 'same') : 'none' };
  } catch (error) {
    return { failure: textOf(error) };
  }
}

// The runtime has no kernels for most operators of sets before 7, which a simulation of such a node is written in too; and
// it cannot tell the type that a Cast before 6 gives.
const hasNoKernel = (why) => Number(why.match(/Could not find an implementation for \w+\((\d+)\)/)?.[1] ?? 7) < 7;
const isOld = (why) => hasNoKernel(why) || /Op \(Cast\) output arg .* type inference failed/.test(why);

async function runOne(run, reference) {
  if (reference.failure) return { status: 'runtime', why: reference.failure };
  const largest = { error: 0 };
  let results;
  try {
    results = await compute(run.model, run);
  } catch (error) {
    const why = textOf(error);
    if (isOld(why)) return { status: 'runtime', why: 'its simulation is of operators that are too old for the runtime' };
    return { status: 'refused', why, published: reference.published };
  }
  const why = firstDifference(results, reference.results, run, largest);
  return { status: why ? 'wrong' : 'ok', why, error: largest.error, published: reference.published };
}

// What the devices' models give together, for each target that they are there for, beside what the original gives.
async function runTargets(run, reference) {
  const results = [];
  for (const target of targets.filter((name) => fs.existsSync(`${run.model}.${name}.json`))) {
    const result = { target, status: 'passed over', why: reference.failure ?? 'the binding does not take the original as it is' };
    results.push(result);
    if (reference.failure) continue;
    try {
      const { feeds, isChanged } = prepare(run.original, run);
      if (isChanged) continue;
      const expected = Object.fromEntries(run.outputs.map(({ name }, i) => [name, reference.results[i]]));
      const { results: own, counts } = await runDevices(withPrefix(`${run.model}.${target}`), feeds, expected);
      const why = Object.entries(expected).map(([name, tensor]) => [name, difference(own[name], tensor, run)]).find(([, text]) => text);
      Object.assign(result, { counts, status: why ? 'wrong' : 'ok', why: why ? `output '${why[0]}': ${why[1]}` : null });
    } catch (error) {
      const why = textOf(error);
      Object.assign(result, { why, status: hasNoKernel(why) || why.startsWith('Non tensor type is') ? 'passed over' : 'wrong' });
    }
  }
  return results;
}

// A process that runs what it is sent: runs that have the original in common.
function work() {
  process.on('message', async ({ runs, skip }) => {
    process.send({ starts: 'original' });
    const reference = await referenceOf(runs[0]);
    for (let i = skip; i < runs.length; i++) {
      process.send({ starts: i });
      const result = await runOne(runs[i], reference);
      process.send({ result: { name: runs[i].name, ...result, devices: await runTargets(runs[i], reference) } });
    }
    process.send({ done: true });
  });
}

/* ---- all runs ---- */

function groupsOf(runs) {
  const groups = [];
  let last = null;
  for (const run of runs) {
    const key = JSON.stringify([run.original, run.inputs, run.feeds]);
    if (key !== last) groups.push([]);
    groups.at(-1).push(run);
    last = key;
  }
  return groups;
}

// Calls tell() with each result, in no particular order.
export async function simulate(runs, tell, processes = 2) {
  const groups = groupsOf(runs).map((group) => ({ runs: group, skip: 0 }));
  const here = fileURLToPath(import.meta.url);
  const serve = () => new Promise((resolve) => {
    let child = null, group = null, current = null;
    const next = () => {
      group = groups.shift() ?? null;
      if (!group) return child ? child.disconnect() : resolve();
      child ??= start();
      child.send(group);
    };
    const start = () => {
      const started = fork(here, ['--work'], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'], env });
      started.on('message', (message) => {
        if (message.starts !== undefined) current = message.starts;
        else if (message.result) tell(message.result);
        else next();
      });
      started.on('exit', () => {
        child = null;
        if (!group) return resolve();
        if (current === 'original') {
          for (const run of group.runs.slice(group.skip)) tell({ name: run.name, status: 'runtime', why: 'the runtime crashes on the original' });
        } else {
          tell({ name: group.runs[current].name, status: 'crashed', why: 'the runtime crashes' });
          if (current + 1 < group.runs.length) groups.unshift({ runs: group.runs, skip: current + 1 });
        }
        next();
      });
      return started;
    };
    next();
  });
  await Promise.all(Array.from({ length: processes }, serve));
}

// The lines of a list; one that a dying program left half written is passed over, which its next line tells.
export function readLines(file) {
  return fs.readFileSync(file, 'utf8').split('\n').flatMap((line) => {
    try {
      return [JSON.parse(line)];
    } catch {
      return [];
    }
  });
}

if (process.argv[2] === '--work') work();
else if (process.argv[1] && path.resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  await simulate(readLines(process.argv[2]), (result) => console.log(JSON.stringify(result)), Number(process.argv[3] ?? 2));
}
