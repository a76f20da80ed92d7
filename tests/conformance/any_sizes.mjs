// An annotated model whose sizes nobody says (sizes_models.py), as models of two devices for each target: they run with
// other sizes than the plan has, all but those that are given because their axes are split. TAP on standard output.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';
import { inFolder, runDevices } from './device_run.mjs';
import { difference } from './simulate_tensor.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
const CLI = process.env.SHARDPLAN ?? join(HERE, '../../build/api/cli/shardplan');
const folder = mkdtempSync(join(tmpdir(), 'any-sizes-')), model = join(folder, 'masked.onnx'), out = join(folder, 'out');

const shell = (...words) => execFileSync(CLI, words, { stdio: ['ignore', 'ignore', 'pipe'] });
const wave = (...dims) => new ort.Tensor('float32', Float32Array.from({ length: dims.reduce((size, dim) => size * dim, 1) }, (_, i) => Math.sin(i * 7 + dims.length)), dims);

async function check(target, given, sizes) {
  const made = join(folder, `${target}${given.length}`);
  shell('export', join(out, 'annotated.onnx'), ...given, '--format', target, '-o', made);
  const { notes } = JSON.parse(readFileSync(join(made, 'manifest.json'), 'utf8'));
  if (notes.some(({ code }) => code === 'EXTENT_UNKNOWN') === given.length > 0) throw new Error('what is whole for want of a size is told wrongly');
  for (const [batch, past, seq] of sizes) {
    const feeds = { past: wave(batch, past, 16), x: wave(batch, seq, 16), mask: wave(batch, past + seq, 1), bias: wave(past + seq) };
    const expected = await original.run(feeds), { results } = await runDevices(inFolder(made), feeds, expected);
    for (const name of Object.keys(expected)) {
      const why = difference(results[name], expected[name]);
      if (why) throw new Error(`${batch}, ${past} and ${seq}: ${name}: ${why}`);
    }
  }
}

execFileSync('python3', [join(HERE, 'sizes_models.py'), folder], { stdio: ['ignore', 'inherit', 'inherit'] });
const device = { name: 'slow', memory_bytes: 1e9, memory_bandwidth: 1e8, flops: { float32: 1e6 } };
writeFileSync(join(folder, 'cluster.json'), JSON.stringify({ groups: [{ count: 2, device }], mesh: [{ name: 'net', size: 2, bandwidth: 1e10, latency: 1e-7 }] }));
shell('plan', model, '--cluster', join(folder, 'cluster.json'), '--strategy', 'tensor', '--dim', 'batch=2', '--dim', 'total=6', '--dim', 'past_len=4', '--emit', out);
const original = await ort.InferenceSession.create(model, { logSeverityLevel: 3, intraOpNumThreads: 1 });
let failures = 0;
for (const target of ['sessions', 'ort-collectives', 'tensorrt'])
  for (const [given, sizes] of [[[], [[2, 4, 2], [5, 3, 6], [1, 0, 1]]], [['--dim', 'batch=2'], [[2, 4, 2], [2, 0, 7], [2, 9, 1]]]])
    try {
      await check(target, given, sizes);
      console.log(`ok any_sizes: ${target} ${given.join(' ')}`);
    } catch (error) {
      failures++;
      console.log(`not ok any_sizes: ${target} ${given.join(' ')}\n  ${String(error.stderr ?? error).trim()}`);
    }
rmSync(folder, { recursive: true, force: true });
process.exit(failures > 0 ? 1 : 0);
