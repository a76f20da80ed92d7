// Decoders in a loop, a prompt and then one position at a time, by what is made of a plan; TAP on standard output.
//
//     node loop_models.mjs [--only TEXT] [--verbose]
//
// A plan for one step of decoding, or one for a prompt and the steps behind it as phases of a service, is annotated, and the
// simulation and the devices' models of that are made for the sizes of each step, or once for any sizes where no node
// computes with them. A phase has the configuration that the plan says, and what plan --emit wrote for it is run at the
// sizes that it was planned for: its weights have to be the very bytes of the other phase's. At each step both must give what the original gives in its own loop, values and states. Each device is given
// what it made of a state in the step before: where a plan does not keep a state where it is made, a device lacks it. The
// next position is the original's likeliest token.
//
// Of pools the prompt is run by what is made of one plan, and the steps by what is made of another one, whose devices are
// given their parts of the states that the first one made.
//
// Decoders that no exporter made (tests/tools/random_decoder.py) have caches with axes in any order, with and without a batch,
// and names of states that only the request says; each is planned for two devices.
//
// A recurrent network (loop_recurrent.py) has states that are made by other nodes than take them. Decoders as torch.onnx and Optimum, and as ONNX Runtime GenAI's model builder write them are made with the scripts of
// the test data, with random weights; the models without a state there (models/*_tiny.onnx) run the whole sequence at each
// step, a fixed one is filled up with zeros that a causal model does not see.
//
// Where SHARDPLAN_TEST_TURN says whose turn it is (tests/run), each decoder has every other layout, and each layout every other decoder.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import ort from 'onnxruntime-node';
import { inFolder, runDevices } from './device_run.mjs';
import { angles, causal as causalOf, clusterOf, compare, data, dims, emittedPhases, floats, heldOf, here, ints, options, scripts, shell, statesOf, top } from './loop_tools.mjs';
import { readArguments, run } from './simulate_tools.mjs';

const values = readArguments(['only'], ['verbose']);
const STEPS = 8, PROMPT = 7, BATCH = 2;
const causal = (past, seq) => causalOf(BATCH, past, seq);

/* ---- models: what a step from `past` to `past + ids` takes ---- */

const decoders = {
  'hf_like': {
    script: ['hf_like.py', '2', '128', '8', '4', '128', '100', 'real'],
    sizes: (past, seq) => ({ batch_size: BATCH, sequence_length: seq, past_sequence_length: past, total: past + seq }),
    computes: true, phases: true,
    feed: (ids, past) => ({ input_ids: ids, attention_mask: causal(past, ids.dims[1]), cos: angles(past, ids.dims[1], Math.cos), sin: angles(past, ids.dims[1], Math.sin) }) },
  'genai_like': {
    script: ['genai_builder_like.py', '2', '128', '8', '4', '128', '100', 'fp32', 'real'],
    sizes: (past, seq) => ({ batch_size: BATCH, sequence_length: seq, past_sequence_length: past, total_sequence_length: past + seq }),
    phases: true,
    feed: (ids, past) => ({ input_ids: ids, attention_mask: ints([BATCH, past + ids.dims[1]], Array(BATCH * (past + ids.dims[1])).fill(1)) }) },
  'recurrent': {
    script: [path.join(here, 'loop_recurrent.py')], states: 2,
    feed: (ids, past) => ({ x: floats([3, 64], (i) => Math.sin(i * 7 + past)) }) },
  'llama_tiny': { file: 'llama_tiny.onnx', length: 16 },
  'llama_tiny_dyn': { file: 'llama_tiny_dyn.onnx', sizes: (past, seq) => ({ batch: BATCH, seq: past + seq }), computes: true, phases: true },
  'gpt2_tiny': { file: 'gpt2_tiny.onnx', length: 16 },
};

// A decoder that nobody has heard of, and what its script says of it.
function randomDecoder(seed) {
  const script = path.join(top, 'tests/tools/random_decoder.py'), out = path.join(folder, `random-${seed}.onnx`);
  run('python3', script, String(seed), out);
  const told = JSON.parse(fs.readFileSync(`${out}.json`, 'utf8')), { batch, positions, past: held } = told.dims;
  return {
    script: [script], made: out, phases: true, states: told.states.length, pastDim: held, told,
    sizes: (past, seq) => ({ ...(batch ? { [batch]: BATCH } : {}), [positions]: seq, [held]: past }),
    split: batch ? { [batch]: BATCH } : {},
    feed: (ids) => ({ [told.tokens]: batch ? ids : ints([ids.dims[1]], [...ids.data.slice(0, ids.dims[1])]) }) };
}

/* ---- plans ---- */

