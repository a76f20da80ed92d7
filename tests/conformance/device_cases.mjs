// The models of devices, for one of so many ways of splitting an operator of simulate_cases and each target; TAP on
// standard output.
//
//     node device_cases.mjs [--program PATH] [--every N] [--shares N] [--only OPERATOR] [--target ort|tensorrt|sessions]
//
// PATH is the built device_cases. --every takes one of so many ways in equal shards, --shares in shards of unequal size; each
// runs for one of the targets in turn, and for all with SHARDPLAN_TEST_THOROUGH. What the devices give together must be what
// the original gives. Not counted: what the runtime has no kernel for in old operator sets, and models whose inputs or outputs
// the binding cannot take.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { runDevices, withPrefix } from './device_run.mjs';
import { compute, prepare, readLines } from './simulate.mjs';
import { difference } from './simulate_tensor.mjs';
import { readArguments, run } from './simulate_tools.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const data = process.env.SHARDPLAN_TEST_DATA ?? path.join(here, '../../../shared/data');
const archive = path.join(data, 'onnx-backend-tests.tar.gz');
const values = {
  program: path.join(here, '../../build/sanitized/tests/conformance/device_cases'), every: '23', shares: '199',
  ...readArguments(['program', 'every', 'shares', 'only', 'target'], []) };
const targets = values.target ? [values.target] : ['ort', 'tensorrt', 'sessions'];
process.env.ALLOW_RELEASED_ONNX_OPSET_ONLY = '0'; // operator sets that are not released yet are taken too

const isOld = (why) => Number(why.match(/Could not find an implementation for \w+\((\d+)\)/)?.[1] ?? 7) < 7;
const textOf = (error) => String(error.message ?? error).replace(/\s+/g, ' ').slice(0, 300);

// Null for what is right, a reason, or undefined for what does not count.
async function check(line, feeds, reference, target) {
  const expected = Object.fromEntries(line.outputs.map(({ name }, i) => [name, reference[i]]));
  try {
    const { results } = await runDevices(withPrefix(`${line.model}.${target}`), feeds, expected);
    return Object.entries(expected).map(([name, tensor]) => difference(results[name], tensor, line)).find((why) => why) ?? null;
  } catch (error) {
    const why = textOf(error);
    const isPassedOver = isOld(why) || why.startsWith('Non tensor type is');
    return isPassedOver ? undefined : why;
  }
}

// Null where the binding takes no inputs of a type.
function prepared(line) {
  try {
    return prepare(line.original, line);
  } catch (error) {
    if (error.message.startsWith('no inputs of type')) return null;
    throw error;
  }
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-devices-'));
try {
  if (!fs.existsSync(archive)) {
    console.log(`ok device_cases # SKIP ${archive} is not there`);
  } else {
    run('tar', '-xzf', archive, '-C', folder);
    if (!values.target && !process.env.SHARDPLAN_TEST_THOROUGH) process.env.DEVICE_TARGETS = 'turn';
    run(values.program, folder, '--pairs', 'none', '--every', values.every, '--shares', values.shares, ...(values.only ? ['--only', values.only] : []));
    const lines = readLines(path.join(folder, 'list.jsonl')).filter((line) => line.cuts && !line.failure);
    const counts = new Map(targets.map((target) => [target, { passed: 0, failed: 0, passedOver: 0 }]));
    for (const line of lines) {
      const { bytes, feeds } = prepared(line) ?? {};
      const isPlain = bytes?.equals(fs.readFileSync(line.original));
      const reference = isPlain ? await compute(line.original, line).catch(() => null) : null;
      for (const target of targets) {
        if (!fs.existsSync(`${line.model}.${target}.json`)) continue; // it is another one's turn
        const why = reference ? await check(line, feeds, reference, target) : undefined;
        counts.get(target)[why === undefined ? 'passedOver' : why ? 'failed' : 'passed']++;
        if (why) console.log(`# ${line.name}, ${target}: ${why}`);
      }
    }
    let number = 0;
    for (const [target, { passed, failed, passedOver }] of counts) {
      const isFine = failed === 0 && passed > 0;
      if (!isFine) process.exitCode = 1;
      console.log(`${isFine ? 'ok' : 'not ok'} ${++number} operators on devices, ${target}: ${passed} right, ${failed} wrong, ${passedOver} passed over`);
    }
  }
} finally {
  fs.rmSync(folder, { recursive: true });
}
