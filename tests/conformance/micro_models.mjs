// Requests that are cut in micro-batches: what `plan --micro-batches N --emit` writes computes what the model does; TAP on
// standard output.
//
//     node micro_models.mjs [--only TEXT] [--verbose]
//
// The simulation takes a whole request. The devices' models run once for each part, with the inputs cut and the outputs put
// together as the manifest says. Phases of a service have models of their own, each with its parts. A decoder runs a prompt and several steps of one position: each part has states of its own,
// which its devices keep.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import ort from 'onnxruntime-node';
import { cutAlong, inFolder, joinAlong, runDevices } from './device_run.mjs';
import { angles, causal as causalOf, clusterOf, compare, data, dims, emittedPhases, floats, heldOf, ints, options, scripts, shell, statesOf } from './loop_tools.mjs';
import { readArguments, run } from './simulate_tools.mjs';

const values = readArguments(['only'], ['verbose']);
const BATCH = 8, PROMPT = 5, STEPS = 3;
const causal = (past, seq) => causalOf(BATCH, past, seq);
const tokens = (from, seq) => ints([BATCH, seq], Array.from({ length: BATCH * seq }, (_, i) => ((from + (i % seq)) * 37 + Math.floor(i / seq) * 5 + 11) % 50));

const models = {
  'llama_tiny_dyn': { file: 'llama_tiny_dyn.onnx', states: 0, sizes: () => ({ batch: BATCH, seq: 16 }), batch: 'batch', feed: () => ({ ids: tokens(0, 16) }) },
  'hf_like': {
    script: ['hf_like.py', '2', '128', '8', '4', '128', '100', 'real'], states: 4, batch: 'batch_size',
    sizes: (past, seq) => ({ batch_size: BATCH, sequence_length: seq, past_sequence_length: past, total: past + seq }),
    feed: (past, seq) => ({ input_ids: tokens(past, seq), attention_mask: causal(past, seq), cos: angles(past, seq, Math.cos), sin: angles(past, seq, Math.sin) }) },
  'genai_like': {
    script: ['genai_builder_like.py', '2', '128', '8', '4', '128', '100', 'fp32', 'real'], states: 4, batch: 'batch_size',
    sizes: (past, seq) => ({ batch_size: BATCH, sequence_length: seq, past_sequence_length: past, total_sequence_length: past + seq }),
    feed: (past, seq) => ({ input_ids: tokens(past, seq), attention_mask: ints([BATCH, past + seq], Array(BATCH * (past + seq)).fill(1)) }) },
};

const layouts = {
  'pipeline 2, 2 parts': { cluster: clusterOf(['gpu', 2]), words: ['--strategy', 'pipeline'], parts: 2, stages: 2 },
  'pipeline 2, 4 parts': { cluster: clusterOf(['gpu', 2]), words: ['--strategy', 'pipeline'], parts: 4, stages: 2 },
  'service, 4 parts': { cluster: clusterOf(['gpu', 2]), words: ['--strategy', 'pipeline', '--replicas', '1', '--objective', 'latency'], served: true, parts: 4, stages: 2 },
  '2 x 2, 4 parts': { cluster: clusterOf(['node', 2], ['gpu', 2]), words: ['--replicas', '1'], constraints: { max_stages: 2, forbid: [{ level: 'node' }] }, parts: 4, stages: 2 } };

// The phases of a service, each of which is cut in parts: a prompt and its steps, or two lengths.
const phasesOf = (model) => (model.states ? [{ name: 'prompt', dims: model.sizes(0, PROMPT) }, { name: 'step', dims: model.sizes(PROMPT, 1), per_request: STEPS }]
  : [{ name: 'long', dims: model.sizes() }, { name: 'short', dims: { ...model.sizes(), seq: 8 } }]);

