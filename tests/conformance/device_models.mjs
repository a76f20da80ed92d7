// The models of devices, for each way of splitting of simulate_models and each target; TAP on standard output.
//
//     node device_models.mjs [--program PATH] [--only TEXT] [--seeds N] [--every N] [--target ort|tensorrt|sessions] [--verbose]
//
// PATH is the built device_models. One of so many ways (2 unless given) runs, and for one of the targets in turn; all ways for
// all targets with SHARDPLAN_TEST_THOROUGH. The devices' models run as their manifest says (device_run.mjs), and what they
// give together must be what the original gives.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { runDevices, withPrefix } from './device_run.mjs';
import { compute, prepare, readLines } from './simulate.mjs';
import { difference } from './simulate_tensor.mjs';
import { readArguments, run } from './simulate_tools.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const thorough = Boolean(process.env.SHARDPLAN_TEST_THOROUGH);
const values = {
  program: path.join(here, '../../build/sanitized/tests/conformance/device_models'),
  every: thorough || process.argv.includes('--only') ? '1' : '2',
  ...readArguments(['program', 'only', 'seeds', 'every', 'target'], ['verbose']) };
const targets = values.target ? [values.target] : ['ort', 'tensorrt', 'sessions'];

async function reference(line) {
  const results = await compute(line.original, line);
  return Object.fromEntries(line.outputs.map(({ name }, i) => [name, results[i]]));
}

async function check(line, target, expected) {
  const { results: own, counts } = await runDevices(withPrefix(`${line.model}.${target}`), prepare(line.original, line).feeds, expected);
  for (const [name, tensor] of Object.entries(expected)) {
    const why = difference(own[name], tensor, line);
    if (why) throw new Error(`output '${name}': ${why}`);
  }
  return counts;
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-devices-'));
try {
  if (!values.target && !thorough) process.env.DEVICE_TARGETS = 'turn';
  run(values.program, folder, ...['only', 'seeds', 'every'].flatMap((name) => (values[name] ? [`--${name}`, values[name]] : [])));
  let number = 0, failed = 0;
  for (const line of readLines(path.join(folder, 'list.jsonl'))) {
    let expected = null;
    for (const target of targets) {
      if (!line.failure && !fs.existsSync(`${line.model}.${target}.json`)) continue; // it is another one's turn
      number++;
      try {
        if (line.failure) throw new Error(line.failure);
        expected ??= await reference(line);
        const { models, sessions, collectives } = await check(line, target, expected);
        console.log(`ok ${number} devices ${line.name}, ${target}: ${models} models in ${sessions} turns, ${collectives} collectives`);
      } catch (error) {
        failed++;
        console.log(`not ok ${number} devices ${line.name}, ${target}\n  ${String(error.message ?? error).replace(/\s+/g, ' ').slice(0, 500)}`);
        if (values.verbose) console.log(error.stack);
      }
    }
  }
  if (number === 0) console.log('ok device_models # SKIP the models are not there');
  console.log(`# device_models: ${number - failed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
} finally {
  fs.rmSync(folder, { recursive: true });
}
