// Requests that are cut in micro-batches: what `plan --micro-batches N --emit` writes computes what the model does; TAP on
// standard output.
//
//     node micro_models.mjs [--only TEXT] [--verbose]
//
// The simulation takes a whole request. The devices' models run once for each part, with the inputs cut and the outputs put
// together as the manifest says. A decoder runs a prompt and several steps of one position: each part has states of its own,
// which its devices keep.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';
import { cutAlong, inFolder, joinAlong, runDevices } from './device_run.mjs';
import { difference } from './simulate_tensor.mjs';
import { readArguments, run } from './simulate_tools.mjs';

const here = path.dirname(fileURLToPath(import.meta.url)), top = path.resolve(here, '../..');
const cli = process.env.SHARDPLAN ?? path.join(top, 'build/api/cli/shardplan');
const data = process.env.SHARDPLAN_TEST_DATA ?? path.join(top, '../shared/data');
const scripts = path.join(data, 'faults/real-files');
const values = readArguments(['only'], ['verbose']);
const options = { graphOptimizationLevel: 'disabled', intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 4 };
const BATCH = 8, PROMPT = 5, STEPS = 3, HEAD = 16;
const near = { rtol: 1e-3, atol: 1e-4 };

const ints = (dims, list) => new ort.Tensor('int64', BigInt64Array.from(list, BigInt), dims);
const floats = (dims, of) => new ort.Tensor('float32', Float32Array.from({ length: dims.reduce((all, dim) => all * dim, 1) }, (_, i) => of(i)), dims);
const causal = (past, seq) => floats([BATCH, 1, seq, past + seq], (i) => (i % (past + seq) > past + (Math.floor(i / (past + seq)) % seq) ? -1e4 : 0));
const angles = (past, seq, of) => floats([seq, HEAD], (i) => of((past + Math.floor(i / HEAD)) / 100 ** ((i % (HEAD / 2)) / (HEAD / 2))));
const tokens = (from, seq) => ints([BATCH, seq], Array.from({ length: BATCH * seq }, (_, i) => ((from + (i % seq)) * 37 + Math.floor(i / seq) * 5 + 11) % 50));

const models = {
  'llama_tiny_dyn': { file: 'llama_tiny_dyn.onnx', states: 0, sizes: () => ({ batch: BATCH, seq: 16 }), batch: 'batch', feed: () => ({ ids: tokens(0, 16) }) },
  'hf_like': {
    script: ['hf_like.py', '2', '128', '8', '4', '128', '100', 'real'], states: 4, batch: 'batch_size',
    sizes: (past, seq) => ({ batch_size: BATCH, sequence_length: seq, past_sequence_length: past, total: past + seq }),
    feed: (past, seq) => ({ input_ids: tokens(past, seq), attention_mask: causal(past, seq), cos: angles(past, seq, Math.cos), sin: angles(past, seq, Math.sin) }) },
};

// So slow that each stage counts.
const device = { name: 'slow', memory_bytes: 1e9, memory_bandwidth: 1e9, flops: { float32: 1e7 } };
const clusterOf = (...levels) => ({ runtime: 'generic', launch_seconds: 1e-9, groups: [{ name: 'slow', count: levels.reduce((all, [, size]) => all * size, 1), device }],
  mesh: levels.map(([name, size]) => ({ name, size, bandwidth: 1e10, latency: 1e-7 })) });
const layouts = {
  'pipeline 2, 2 parts': { cluster: clusterOf(['gpu', 2]), words: ['--strategy', 'pipeline'], parts: 2, stages: 2 },
  'pipeline 2, 4 parts': { cluster: clusterOf(['gpu', 2]), words: ['--strategy', 'pipeline'], parts: 4, stages: 2 },
  '2 x 2, 4 parts': { cluster: clusterOf(['node', 2], ['gpu', 2]), words: ['--replicas', '1'], constraints: { max_stages: 2, forbid: [{ level: 'node' }] }, parts: 4, stages: 2 } };