// A plan of one step of these sizes, with its files, or of all phases.
function make(folder, file, model, layout) {
  const cluster = path.join(folder, 'cluster.json'), constraints = path.join(folder, 'constraints.json'), out = path.join(folder, 'out');
  fs.writeFileSync(cluster, JSON.stringify(layout.cluster));
  fs.writeFileSync(constraints, JSON.stringify(layout.constraints ?? {}));
  const phases = phasesOf(model), workload = path.join(folder, 'workload.json');
  fs.writeFileSync(workload, JSON.stringify({ phases }));
  const asked = layout.served ? ['--workload', workload] : dims(model.sizes(PROMPT, 1));
  shell('plan', file, '--cluster', cluster, '--constraints', constraints, '--tolerance', '0', ...layout.words, ...asked, '--micro-batches', String(layout.parts), '--emit', out);
  const plan = JSON.parse(fs.readFileSync(path.join(out, 'plan.json'), 'utf8'));
  const { micro_batches: cuts } = JSON.parse(fs.readFileSync(path.join(out, 'manifest.json'), 'utf8'));
  if (plan.stages.length !== layout.stages) throw new Error(`the plan has ${plan.stages.length} stages`);
  if (!layout.served && (plan.micro_batches.count !== layout.parts || cuts.count !== layout.parts)) throw new Error('plan or manifest have another number of parts');
  const emitted = layout.served ? emittedPhases(folder, out, plan, phases.map(({ name }) => name)) : [];
  if (emitted.some((phase) => phase.cuts?.count !== layout.parts) || plan.service?.phases.some(({ micro_batches: parts }) => parts !== layout.parts)) throw new Error('a phase has another number of parts');
  return { folder, out, plan, cuts: cuts ?? emitted[1].cuts, emitted };
}

// The models of all devices, part by part. `held` has what each part's devices keep, and gets what they make of states.
async function runParts(files, cuts, feeds, expected, states, held) {
  const parts = [];
  for (let part = 0; part < cuts.count; part++) {
    const take = (tensors, list) => Object.fromEntries(list.filter(({ tensor }) => tensors[tensor]).map((cut) => [cut.tensor, cutAlong(tensors[cut.tensor], cut, part)]));
    const own = take(expected, cuts.outputs);
    const { results, parts: made } = await runDevices(files, take(feeds, cuts.inputs), own, held[part] ?? new Map());
    held[part] = heldOf(made, states);
    parts.push(results);
  }
  return Object.fromEntries(cuts.outputs.map((cut) => [cut.tensor, joinAlong(parts.map((results) => results[cut.tensor]), cut)]));
}

// A prompt and STEPS positions: what the plan says of one of them says where all run.
async function check(folder, name, layout) {
  const model = models[name], file = path.join(folder, `${name}.onnx`), home = fs.mkdtempSync(path.join(folder, 'plan-'));
  if (model.script) run('python3', path.resolve(scripts, model.script[0]), file, ...model.script.slice(1));
  else fs.copyFileSync(path.join(data, 'models', model.file), file);
  const states = statesOf(file), original = await ort.InferenceSession.create(file, options);
  if (states.length !== model.states) throw new Error(`${states.length} states were found`);
  const made = make(home, file, model, layouts[layout]), annotated = path.join(made.out, 'annotated.onnx');
  const empty = ({ past }) => {
    const { shape } = original.inputMetadata.find((input) => input.name === past);
    return floats(shape.map((dim) => (typeof dim === 'number' && dim >= 0 ? dim : /past/.test(dim) ? 0 : BATCH)), () => 0);
  };
  let own = Object.fromEntries(states.map((state) => [state.past, empty(state)])), simulated = 0;
  const held = [];
  for (let step = 0, past = 0; step <= (states.length ? STEPS : 0); step++) {
    const seq = step === 0 ? PROMPT : 1, sessions = path.join(home, 'sessions'), feeds = model.feed(past, seq);
    const expected = await original.run({ ...feeds, ...own });
    const phase = made.emitted[step], configuration = made.plan.service?.phases[Math.min(step, 1)].configuration;
    const isPlanned = phase ? made.plan.service.phases[step].planned : !states.length || (past === PROMPT && seq === 1 && !made.plan.service);
    if (isPlanned) { // the simulation is of these sizes
      const simulation = await ort.InferenceSession.create(path.join(made.out, 'simulation.onnx'), options);
      compare(await simulation.run({ ...feeds, ...own }), expected, `simulation, step ${step}`);
      simulated++;
    }
    fs.rmSync(sessions, { recursive: true, force: true });
    if (!isPlanned && !phase) shell('export', annotated, '--format', 'sessions', ...(configuration ? ['--configuration', configuration] : []), ...dims({ ...model.sizes(past, seq), [model.batch]: BATCH / made.cuts.count }), '-o', sessions);
    const results = await runParts(phase?.files ?? inFolder(isPlanned ? made.out : sessions), phase?.cuts ?? made.cuts, { ...feeds, ...(step === 0 ? own : {}) }, expected, states, held);
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
