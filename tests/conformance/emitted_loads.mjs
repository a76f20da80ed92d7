// What `shardplan plan --emit` writes of ONNX's backend cases, loaded in ONNX Runtime as it is sold: the annotated model,
// the simulation and the models of devices load where the original does, or a note of the manifest says why not, and no
// note says so in vain. TAP on standard output.
//
//     node emitted_loads.mjs [--every N]    of the cases; the 16th without, and all with SHARDPLAN_TEST_THOROUGH=1
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';
import { readArguments, run } from './simulate_tools.mjs';

const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const cli = process.env.SHARDPLAN ?? path.join(top, 'build/api/cli/shardplan');
const archive = path.join(process.env.SHARDPLAN_TEST_DATA ?? path.join(top, '../shared/data'), 'onnx-backend-tests.tar.gz');
const { every } = { every: process.env.SHARDPLAN_TEST_THOROUGH ? '1' : '16', ...readArguments(['every'], []) };
const DEVICES = 2, OLD = 'test_not_2d'; // of the first operator set: is looked at in any case

// Why the runtime does not load a file, or "".
async function refusal(file) {
  try {
    const session = await ort.InferenceSession.create(file, { logSeverityLevel: 4, intraOpNumThreads: 1, interOpNumThreads: 1 });
    await session.release();
    return '';
  } catch (error) {
    return String(error.message).replace(/\s+/g, ' ').slice(0, 200);
  }
}

// What is wrong with what is emitted of a model; null where there is nothing to look at.
async function look(file, cluster, out) {
  fs.rmSync(out, { recursive: true, force: true });
  if (spawnSync(cli, ['plan', file, '--cluster', cluster, '--replicas', '1', '--emit', out]).status !== 0 || (await refusal(file))) return null;
  const codes = JSON.parse(fs.readFileSync(path.join(out, 'manifest.json'), 'utf8')).notes.map(({ code }) => code);
  const isOld = codes.includes('OPERATOR_SET_OLD'), needsCollectives = codes.includes('NEEDS_COLLECTIVES'), problems = [];
  let refused = 0;
  for (const name of fs.readdirSync(out).filter((one) => one.endsWith('.onnx'))) {
    const why = await refusal(path.join(out, name));
    refused += why !== '';
    if (why && !(isOld && name !== 'annotated.onnx') && !(needsCollectives && name.startsWith('device-'))) problems.push(`${name}: ${why}`);
  }
  if (needsCollectives && refused === 0) problems.push('no model needs the collectives that a note tells of');
  return problems;
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'emitted-loads-'));
try {
  if (!fs.existsSync(archive)) {
    console.log(`ok emitted_loads # SKIP ${archive} is not there`);
  } else {
    run('tar', '-xzf', archive, '-C', folder);
    const device = { name: 'slow', memory_bytes: 1e12, memory_bandwidth: 1e12, flops: { float32: 1e7 } }, cluster = path.join(folder, 'cluster.json');
    fs.writeFileSync(cluster, JSON.stringify({ groups: [{ name: 'slow', count: DEVICES, device }], mesh: [{ name: 'link', size: DEVICES, bandwidth: 1e12, latency: 1e-7 }] }));
    const files = fs.readdirSync(path.join(folder, 'onnx-backend-tests'), { recursive: true }).filter((name) => name.endsWith('model.onnx')).sort();
    const lines = [];
    let looked = 0;
    for (const [i, name] of files.entries()) {
      if (i % Number(every) !== 0 && !name.includes(`${OLD}/`)) continue;
      const problems = await look(path.join(folder, 'onnx-backend-tests', name), cluster, path.join(folder, 'out'));
      looked += problems !== null;
      lines.push(...(problems ?? []).map((problem) => `  ${path.dirname(name)}: ${problem}`));
    }
    console.log([`${lines.length || looked === 0 ? 'not ok' : 'ok'} emitted_loads: what is emitted of ${looked} models loads, or says why not`, ...lines].join('\n'));
    process.exitCode = lines.length || looked === 0 ? 1 : 0;
  }
} finally {
  fs.rmSync(folder, { recursive: true });
}
