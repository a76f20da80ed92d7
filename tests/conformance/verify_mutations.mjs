// Whether mistakes that `shardplan verify` does not refute (verify_mutations.py) change what ONNX Runtime computes.
//
//     node verify_mutations.mjs FOLDER RESULTS.jsonl
//
// FOLDER holds what simulate_models wrote, RESULTS what verify_mutations.py printed. TAP on standard output: a mistake that is
// proved has to leave all results as they are; one that is refuted, and whose folder was kept, is only told.
import fs from 'node:fs';
import path from 'node:path';
import { inFolder, runDevices } from './device_run.mjs';
import { compute, prepare, readLines } from './simulate.mjs';
import { difference } from './simulate_tensor.mjs';

const [folder, results] = process.argv.slice(2);
const complete = (file) => fs.readFileSync(file, 'utf8').split('\n').flatMap((line) => { try { return [JSON.parse(line)]; } catch { return []; } });
const lines = new Map(complete(path.join(folder, 'list.jsonl')).map((line) => [line.name, line]));
let number = 0, failed = 0;
for (const result of complete(results)) {
  if (result.verdict === 'refuted' || !fs.existsSync(result.folder)) continue;
  const line = lines.get(result.name.replace(/ [a-z]+$/, ''));
  const simulation = path.join(result.folder, 'simulation.onnx');
  const given = await compute(line.original, line);
  const expected = Object.fromEntries(line.outputs.map(({ name }, i) => [name, given[i]]));
  let why = null;
  try {
    const own = fs.existsSync(simulation)
      ? Object.fromEntries((await compute(simulation, line)).map((tensor, i) => [line.outputs[i].name, tensor]))
      : (await runDevices(inFolder(result.folder), prepare(line.original, line).feeds, expected)).results;
    for (const [name, tensor] of Object.entries(expected)) why ??= difference(own[name], tensor, line);
  } catch (error) {
    why = String(error.message ?? error).replace(/\s+/g, ' ').slice(0, 200);
  }
  const wrong = result.verdict === 'proved' && why;
  failed += wrong ? 1 : 0;
  console.log(`${wrong ? 'not ok' : 'ok'} ${++number} ${result.verdict} ${result.kind} ${result.name}: ${why ?? 'equal'}`.replace(/\s+/g, ' '));
}
console.log(`1..${number}`);
process.exitCode = failed ? 1 : 0;
