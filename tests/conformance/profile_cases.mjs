// Plans with times that ONNX Runtime measures here and now: real profiles of a model with and without optimisations. The
// medians are computed again by other code, and the plan's nodes must have them. TAP on standard output.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';

const TOP = join(dirname(fileURLToPath(import.meta.url)), '../..');
const RECOUNT = join(TOP, 'tests/tools/recount.py');
const CLI = process.env.SHARDPLAN ?? join(TOP, 'build/api/cli/shardplan');
const MODEL = join(TOP, 'tests/data/transformer_tiny.onnx');
const RUNS = 6;

let failures = 0;
function report(name, problems) {
  failures += problems.length > 0;
  console.log(`${problems.length > 0 ? 'not ok' : 'ok'} ${name}`);
  for (const problem of problems.slice(0, 8)) console.log(`  ${problem}`);
}

async function measure(folder, level) {
  const session = await ort.InferenceSession.create(MODEL, {
    enableProfiling: true, profileFilePrefix: join(folder, level), graphOptimizationLevel: level, intraOpNumThreads: 1,
  });
  const ids = new ort.Tensor('int64', new BigInt64Array(32).fill(7n), [2, 16]);
  for (let run = 0; run < RUNS; run++) await session.run({ ids });
  session.endProfiling();
  return join(folder, readdirSync(folder).find((name) => name.startsWith(`${level}_`)));
}

/** Name -> seconds: the median over the runs behind the first. Every node runs once in each run of this model. */
function medians(path) {
  const times = new Map();
  for (const event of JSON.parse(readFileSync(path, 'utf8'))) {
    if (event.cat !== 'Node') continue;
    const name = event.name.replace(/_kernel_time$/, '');
    times.set(name, [...(times.get(name) ?? []), event]);
  }
  return new Map([...times].map(([name, events]) => {
    const behind = events.sort((a, b) => a.ts - b.ts).slice(1).map((event) => event.dur).sort((a, b) => a - b);
    return [name, (behind[(behind.length - 1) >> 1] + behind[behind.length >> 1]) / 2 / 1e6];
  }));
}

function shardplan(...parts) {
  return execFileSync(CLI, parts, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

async function check(folder, level, least) {
  const problems = [];
  const profile = await measure(folder, level), expected = medians(profile), file = join(folder, `${level}.plan.json`);
  const plan = JSON.parse(shardplan('plan', MODEL, '--devices', '2', '--device', 'cpu-core', '--profile', profile, '--plan',
    file, '--json'));
  execFileSync('python3', [RECOUNT, file, MODEL], { stdio: ['ignore', 'inherit', 'inherit'] });
  const kept = plan.options.profile.nodes;
  if (Object.keys(kept).length !== expected.size) problems.push(`${Object.keys(kept).length} names, not ${expected.size}`);
  for (const [name, seconds] of expected) {
    if (Math.abs(kept[name] - seconds) > 1e-12) problems.push(`${name}: ${kept[name]} s, not ${seconds}`);
  }
  const [head, ...rows] = shardplan('export', file, '--model', MODEL, '--format', 'csv').trim().split('\r\n')
    .map((line) => line.split(','));
  const column = (row, name) => row[head.indexOf(name)];
  let measured = 0, running = 0;
  for (const row of rows.filter((each) => column(each, 'folded') === 'false')) {
    running++;
    const seconds = expected.get(column(row, 'node'));
    measured += seconds !== undefined;
    if (seconds !== undefined && Math.abs(Number(column(row, 'seconds')) - seconds) > 1e-12)
      problems.push(`${column(row, 'node')} takes ${column(row, 'seconds')} s, not ${seconds}`);
  }
  if (measured < least * running) problems.push(`only ${measured} of ${running} nodes have measured times`);
  const found = rows.filter((row) => expected.has(column(row, 'node'))).length; // also what is computed at load
  const note = plan.diagnostics.find((item) => item.code === 'PROFILE_USED');
  if (note === undefined || !note.message.includes(`(${found} names of the profile are those of nodes`))
    problems.push(`${found} names are those of nodes, but: ${note?.message}`);
  report(`profile: ${level}, ${measured} of ${running} nodes by name`, problems);
}

const folder = mkdtempSync(join(tmpdir(), 'shardplan-profile-'));
try {
  // Without optimisations all that runs is measured; optimised, what is left under its own name.
  await check(folder, 'disabled', 1);
  await check(folder, 'basic', 0.7);
  await check(folder, 'all', 0.1);
} finally {
  rmSync(folder, { recursive: true });
}
process.exit(failures > 0 ? 1 : 0);