const TENSOR = ['--strategy', 'tensor', '--objective', 'latency'];
const layouts = {
  'tensor 2': { cluster: clusterOf(['gpu', 2]), words: TENSOR, served: TENSOR, stages: 1 },
  'tensor 4': { cluster: clusterOf(['gpu', 4]), words: TENSOR, served: TENSOR, stages: 1 },
  'pipeline 2': { cluster: clusterOf(['gpu', 2]), words: ['--strategy', 'pipeline'], served: ['--strategy', 'pipeline'], memory: 0.85, stages: 2 },
  '2 x 2': { served: ['--replicas', '1'], memory: 0.45, cluster: clusterOf(['node', 2], ['gpu', 2]), words: ['--replicas', '1'], constraints: { max_stages: 2, forbid: [{ level: 'node' }] }, stages: 2 },
  'pools': { prompts: 'pipeline 2', steps: 'tensor 4' } };

// What a service is asked that has one prompt and its steps, each of all sequences.
const PHASES = ['prompt', 'step'];
const workloadOf = (decoder) => ({ ...(decoder.told && !decoder.told.is_known ? { state: decoder.told.states } : {}), phases: [
  { name: PHASES[0], dims: decoder.sizes(0, PROMPT) }, { name: PHASES[1], dims: decoder.sizes(PROMPT, 1), per_request: STEPS }] });

// A plan, annotated: what it says, and where its files are.
function make(folder, model, decoder, layout, sizes, shares) {
  const cluster = path.join(folder, 'cluster.json'), constraints = path.join(folder, 'constraints.json'), out = path.join(folder, 'out');
  const workload = path.join(folder, 'workload.json'), { groups: [group] } = layout.cluster;
  const isServed = shares && decoder.phases && layout.served, served = isServed ? layout.memory : undefined; // so small that no copy of one device is planned
  const memory = served ? served * fs.statSync(model).size : group.device.memory_bytes;
  fs.writeFileSync(cluster, JSON.stringify({ ...layout.cluster, groups: [{ ...group, device: { ...group.device, memory_bytes: memory } }] }));
  fs.writeFileSync(constraints, JSON.stringify(layout.constraints ?? {}));
  if (isServed) fs.writeFileSync(workload, JSON.stringify(workloadOf(decoder)));
  const asked = isServed ? ['--workload', workload, ...layout.served] : [...layout.words, ...dims(sizes ?? {})];
  shell('plan', model, '--cluster', cluster, '--constraints', constraints, '--tolerance', '0', ...asked, '--emit', out, '--no-simulation');
  const plan = JSON.parse(fs.readFileSync(path.join(out, 'plan.json'), 'utf8')), annotated = path.join(out, 'annotated.onnx');
  if (plan.stages.length !== layout.stages) throw new Error(`the plan has ${plan.stages.length} stages`);
  if (plan.stages.some(({ devices }) => devices.length !== layout.cluster.groups[0].count / layout.stages)) throw new Error('a stage has other devices');
  const { diagnostics } = JSON.parse(shell('check', annotated, '--json'));
  const moved = diagnostics.find(({ code }) => code === 'STATE_RESHARD');
  if (moved) throw new Error(moved.message);
  return { folder, annotated, plan, emitted: isServed ? emittedPhases(folder, out, plan, PHASES).map(({ files }) => files) : [] };
}

// The simulation and the devices' models of a step of these sizes.
async function filesFor(made, sizes, phase = 0) {
  const configuration = made.plan.service?.phases[phase].configuration, which = configuration ? ['--configuration', configuration] : [];
  const simulation = path.join(made.folder, 'simulation.onnx'), sessions = path.join(made.folder, 'sessions');
  fs.rmSync(sessions, { recursive: true, force: true });
  shell('export', made.annotated, ...which, '--format', 'simulation', ...dims(sizes), '-o', simulation);
  shell('export', made.annotated, ...which, '--format', 'sessions', ...dims(sizes), '-o', sessions);
  return { simulation: await ort.InferenceSession.create(simulation, options), devices: inFolder(sessions) };
}

/* ---- loops ---- */

// The likeliest token behind position `at` of each sequence.
function likeliest({ dims: [batch, seq, vocabulary], data: scores }, at) {
  return Array.from({ length: batch }, (_, b) => {
    const row = scores.subarray((b * seq + at) * vocabulary, (b * seq + at + 1) * vocabulary);
    return row.indexOf(Math.max(...row));
  });
}

