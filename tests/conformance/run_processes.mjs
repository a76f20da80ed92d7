// Plans run by api/examples/run, a process for each device with its own ONNX Runtime: several requests at once must give
// what the original gives in this process; what an exchange of each kind gives; that the others say who is gone when a
// process is killed; that models and manifests of different plans are refused. TAP on standard output.
//
//     node run_processes.mjs [--only TEXT] [--verbose]
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';
import { checkStates } from '../../api/examples/run/manifest.mjs';
import { measure, start, RANK } from '../../api/examples/run/run.mjs';
import { difference } from './simulate_tensor.mjs';
import { readArguments } from './simulate_tools.mjs';
import { fillWeights } from './wire.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const cli = process.env.SHARDPLAN ?? path.join(here, '../../build/api/cli/shardplan');
const models = path.join(process.env.SHARDPLAN_TEST_DATA ?? path.join(here, '../../../shared/data'), 'models');
const thorough = !!process.env.SHARDPLAN_TEST_THOROUGH;
const values = readArguments(['only'], ['verbose']);
const options = { graphOptimizationLevel: 'disabled', intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 4 };
const REQUESTS = 6, LARGE = 2; // at once

function shell(...words) {
  const { status, stdout, stderr } = spawnSync(cli, words, { encoding: 'utf8', maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`${words[0]} ends with ${status}: ${stderr}`);
  return stdout;
}
const write = (file, value) => (fs.writeFileSync(file, JSON.stringify(value)), file);

/* ---- plans ---- */

// So slow that splitting the smallest operator pays.
const device = { name: 'slow', memory_bytes: 1e9, memory_bandwidth: 1e9, flops: { float32: 1e7 } };
const clusterOf = (...levels) => ({ runtime: 'generic', launch_seconds: 1e-9, groups: [{ count: levels.reduce((all, [, size]) => all * size, 1), device }],
  mesh: levels.map(([name, size]) => ({ name, size, bandwidth: 1e10, latency: 1e-7 })) });
const unequal = { runtime: 'generic', launch_seconds: 1e-9, groups: [3, 1].map((speed) => ({ count: 1, device: { name: `of speed ${speed}`, memory_bytes: 1e9, memory_bandwidth: speed * 1e8, flops: { float32: speed * 1e9 } } })),
  mesh: [{ name: 'net', size: 2, bandwidth: 1e10, latency: 1e-8 }] };
const tensor = ['--strategy', 'tensor', '--objective', 'latency'];
const layouts = {
  'tensor 2': { cluster: clusterOf(['gpu', 2]), words: tensor, keepsBatch: true },
  'tensor 4': { cluster: clusterOf(['gpu', 4]), words: tensor, keepsBatch: true },
  'pipeline 2': { cluster: clusterOf(['gpu', 2]), words: ['--strategy', 'pipeline'] },
  'pipeline 4': { cluster: clusterOf(['gpu', 4]), words: ['--strategy', 'pipeline'] },
  '2 x 2': { cluster: clusterOf(['node', 2], ['gpu', 2]), words: ['--replicas', '1'], constraints: { max_stages: 2, forbid: [{ level: 'node' }] }, keepsBatch: true },
  'copies': { cluster: clusterOf(['gpu', 2]), words: [], copies: 2 },
  'routes': { cluster: { groups: [['a100-sxm4-40gb', 1], ['l4-24gb', 2]].map(([name, count]) => ({ name, count, device: name })), mesh: [{ name: 'net', size: 3, bandwidth: 1.25e9, latency: 1e-7 }] },
    words: ['--strategy', 'routes'], routes: true },
  'unequal shares': { cluster: unequal, words: tensor, keepsBatch: true } };
const everyday = ['llama_tiny, 2 x 2', 'moe_tiny, tensor 2', 'moe_tiny, copies', 'bert_tiny, unequal shares', 'llama_tiny, routes', 'resnet50, pipeline 2'];
const others = ['bert_tiny', 'llama_tiny', 'moe_tiny', 'resnet50'].flatMap((name) => Object.keys(layouts).map((layout) => `${name}, ${layout}`))
  .filter((name) => !everyday.includes(name) && !['resnet50, copies', 'resnet50, routes'].includes(name));

// Where requests are what is easiest to split, what the devices exchange is not seen: these stay together.
function keepBatch(model) {
  const { inputs, values: all } = JSON.parse(shell('inspect', model, '--values', '--json'));
  const batch = inputs[0].shape[0], names = new Set(inputs.map(({ name }) => name));
  for (const [name, { shape }] of Object.entries(all)) if (shape?.length > 0 && shape[0] === batch) names.add(name);
  return [...names].map((name) => ({ tensor: name, axis: 0 }));
}

// The devices' models of a plan, in a folder.
function make(folder, name, layout) {
  const model = path.join(folder, `${name}.onnx`), plan = path.join(folder, 'plan.json'), out = path.join(folder, 'out');
  fs.copyFileSync(path.join(models, `${name}.onnx`), model);
  fillWeights(folder, model, -0.04); // around 0: sums of many products stay numbers
  const constraints = { ...layout.constraints, forbid: [...(layout.constraints?.forbid ?? []), ...(layout.keepsBatch && name !== 'resnet50' ? keepBatch(model) : [])] };
  shell('plan', model, '--cluster', write(path.join(folder, 'cluster.json'), layout.cluster), ...(layout.routes ? [] : ['--constraints', write(path.join(folder, 'constraints.json'), constraints)]), '--tolerance', '0', ...layout.words, '--plan', plan);
  shell('export', plan, '--model', model, '--format', 'sessions', '-o', out);
  return { model, out, plan: JSON.parse(fs.readFileSync(plan, 'utf8')) };
}

/* ---- requests ---- */

// Each request has inputs of its own: integers below the smallest vocabulary, ones for masks.
function feedsOf(session, request) {
  return Object.fromEntries(session.inputMetadata.map(({ name, type, shape }) => {
    const dims = shape.map((extent) => (extent > 0 ? extent : 1)), length = dims.reduce((a, b) => a * b, 1);
    if (type === 'int64') return [name, new ort.Tensor(type, BigInt64Array.from({ length }, (_, i) => (/mask/.test(name) ? 1n : /tt/.test(name) ? BigInt(i % 2) : BigInt((i * 7 + request * 3) % 50))), dims)];
    return [name, new ort.Tensor(type, Float32Array.from({ length }, (_, i) => Math.sin(i * 7 + name.length + request)), dims)];
  }));
}

function compare(results, expected, what) {
  for (const name of Object.keys(expected)) {
    const largest = expected[name].data.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const why = difference(results[name], expected[name], { rtol: 1e-3, atol: 1e-4 * largest });
    if (why) throw new Error(`${what}, '${name}': ${why}`);
  }
}

/** Compares requests that are on their way at the same time with the original; what a test of it may then look at. */
async function requests(processes, model, count) {
  const session = await ort.InferenceSession.create(model, options), feeds = Array.from({ length: count }, (_, i) => feedsOf(session, i));
  const results = await Promise.all(feeds.map((each) => processes.run(each))), seen = new Set();
  for (const [i, each] of feeds.entries()) {
    const expected = await session.run(each);
    compare(results[i], expected, `request ${i}`);
    const [first] = Object.values(expected);
    if (!Number.isFinite(Number(first.data[0]))) throw new Error('the results are no numbers');
    seen.add(Array.from(first.data.subarray(0, 64)).join());
  }
  await session.release();
  if (seen.size < 2) throw new Error('all requests give the same: the test sees nothing');
  return feeds[0];
}

async function checkPlan(name, folder) {
  const [file, layout] = name.split(', '), { model, out, plan } = make(folder, file, layouts[layout]);
  const processes = await start(out), { manifest, ranks } = processes;
  try {
    const used = layouts[layout].copies ? processes.copies.length : manifest.devices.length, wanted = layouts[layout].copies ?? layouts[layout].cluster.groups.reduce((all, { count }) => all + count, 0);
    if (used !== wanted) throw new Error(`the plan has ${used} instead of ${wanted} devices or copies`);
    if (manifest.estimate.latency_seconds !== plan.estimate.latency_seconds) throw new Error('the manifest has another estimate than the plan');
    const feeds = await requests(processes, model, file === 'resnet50' ? LARGE : REQUESTS);
    if (file === 'resnet50' && !thorough) return `${ranks.length} processes, a large model`;
    if (layouts[layout].routes && (processes.routes.length < 2 || processes.routes.some(({ taken }) => taken === 0))) throw new Error(`the routes take ${processes.routes.map(({ taken }) => taken)} requests`);
    const figures = await measure(processes, feeds, 2, 2);
    if (!(figures.latency_seconds > 0 && figures.throughput_per_second > 0 && figures.devices.some(({ seconds }) => seconds > 0))) throw new Error(`the figures are ${JSON.stringify(figures)}`);
    return `${ranks.length} processes, ${ranks.reduce((all, { models: count }) => all + count, 0)} models, ${plan.collectives.length} exchanges`;
  } finally {
    await processes.stop();
  }
}

/* ---- exchanges of each kind, in models without weights ---- */

const chain = { opset: 21, inputs: [{ name: 'x', dtype: 'float32', shape: [4, 8] }, ...['w0', 'w1'].map((name) => ({ name, dtype: 'float32', shape: [8, 8] }))],
  nodes: [{ op: 'MatMul', inputs: ['x', 'w0'], outputs: ['h'] }, { op: 'Relu', inputs: ['h'], outputs: ['r'] }, { op: 'MatMul', inputs: ['r', 'w1'], outputs: ['z'] },
    { op: 'Tanh', inputs: ['z'], outputs: ['t'] }, { op: 'Softmax', inputs: ['t'], outputs: ['y'] }], outputs: ['y'] };
const pair = { opset: 21, inputs: [{ name: 'x', dtype: 'float32', shape: [8, 8] }], nodes: [{ op: 'Sin', inputs: ['x'], outputs: ['a'] }, { op: 'Tanh', inputs: ['a'], outputs: ['b'] }], outputs: ['b'] };
const line = (count) => `<["x"=${count}]>`, square = '<["x"=2,"y"=2]>', rest = 'last_tile_dim_replicate';
const exchanges = {
  'all-reduce': { model: chain, mesh: line(2), devices: 2, set: { w0: '{devices=[1,2]0,1}' } },
  'all-reduce of groups': { kind: 'all-reduce', model: chain, mesh: square, devices: 4, set: { x: `{devices=[2,1,2]0,1,2,3 ${rest}}`, w0: `{devices=[1,2,2]0,2,1,3 ${rest}}` } },
  'reduce-scatter': { model: chain, mesh: line(2), devices: 2, set: { w0: '{devices=[1,2]0,1}', y: '{devices=[2,1]0,1}' } },
  'all-gather': { model: pair, mesh: line(2), devices: 2, set: { a: '{devices=[2,1]0,1}', b: '{replicated}' } },
  'all-gather of unequal pieces': { kind: 'all-gather', model: pair, mesh: line(3), devices: 3, set: { a: '{devices=[3,1]0,1,2}', b: '{replicated}' } },
  'all-to-all': { model: pair, mesh: line(2), devices: 2, set: { a: '{devices=[2,1]0,1}', b: '{devices=[1,2]0,1}' } },
  'all-to-all of groups': { kind: 'all-to-all', model: pair, mesh: square, devices: 4, set: { a: `{devices=[2,1,2]0,1,2,3 ${rest}}`, b: `{devices=[1,2,2]0,1,2,3 ${rest}}` } },
  'collective-permute': { model: pair, devices: 2, set: { a: '{devices=[2,1]0,1}', b: '{devices=[2,1]1,0}' } } };
const usual = ['all-reduce of groups', 'reduce-scatter', 'all-gather of unequal pieces', 'all-to-all'];

async function checkExchange(name, folder) {
  const { kind = name, model, mesh, devices, set } = exchanges[name], annotated = path.join(folder, 'annotated.onnx'), plain = path.join(folder, 'plain.onnx'), out = path.join(folder, 'out');
  shell('infer', write(path.join(folder, 'model.json'), model), '--devices', String(devices), ...(mesh ? ['--mode', 'propagate', '--mesh', mesh] : []), ...Object.entries(set).flatMap(([tensorName, spec]) => ['--set', `${tensorName}=${spec}`]), '-o', annotated);
  const kinds = shell('export', annotated, '--format', 'csv-collectives');
  if (!kinds.split(/\r?\n/).some((row) => row.split(',')[4]?.startsWith(kind))) throw new Error(`there is no ${kind}: ${kinds}`);
  shell('strip', annotated, '-o', plain);
  shell('export', annotated, '--format', 'sessions', '-o', out);
  const processes = await start(out);
  try {
    await requests(processes, plain, 3);
    return `${devices} processes`;
  } finally {
    await processes.stop();
  }
}

/* ---- loops: a prompt, then one position at a time ---- */

const PROMPT = 7, STEPS = 8, BATCH = 2, scriptsOfModels = path.join(models, '../faults/real-files');
const ints = (dims, list) => new ort.Tensor('int64', BigInt64Array.from(list, BigInt), dims);
const floats = (dims, of) => new ort.Tensor('float32', Float32Array.from({ length: dims.reduce((all, dim) => all * dim, 1) }, (_, i) => of(i)), dims);
const decoders = {
  decoder: { script: [path.join(scriptsOfModels, 'genai_builder_like.py'), '2', '128', '8', '4', '128', '100', 'fp32', 'real'], batch: ['--dim', `batch_size=${BATCH}`],
    dims: ['--dim', `batch_size=${BATCH}`, '--dim', 'sequence_length=1', '--dim', `past_sequence_length=${PROMPT}`, '--dim', `total_sequence_length=${PROMPT + 1}`],
    feed: (past, size, seed = 0) => ({ input_ids: ints([BATCH, size], Array.from({ length: BATCH * size }, (_, i) => (i * 37 + past * 5 + seed + 11) % 100)), attention_mask: ints([BATCH, past + size], Array(BATCH * (past + size)).fill(1)) }) },
  'recurrent network': { script: [path.join(here, 'loop_recurrent.py')], batch: [], dims: [], feed: (past, size, seed = 0) => ({ x: floats([3, 64], (i) => Math.sin(i * 7 + past + seed)) }) } };

// The original runs in a loop of its own, here.
async function checkLoop(name, folder, command = RANK) {
  const [kind, layout] = name.split(', '), { script: [program, ...words], batch, dims, feed } = decoders[kind], { cluster, words: how, constraints = {} } = layouts[layout];
  const model = path.join(folder, 'model.onnx'), annotated = path.join(folder, 'annotated.onnx'), out = path.join(folder, 'out');
  const { status, stderr } = spawnSync('python3', [program, model, ...words], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  shell('plan', model, '--cluster', write(path.join(folder, 'cluster.json'), cluster), '--constraints', write(path.join(folder, 'constraints.json'), constraints), '--tolerance', '0', ...how, ...dims, '-o', annotated);
  shell('export', annotated, '--format', 'sessions', ...batch, '-o', out);
  const original = await ort.InferenceSession.create(model, options), processes = await start(out, { command }), { states } = processes.manifest;
  try {
    if (states.length === 0) throw new Error('the manifest has no states');
    const isState = new Set(states.map(({ present }) => present)), wanted = cluster.groups[0].count;
    if (processes.ranks.length !== wanted) throw new Error(`${processes.ranks.length} processes instead of ${wanted}`);
    let own = Object.fromEntries(states.map(({ past }) => [past, floats(original.inputMetadata.find((input) => input.name === past).shape.map((dim) => (dim > 0 ? dim : /past/.test(dim) ? 0 : BATCH)), () => 0)]));
    const loops = [processes.loop(), processes.loop()]; // the second one must not touch what the first one keeps
    for (let step = 0, past = 0; step <= STEPS; step++) {
      const size = step === 0 ? PROMPT : 1, feeds = feed(past, size), expected = await original.run({ ...feeds, ...own });
      const results = await loops[0].step(step === 0 ? { ...feeds, ...own } : feeds);
      if (Object.keys(results).some((output) => isState.has(output))) throw new Error('a state left its device');
      if (step === 0) await loops[1].step({ ...feed(0, PROMPT, 1), ...own });
      for (const output of Object.keys(expected)) {
        const why = isState.has(output) ? null : difference(results[output], expected[output], { rtol: 1e-3, atol: 1e-4 });
        if (why) throw new Error(`step ${step}, '${output}': ${why}`);
      }
      own = Object.fromEntries(states.map(({ past: before, present }) => [before, expected[present]]));
      past += size;
    }
    loops.forEach((loop) => loop.end());
    return `${STEPS + 1} steps, ${states.length} states`;
  } finally {
    await processes.stop();
  }
}

/* ---- what goes wrong ---- */

const within = (promise, seconds, what) => Promise.race([promise, new Promise((_, reject) => setTimeout(() => reject(new Error(`${what} took longer than ${seconds} s`)), seconds * 1000))]);

async function checkKilled(folder, layout = 'tensor 4', command = RANK) {
  const { model, out } = make(folder, 'llama_tiny', layouts[layout]), processes = await start(out, { stderr: 'pipe', command });
  const said = processes.children.map((child) => (child.stderr.setEncoding('utf8'), { text: '', child }));
  for (const each of said) each.child.stderr.on('data', (text) => (each.text += text));
  const ended = said.map(({ child }) => new Promise((resolve) => child.once('close', (status) => resolve(status))));
  const feeds = await requests(processes, model, 2), victim = processes.children.length - 2;
  const gone = `Device ${victim} is gone: `, pending = Promise.allSettled(Array.from({ length: 8 }, () => processes.run(feeds)));
  processes.children[victim].kill('SIGKILL');
  const outcomes = await within(pending, 5, 'noticing it');
  const statuses = await within(Promise.all(ended), 5, 'the end of the others');
  const wrong = outcomes.find(({ status, reason }) => status === 'rejected' && !reason.message.startsWith(gone));
  if (wrong) throw new Error(`a request failed with: ${wrong.reason.message}`);
  if (!outcomes.some(({ status }) => status === 'rejected')) throw new Error('no request failed');
  for (const [i, { text }] of said.entries())
    if (i !== victim && (statuses[i] !== 1 || !text.includes(`device ${i}: ${gone}`))) throw new Error(`device ${i} ended with ${statuses[i]} and said: ${text}`);
  await processes.stop();
  return `${said.length - 1} others say it`;
}

async function refused(promise, pattern) {
  try {
    await (await promise).stop();
  } catch (error) {
    if (pattern.test(error.message)) return;
    throw new Error(`it is refused with: ${error.message}`);
  }
  throw new Error(`it is not refused for ${pattern}`);
}

async function checkRefused(folder) {
  const one = make(fs.mkdtempSync(path.join(folder, 'a-')), 'bert_tiny', layouts['pipeline 2']), other = make(fs.mkdtempSync(path.join(folder, 'b-')), 'bert_tiny', layouts['tensor 2']);
  const children = [one.out, one.out, other.out].map((out) => spawn(RANK[0], [...RANK.slice(1), out], { stdio: ['ignore', 'pipe', 'ignore'] }));
  try {
    const listen = ({ stdout }) => new Promise((resolve) => stdout.once('data', (text) => resolve(JSON.parse(text).listen)));
    const [first, second, stranger] = await Promise.all(children.map(listen)), at = [first, second], processes = await start(one.out, { at });
    await refused(start(one.out, { at }), /^Device [01]: Another program sends requests here\.$/);
    await requests(processes, one.model, 2); // which the others do not disturb
    await processes.stop();
    await refused(start(one.out, { at: [stranger, stranger] }), /^Device [01]: The other side has another manifest: all processes need the same\.$/);
    await refused(start(one.out, { at: [stranger] }), /^The plan needs 2 processes, and 1 addresses are given\.$/);
  } finally {
    children.forEach((child) => child.kill());
  }
  fs.copyFileSync(path.join(other.out, 'device-1.onnx'), path.join(one.out, 'device-1.onnx'));
  await refused(start(one.out, { stderr: 'ignore' }), /^Device 1: The model device-1\.onnx is not the one that the manifest is of: write both again\.$/);
  const file = path.join(other.out, 'manifest.json'), manifest = JSON.parse(fs.readFileSync(file, 'utf8'));
  write(file, { ...manifest, version: 2 });
  await refused(start(other.out), /^The manifest has version 2, and this program reads version 1: /);
  shell('export', path.join(folder, path.basename(path.dirname(other.out)), 'plan.json'), '--model', other.model, '--format', 'ort-collectives', '-o', other.out);
  await refused(start(other.out), /^These models exchange by collectives \(ort\), .*--format sessions/);
  const moved = [{ inputs: [{ past: 'cache', box: [[0, 2], [4, 8], [0, null]] }], outputs: [{ present: 'cache', box: [[0, 2], [0, 8], [0, null]] }] }];
  await refused((async () => checkStates(moved))(), /^The plan does not keep the state 'cache' where it is made: no loop can be run\.$/);
  return '7 reasons';
}

/* ---- the same in Python, with a stand-in for its ONNX Runtime that runs models in this one ---- */

const scripts = path.join(here, '../../api/examples/run'), standIn = path.join(here, 'stand_in');
const python = ['python3', '/usr/bin/python3'].find((program) => spawnSync(program, ['-c', 'import numpy']).status === 0);
const PYTHON_RANK = [python, '-B', path.join(scripts, 'rank.py')];
process.env.PYTHONPATH = standIn;

function runPython(...words) {
  return spawnSync(python, ['-B', path.join(scripts, 'run.py'), ...words], { encoding: 'utf8' });
}

// Devices in Python and Node side by side; then all of it in Python.
async function checkPython(folder) {
  const { model, out } = make(folder, 'llama_tiny', layouts['tensor 2']), csv = path.join(folder, 'figures.csv');
  const processes = await start(out, { command: (rank) => (rank === 0 ? RANK : PYTHON_RANK) });
  try {
    await requests(processes, model, 3);
  } finally {
    await processes.stop();
  }
  const { stdout, stderr, status } = runPython(out, '--compare', model, '--requests', '2', '--csv', csv);
  if (status !== 0 || !/^2 processes are ready\.\nThe results are those of llama_tiny\.onnx\.\n/.test(stdout)) throw new Error(`run.py ends with ${status}: ${stdout}${stderr}`);
  const rows = fs.readFileSync(csv, 'utf8').trim().split('\n').map((row) => row.split(','));
  if (String(rows.map(([name]) => name)) !== 'figure,latency,throughput,compute of device 0 of copy 0,compute of device 1 of copy 0' || !rows.slice(1).every(([, , own]) => Number(own) > 0)) throw new Error(String(rows));
  const other = make(fs.mkdtempSync(path.join(folder, 'other-')), 'bert_tiny', layouts['pipeline 2']), results = runPython(other.out, '--compare', model, '--requests', '0');
  if (results.status !== 1) throw new Error(`results of another model are taken: ${results.stdout}`);
  fs.copyFileSync(path.join(out, 'device-0.onnx'), path.join(other.out, 'device-0.onnx'));
  const wrong = runPython(other.out, '--requests', '0');
  if (wrong.status !== 1 || !/^Device 0: The model device-0\.onnx is not the one that the manifest is of: write both again\.$/m.test(wrong.stderr)) throw new Error(`another model: ${wrong.stderr}`);
  return 'beside Node, and alone';
}

async function checkPythonLoop(folder) {
  const said = await checkLoop('recurrent network, tensor 2', folder, PYTHON_RANK);
  const { status, stderr } = spawnSync(python, ['-B', path.join(here, 'loop_processes.py'), path.join(folder, 'model.onnx'), path.join(folder, 'out')], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`loop_processes.py ends with ${status}: ${stderr}`);
  return said;
}

/* ---- README ---- */

// What the section's commands print.
async function checkReadme(folder) {
  const top = path.join(here, '../..'), text = fs.readFileSync(path.join(top, 'README.md'), 'utf8').split('\n## Run a plan here\n')[1].split('\n## ')[0];
  const bin = path.join(folder, 'bin'), steps = [];
  fs.mkdirSync(bin);
  fs.symlinkSync(path.resolve(cli), path.join(bin, 'shardplan'));
  for (const name of ['api', 'tests']) fs.symlinkSync(path.join(top, name), path.join(folder, name));
  fs.symlinkSync(path.join(here, 'node_modules'), path.join(folder, 'node_modules'));
  for (const line of text.split('\n')) {
    if (line.startsWith('    $ ')) steps.push({ command: line.slice(6), printed: [], isOpen: true });
    else if (!line.startsWith('    ')) steps.forEach((step) => (step.isOpen = false));
    else if (steps.at(-1)?.isOpen && steps.at(-1).command.endsWith('\\')) steps.at(-1).command += `\n${line}`;
    else if (steps.at(-1)?.isOpen) steps.at(-1).printed.push(line.slice(4));
  }
  for (const { command, printed } of steps) {
    const { stdout, stderr } = spawnSync('bash', ['-c', command], { cwd: folder, encoding: 'utf8', env: { ...process.env, PATH: `${bin}:${process.env.PATH}` } });
    if (stdout.trimEnd() !== printed.join('\n')) throw new Error(`${command} prints: ${stdout}${stderr}`);
  }
  if (steps.length !== 3) throw new Error(`${steps.length} commands`);
  return `${steps.length} commands`;
}

/* ---- the list ---- */


const cases = [
  ...[...everyday, ...(thorough ? others : [])].map((name) => [`plan ${name}`, (folder) => checkPlan(name, folder)]),
  ...Object.keys(exchanges).filter((name) => thorough || usual.includes(name)).map((name) => [`exchange ${name}`, (folder) => checkExchange(name, folder)]),
  ...Object.keys(decoders).flatMap((name) => (thorough ? ['tensor 2', 'tensor 4', 'pipeline 2', '2 x 2'] : name === 'decoder' ? ['tensor 2'] : []).map((layout) => [`loop ${name}, ${layout}`, (folder) => checkLoop(`${name}, ${layout}`, folder)])),
  ['killed process', checkKilled], ['files that do not fit', checkRefused], ['README', checkReadme],
  ...(python ? [['Python', checkPython], ['loops in Python', checkPythonLoop], ['killed process in Python', (folder) => checkKilled(folder, 'pipeline 2', PYTHON_RANK)]] : [])];
let failed = 0, number = 0;
if (!python) console.log('ok run_processes Python # SKIP numpy is not there');
if (!fs.existsSync(models)) console.log(`ok run_processes # SKIP ${models} is not there`);
else
  for (const [name, check] of cases) {
    if (values.only && !name.includes(values.only)) continue;
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-run-'));
    try {
      console.log(`ok ${++number} run_processes ${name}: ${await check(folder)}`);
    } catch (error) {
      failed++;
      console.log(`not ok ${number} run_processes ${name}\n  ${String(error.message ?? error).replace(/\s+/g, ' ').slice(0, 600)}`);
      if (values.verbose) console.log(error.stack);
    } finally {
      fs.rmSync(folder, { recursive: true });
    }
  }
console.log(`# run_processes: ${number - failed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