function shell(...words) {
  const { status, stdout, stderr } = spawnSync(cli, words, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${words[0]} ends with ${status}: ${stderr}`);
  return stdout;
}
const dims = (sizes) => Object.entries(sizes).flatMap(([name, size]) => ['--dim', `${name}=${size}`]);

function compare(results, expected, what) {
  for (const name of Object.keys(expected)) {
    const why = difference(results[name], expected[name], near);
    if (why) throw new Error(`${what}, '${name}': ${why}`);
  }
}

// A plan of one step of these sizes, with its files.
function make(folder, model, sizes, layout) {
  const cluster = path.join(folder, 'cluster.json'), constraints = path.join(folder, 'constraints.json'), out = path.join(folder, 'out');
  fs.writeFileSync(cluster, JSON.stringify(layout.cluster));
  fs.writeFileSync(constraints, JSON.stringify(layout.constraints ?? {}));
  shell('plan', model, '--cluster', cluster, '--constraints', constraints, '--tolerance', '0', ...layout.words, ...dims(sizes), '--micro-batches', String(layout.parts), '--emit', out);
  const plan = JSON.parse(fs.readFileSync(path.join(out, 'plan.json'), 'utf8'));
  const { micro_batches: cuts } = JSON.parse(fs.readFileSync(path.join(out, 'manifest.json'), 'utf8'));
  if (plan.stages.length !== layout.stages) throw new Error(`the plan has ${plan.stages.length} stages`);
  if (plan.micro_batches.count !== layout.parts || cuts.count !== layout.parts) throw new Error('plan or manifest have another number of parts');
  return { folder, out, plan, cuts };
}

// The models of all devices, part by part. `held` has what each part's devices keep, and gets what they make of states.
async function runParts(files, cuts, feeds, expected, states, held) {
  const parts = [];
  for (let part = 0; part < cuts.count; part++) {
    const take = (tensors, list) => Object.fromEntries(list.filter(({ tensor }) => tensors[tensor]).map((cut) => [cut.tensor, cutAlong(tensors[cut.tensor], cut, part)]));
    const own = take(expected, cuts.outputs);
    const { results, parts: made } = await runDevices(files, take(feeds, cuts.inputs), own, held[part] ?? new Map());
    held[part] = new Map([...made].flatMap(([key, tensor]) => {
      const [id, ...name] = key.split(' '), state = states.find(({ present }) => present === name.join(' '));
      return state ? [[`${id} ${state.past}`, tensor]] : [];
    }));
    parts.push(results);
  }
  return Object.fromEntries(cuts.outputs.map((cut) => [cut.tensor, joinAlong(parts.map((results) => results[cut.tensor]), cut)]));
}

// A prompt and STEPS positions: what the plan says of one of them says where all run.
async function check(folder, name, layout) {
  const model = models[name], file = path.join(folder, `${name}.onnx`), home = fs.mkdtempSync(path.join(folder, 'plan-'));
  if (model.script) run('python3', path.resolve(scripts, model.script[0]), file, ...model.script.slice(1));
  else fs.copyFileSync(path.join(data, 'models', model.file), file);
  const { states } = JSON.parse(shell('inspect', file, '--json')), original = await ort.InferenceSession.create(file, options);
  if (states.length !== model.states) throw new Error(`${states.length} states were found`);
  const made = make(home, file, model.sizes(PROMPT, 1), layouts[layout]), annotated = path.join(made.out, 'annotated.onnx');
  const empty = ({ past }) => {
    const { shape } = original.inputMetadata.find((input) => input.name === past);
    return floats(shape.map((dim) => (typeof dim === 'number' && dim >= 0 ? dim : /past/.test(dim) ? 0 : BATCH)), () => 0);
  };
  let own = Object.fromEntries(states.map((state) => [state.past, empty(state)])), simulated = 0;
  const held = [];
  for (let step = 0, past = 0; step <= (states.length ? STEPS : 0); step++) {
    const seq = step === 0 ? PROMPT : 1, sessions = path.join(home, 'sessions'), feeds = model.feed(past, seq);
    const expected = await original.run({ ...feeds, ...own });
    const isPlanned = !states.length || (past === PROMPT && seq === 1);
    if (isPlanned) { // the simulation is of these sizes
      const simulation = await ort.InferenceSession.create(path.join(made.out, 'simulation.onnx'), options);
      compare(await simulation.run({ ...feeds, ...own }), expected, `simulation, step ${step}`);
      simulated++;
    }
    fs.rmSync(sessions, { recursive: true, force: true });
    if (!isPlanned) shell('export', annotated, '--format', 'sessions', ...dims({ ...model.sizes(past, seq), [model.batch]: BATCH / made.cuts.count }), '-o', sessions);
    const results = await runParts(inFolder(isPlanned ? made.out : sessions), made.cuts, { ...feeds, ...(step === 0 ? own : {}) }, expected, states, held);
    compare(results, expected, `devices, step ${step}`);
    own = Object.fromEntries(states.map((state) => [state.past, expected[state.present]]));
    past += seq;
  }
  if (simulated !== 1) throw new Error('the simulation was not compared');
  return `${made.plan.stages.length} stages, ${states.length} states`;
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-micro-'));
let failed = 0;
try {
  for (const name of Object.keys(models))
    for (const layout of Object.keys(layouts)) {
      if (values.only && !`${name}, ${layout}`.includes(values.only)) continue;
      if (models[name].script && !fs.existsSync(scripts)) {
        console.log(`ok micro_models: ${name}, ${layout} # SKIP ${scripts} is not there`);
        continue;
      }
      try {
        console.log(`ok micro_models: ${name}, ${layout}: ${await check(folder, name, layout)}`);
      } catch (error) {
        failed++;
        console.log(`not ok micro_models: ${name}, ${layout}\n  ${String(error.message ?? error).replace(/\s+/g, ' ').slice(0, 600)}`);
        if (values.verbose) console.log(error.stack);
      }
    }
} finally {
  fs.rmSync(folder, { recursive: true });
}
process.exit(failed > 0 ? 1 : 0);