// A prompt and STEPS positions; each loop has states of its own. `prompts` is what runs the prompt.
async function loop(original, prompts, made, decoder, states) {
  const batch = Object.entries(decoder.split ?? decoder.sizes?.(0, 1) ?? {}).slice(0, 1); // the axis of inputs that may be split
  let files = await filesFor(prompts, decoder.computes ? decoder.sizes(0, PROMPT) : Object.fromEntries(batch));
  const empty = ({ past }) => {
    const { shape } = original.inputMetadata.find(({ name }) => name === past);
    return floats(shape.map((dim) => (typeof dim === 'number' && dim >= 0 ? dim : dim === decoder.pastDim || /past/.test(dim) ? 0 : BATCH)), () => 0);
  };
  const start = () => Object.fromEntries(states.map((state) => [state.past, empty(state)]));
  const handOn = (results) => Object.fromEntries(states.map(({ past, present }) => [past, results[present]]));
  let own = start(), simulated = start(), whole = {}, held = new Map(), past = 0;
  let sequence = Array.from({ length: BATCH }, (_, b) => Array.from({ length: PROMPT }, (_, i) => (i * 37 + b * 5 + 11) % 50));
  for (let step = 0; step <= STEPS; step++) {
    const length = sequence[0].length, from = states.length ? past : 0, size = decoder.length ?? length - from;
    const ids = ints([BATCH, size], sequence.flatMap((row) => Array.from({ length: size }, (_, i) => row[from + i] ?? 0)));
    const feeds = decoder.feed?.(ids, from) ?? { [original.inputNames[0]]: ids }, what = `step ${step}`;
    const isHandedOver = step === 1 && prompts !== made;
    if (decoder.computes && step > 0) files = await filesFor(made, decoder.sizes(from, size), 1);
    else if (isHandedOver || (made.plan.service && step === 1)) files = await filesFor(made, Object.fromEntries(batch), 1);
    const expected = await original.run({ ...feeds, ...own });
    const sim = await files.simulation.run({ ...feeds, ...simulated });
    const devices = made.emitted[step] ?? files.devices; // the first two steps have the sizes of the phases
    const { results, parts } = await runDevices(devices, { ...feeds, ...(step === 0 ? own : isHandedOver ? whole : {}) }, expected, isHandedOver ? new Map() : held);
    compare(sim, expected, `simulation, ${what}`);
    compare(results, expected, `devices, ${what}`);
    own = handOn(expected);
    whole = handOn(results);
    simulated = handOn(sim);
    held = heldOf(parts, states);
    past = length;
    const scores = expected[original.outputNames[0]], next = scores.dims.length === 3 ? likeliest(scores, length - 1 - from) : Array(BATCH).fill(0);
    sequence = sequence.map((row, b) => [...row, next[b]]);
  }
}

async function check(folder, name, layout) {
  const decoder = decoders[name], model = path.join(folder, `${name}.onnx`), home = fs.mkdtempSync(path.join(folder, 'plan-'));
  if (decoder.made) fs.copyFileSync(decoder.made, model);
  else if (decoder.script) run('python3', path.resolve(scripts, decoder.script[0]), model, ...decoder.script.slice(1));
  else fs.copyFileSync(path.join(data, 'models', decoder.file), model);
  const { prompts, steps } = layouts[layout], made = make(home, model, decoder, layouts[steps ?? layout], decoder.sizes?.(PROMPT, 1), !prompts);
  const states = decoder.told && !decoder.told.is_known ? decoder.told.states.map(([past, present]) => ({ past, present })) : statesOf(model);
  const first = prompts ? make(fs.mkdtempSync(path.join(folder, 'plan-')), model, decoder, layouts[prompts], decoder.sizes?.(0, PROMPT), false) : made;
  if (states.length !== (decoder.script ? decoder.states ?? 4 : 0)) throw new Error(`${states.length} states were found`);
  if (decoder.script && !made.plan.diagnostics.some(({ code }) => code === 'STATES_FOUND')) throw new Error('no note says which states there are');
  await loop(await ort.InferenceSession.create(model, options), first, made, decoder, states);
  const split = made.plan.tensors.filter((tensor) => states.some(({ past }) => past === tensor.name) && /S\[/.test(tensor.spec.text)).length;
  return `${STEPS + 1} steps, ${states.length} states, ${split} of them split`;
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-loop-'));
const RANDOM = process.env.SHARDPLAN_TEST_THOROUGH ? 70 : 7;
const turn = values.only ? undefined : process.env.SHARDPLAN_TEST_TURN, ways = Object.keys(layouts);
let failed = 0, later = 0;
try {
  if (!fs.existsSync(scripts)) console.log(`ok loop_models # SKIP ${scripts} is not there`);
  else {
    for (let seed = 0; seed < RANDOM; seed++) decoders[`random ${seed}`] = { ...randomDecoder(seed), only: 'tensor 2' };
    for (const [index, name] of Object.keys(decoders).entries())
      for (const layout of ways) {
        if (decoders[name].only && decoders[name].only !== layout) continue;
        if (turn && (index + ways.indexOf(layout) + Number(turn)) % 2) {
          later++;
          continue;
        }
        if (values.only && !`${name}, ${layout}`.includes(values.only)) continue;
        try {
          console.log(`ok loop_models: ${name}, ${layout}: ${await check(folder, name, layout)}`);
        } catch (error) {
          failed++;
          console.log(`not ok loop_models: ${name}, ${layout}\n  ${String(error.message ?? error).replace(/\s+/g, ' ').slice(0, 600)}`);
          if (values.verbose) console.log(error.stack);
        }
      }
  }
  if (later) console.log(`# loop_models: ${later} more at their turn`);
} finally {
  fs.rmSync(folder, { recursive: true });
}
process.exit(failed > 0 ? 1 : 0);
