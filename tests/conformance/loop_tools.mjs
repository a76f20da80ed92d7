// What the tests of loops share: decoders and what their steps take, slow devices, the command, and the models that
// plan --emit wrote for the phases of a service.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';
import { inFolder, message, rawFields } from './device_run.mjs';
import { difference } from './simulate_tensor.mjs';
import { fields } from './wire.mjs';

export const here = path.dirname(fileURLToPath(import.meta.url)), top = path.resolve(here, '../..');
const cli = process.env.SHARDPLAN ?? path.join(top, 'build/api/cli/shardplan');
export const data = process.env.SHARDPLAN_TEST_DATA ?? path.join(top, '../shared/data');
export const scripts = path.join(data, 'faults/real-files');
export const options = { graphOptimizationLevel: 'disabled', intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 4 };
const HEAD = 16;
const near = { rtol: 1e-3, atol: 1e-4 };

/* ---- inputs ---- */

export const ints = (dims, list) => new ort.Tensor('int64', BigInt64Array.from(list, BigInt), dims);
export const floats = (dims, of) => new ort.Tensor('float32', Float32Array.from({ length: dims.reduce((all, dim) => all * dim, 1) }, (_, i) => of(i)), dims);

// What is added to the scores: nothing for what a query sees, and -1e4 for what comes after it.
export const causal = (batch, past, seq) => floats([batch, 1, seq, past + seq], (i) => (i % (past + seq) > past + (Math.floor(i / (past + seq)) % seq) ? -1e4 : 0));
export const angles = (past, seq, of) => floats([seq, HEAD], (i) => of((past + Math.floor(i / HEAD)) / 100 ** ((i % (HEAD / 2)) / (HEAD / 2))));

/* ---- plans ---- */

// So slow that splitting the smallest operator pays, and that each stage counts.
const device = { name: 'slow', memory_bytes: 1e9, memory_bandwidth: 1e9, flops: { float32: 1e7 } };
export const clusterOf = (...levels) => ({ runtime: 'generic', launch_seconds: 1e-9, groups: [{ name: 'slow', count: levels.reduce((all, [, size]) => all * size, 1), device }],
  mesh: levels.map(([name, size]) => ({ name, size, bandwidth: 1e10, latency: 1e-7 })) });

export function shell(...words) {
  const { status, stdout, stderr } = spawnSync(cli, words, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${words[0]} ends with ${status}: ${stderr}`);
  return stdout;
}
export const dims = (sizes) => Object.entries(sizes).flatMap(([name, size]) => ['--dim', `${name}=${size}`]);
export const statesOf = (model) => JSON.parse(shell('inspect', model, '--json')).states;

export function compare(results, expected, what) {
  for (const name of Object.keys(expected)) {
    const why = difference(results[name], expected[name], near);
    if (why) throw new Error(`${what}, '${name}': ${why}`);
  }
}

// What devices keep of what they made, for their next step.
export const heldOf = (parts, states) => new Map([...parts].flatMap(([key, tensor]) => {
  const [id, ...name] = key.split(' '), state = states.find(({ present }) => present === name.join(' '));
  return state ? [[`${id} ${state.past}`, tensor]] : [];
}));

const INITIALIZER = 5, RAW_DATA = 9, EXTERNAL_DATA = 13, DATA_LOCATION = 14;

// A tensor with its data inside, and where they were: [FILE, OFFSET, LENGTH], or nothing.
function inlined(out, tensor) {
  const rest = [], place = {};
  for (const { number, payload, raw } of rawFields(tensor)) {
    if (number === EXTERNAL_DATA) {
      const entry = Object.fromEntries([...fields(payload)].map(([key, text]) => [key, text.toString()]));
      place[entry[1]] = entry[2];
    } else if (number !== DATA_LOCATION) rest.push(raw);
  }
  if (!place.location) return { tensor };
  const offset = Number(place.offset), length = Number(place.length), data = fs.readFileSync(path.join(out, place.location)).subarray(offset, offset + length);
  if (data.length !== length) throw new Error(`${place.location} ends before ${offset + length}`);
  return { tensor: Buffer.concat([...rest, message(RAW_DATA, data)]), place: [place.location, offset, length] };
}

// Of each phase the devices' models as plan --emit wrote them, with their weights inside, and how requests are cut for them; that
// the phases have the same weights.
export function emittedPhases(folder, out, plan, names) {
  const manifest = JSON.parse(fs.readFileSync(path.join(out, 'manifest.json'), 'utf8')), held = [];
  if (manifest.phases.map(({ name }) => name).join() !== names.join()) throw new Error('the manifest names other phases');
  const phases = manifest.phases.map((phase, i) => {
    if (phase.configuration !== plan.service.phases[i].configuration) throw new Error('plan and manifest name different configurations');
    const to = path.join(folder, `emitted-${phase.name}`), of = phase.devices ? phase : manifest, places = new Map();
    fs.mkdirSync(to);
    fs.writeFileSync(path.join(to, 'manifest.json'), JSON.stringify(of));
    for (const { id, parts } of of.devices) for (const { model } of parts) {
      const bytes = fs.readFileSync(path.join(out, model)), parts = [];
      for (const { number, payload, raw } of rawFields(bytes)) {
        parts.push(number !== 7 ? raw : message(7, ...[...rawFields(payload)].map((field) => {
          if (field.number !== INITIALIZER) return field.raw;
          const { tensor, place } = inlined(out, field.payload);
          if (place && place[0] !== `device-${id}.onnx.data`) throw new Error(`${model} has weights in ${place[0]}`);
          if (place) places.set(place.join(), place[2]);
          return message(INITIALIZER, tensor);
        })));
      }
      fs.writeFileSync(path.join(to, model), Buffer.concat(parts));
    }
    held.push([...places.keys()].sort().join('; '));
    return { files: inFolder(to), cuts: of.micro_batches };
  });
  if (held[0] === '' || held[0] !== held[1]) throw new Error(`the phases have other weights: ${held[0]} and ${held[1]}`);
  return phases;
}
