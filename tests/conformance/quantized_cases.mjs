// Quantised models split over devices: DequantizeLinear of a constant before a product, a convolution or a lookup, in each
// form that the runtime has kernels for, along each axis; and MatMulNBits, whose scales may lie in one row. The annotated model, the simulation and the devices' models must
// give what the original gives, and each device's file must hold the part of the quantised weights that the plan says.
// TAP on standard output.
//
//     node quantized_cases.mjs [--only TEXT]
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ort from 'onnxruntime-node';
import { inFolder, runDevices } from './device_run.mjs';
import { difference, makeTensor } from './simulate_tensor.mjs';
import { readArguments } from './simulate_tools.mjs';
import { fields } from './wire.mjs';

const TOP = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const CLI = process.env.SHARDPLAN ?? path.join(TOP, 'build/api/cli/shardplan');
const { only } = readArguments(['only'], []);
const options = { graphOptimizationLevel: 'disabled', intraOpNumThreads: 1, logSeverityLevel: 4 };

/* ---- models: field numbers are those of onnx.proto ---- */

function varint(value) {
  const bytes = [];
  for (let rest = BigInt.asUintN(64, BigInt(value)); ; rest >>= 7n) {
    bytes.push(Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0));
    if (rest <= 0x7fn) return Buffer.from(bytes);
  }
}
const message = (number, ...parts) => {
  const payload = Buffer.concat(parts.map((part) => Buffer.from(part)));
  return Buffer.concat([varint(number * 8 + 2), varint(payload.length), payload]);
};
const integer = (number, value) => Buffer.concat([varint(number * 8), varint(value)]);

const types = { float32: [1, 32], uint8: [2, 8], int8: [3, 8], uint16: [4, 16], int16: [5, 16], int32: [6, 32], int64: [7, 64],
  float8e4m3fn: [17, 8], float8e5m2: [19, 8], uint4: [21, 4], int4: [22, 4], float4e2m1: [23, 4], uint2: [25, 2], int2: [26, 2] };
const sizeOf = (dims) => dims.reduce((product, dim) => product * dim, 1);

const attribute = (name, value) => (Array.isArray(value)
  ? message(5, message(1, name), ...value.map((item) => integer(8, item)), integer(20, 7))
  : message(5, message(1, name), integer(3, value), integer(20, 2)));
const node = (op, inputs, output, attributes = {}, domain = '') => message(1, ...inputs.map((name) => message(1, name)),
  message(2, output), message(3, `${op}_${output}`), message(4, op),
  ...Object.entries(attributes).map(([name, value]) => attribute(name, value)), ...(domain ? [message(7, domain)] : []));
const valueInfo = (field, name, type, dims) => message(field, message(1, name),
  message(2, message(1, integer(1, types[type][0]), message(2, ...dims.map((dim) => message(1, integer(1, dim)))))));

// Bytes that repeat late; of 8-bit floats none that is no number or large.
function tensor(name, type, dims) {
  const [number, bits] = types[type], size = Math.ceil(sizeOf(dims) * bits / 8);
  let state = [...name].reduce((hash, char) => hash * 31 + char.charCodeAt(0), 7);
  const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const raw = type === 'float32' ? Buffer.from(Float32Array.from({ length: sizeOf(dims) }, () => 0.01 + next() / 50).buffer)
    : Buffer.from(Array.from({ length: size }, () => Math.floor(next() * 256) & (type.startsWith('float8') ? 0xbf : 0xff)));
  return message(5, ...dims.map((dim) => integer(1, dim)), integer(2, number), message(8, name), message(9, raw));
}
const model = (nodes, tensors, inputs, domain) => Buffer.concat([integer(1, 11),
  message(8, message(1, ''), integer(2, 23)), ...(domain ? [message(8, message(1, domain), integer(2, 1))] : []),
  message(7, ...nodes, message(2, 'g'), ...tensors, ...inputs.map(({ name, type, dims }) => valueInfo(11, name, type, dims)),
    message(12, message(1, 'y')))]);

/* ---- cases ---- */

const forms = [
  { type: 'int8' }, { type: 'uint8', zero: true }, { type: 'int8', axis: 0 }, { type: 'uint8', axis: 1, zero: true },
  { type: 'int8', axis: 0, block: 16 }, { type: 'uint8', axis: 1, block: 16, zero: true }, { type: 'int4' },
  { type: 'int4', axis: 1 }, { type: 'int4', axis: 0, block: 16 }, { type: 'uint4', axis: 1, block: 32, zero: true },
  { type: 'int16' }, { type: 'uint16', axis: 0, zero: true }, { type: 'float8e4m3fn' }, { type: 'float8e5m2', axis: 1 },
  { type: 'float8e4m3fn', axis: 0, block: 16 }, { type: 'float4e2m1', axis: 0, block: 16 }, { type: 'int2', axis: 0, block: 16 },
];
const nameOf = ({ type, axis, block, zero }) => [type, type.startsWith('scales') ? 'packed' : axis === undefined ? 'per tensor' : block ? `blocks of ${block} on axis ${axis}`
  : `axis ${axis}`, ...(zero ? ['with zero points'] : [])].join(', ');

const rows = { name: 'x', type: 'float32', dims: [8, 64] }, image = { name: 'x', type: 'float32', dims: [2, 64, 6, 6] };
const ids = { name: 'x', type: 'int64', dims: [3, 5] };
const users = [
  { name: 'MatMul', dims: [64, 96], input: rows, weight: 'f', nodes: [node('MatMul', ['x', 'f'], 'y')] },
  { name: 'Gemm', dims: [96, 64], input: rows, weight: 'f', nodes: [node('Gemm', ['x', 'f'], 'y', { transB: 1 })] },
  { name: 'Transpose and MatMul', dims: [96, 64], input: rows, weight: 't',
    nodes: [node('Transpose', ['f'], 't', { perm: [1, 0] }), node('MatMul', ['x', 't'], 'y')] },
  { name: 'Gather', dims: [64, 96], input: ids, weight: 'f', nodes: [node('Gather', ['f', 'x'], 'y')] },
  { name: 'Conv', dims: [96, 64, 3, 3], input: image, weight: 'f', nodes: [node('Conv', ['x', 'f'], 'y', { pads: [1, 1, 1, 1] })] },
  { name: 'ConvTranspose', dims: [64, 96, 3, 3], input: image, weight: 'f', nodes: [node('ConvTranspose', ['x', 'f'], 'y')] },
];

// [96, 64] in blocks of 16.
function* packedCases() {
  for (const flat of [true, false]) {
    for (const zero of [false, true]) {
      const scale = flat ? [96 * 4] : [96, 4], zeros = flat ? [96 * 2] : [96, 2], names = ['x', 'w', 's', ...(zero ? ['z'] : [])];
      const user = { name: 'MatMulNBits', input: rows, weight: 'w', dims: [96, 4, 8],
        nodes: [node('MatMulNBits', names, 'y', { K: 64, N: 96, bits: 4, block_size: 16 }, 'com.microsoft')],
        tensors: [tensor('w', 'uint8', [96, 4, 8]), tensor('s', 'float32', scale), ...(zero ? [tensor('z', 'uint8', zeros)] : [])] };
      /* Bytes of zero points have two blocks. */
      for (const cut of [[2, 1, 1], [4, 1, 1], [1, 2, 1], ...(zero ? [] : [[1, 4, 1]]), ...(flat ? [] : [[2, 2, 1]])]) {
        yield { user, form: { type: flat ? 'scales in one row' : 'scales in rows', zero }, cut };
      }
    }
  }
}

function* cases() {
  yield* packedCases();
  for (const [number, user] of users.entries()) {
    for (const form of forms) {
      if (number > 0 && !(form.axis !== undefined && ['int8', 'int4', 'uint4'].includes(form.type))) continue;
      for (const cut of [[2, 1], [1, 2], [4, 1], [1, 4], [2, 2]]) {
        if (form.block && user.dims[form.axis] / form.block % cut[user.weight === 't' ? 1 - form.axis : form.axis]) continue; /* not in whole blocks */
        yield { user, form, cut: [...cut, ...user.dims.slice(2).map(() => 1)] };
      }
    }
  }
}

// What a device has whole beside its part of the weight: the scales of an axis that is not cut.
const wholeBytes = ({ form, user }) => (form.axis === undefined || form.block ? 0 : user.dims[form.axis] * (4 + (form.zero ? 4 : 0)));

function write(file, { user, form }) {
  if (user.tensors) return fs.writeFileSync(file, model(user.nodes, user.tensors, [user.input], 'com.microsoft'));
  const scale = form.axis === undefined ? [] : form.block ? user.dims.map((dim, i) => (i === form.axis ? dim / form.block : dim)) : [user.dims[form.axis]];
  const attributes = { ...(form.axis !== undefined ? { axis: form.axis } : {}), ...(form.block ? { block_size: form.block } : {}) };
  const tensors = [tensor('w', form.type, user.dims), tensor('s', 'float32', scale), ...(form.zero ? [tensor('z', form.type, scale)] : [])];
  fs.writeFileSync(file, model([node('DequantizeLinear', ['w', 's', ...(form.zero ? ['z'] : [])], 'f', attributes), ...user.nodes], tensors, [user.input]));
}

/* ---- running ---- */

const feedsOf = ({ name, type, dims }) => ({ [name]: makeTensor(type, dims,
  Array.from({ length: sizeOf(dims) }, (_, i) => (type === 'int64' ? (i * 37) % 64 : Math.sin(i * 1.7)))) });

async function compute(file, feeds) {
  const session = await ort.InferenceSession.create(file, options);
  try {
    return (await session.run(feeds, ['y'])).y;
  } finally {
    await session.release();
  }
}

// The bytes of the initializers of a file; of constants of the split a few more.
function weightsIn(file) {
  let sum = 0;
  for (const [field, graph] of fields(fs.readFileSync(file))) {
    if (field !== 7) continue;
    for (const [inner, tensor] of fields(graph)) if (inner === 5) for (const [part, raw] of fields(tensor)) if (part === 9) sum += raw.length;
  }
  return sum;
}

// A slow device, so that splitting pays.
function cluster(folder, count) {
  const file = path.join(folder, 'cluster.json');
  fs.writeFileSync(file, JSON.stringify({ count, device: { name: 'slow', memory_bytes: 1e9, memory_bandwidth: 1e9, flops: { float32: 1e7 }, link_bandwidth: 1e10 } }));
  return file;
}

async function check(folder, one) {
  const original = path.join(folder, 'model.onnx'), emitted = path.join(folder, 'emitted'), constraints = path.join(folder, 'constraints.json');
  write(original, one);
  const feeds = feedsOf(one.user.input);
  let expected;
  try {
    expected = await compute(original, feeds);
  } catch (error) {
    return `SKIP the runtime has no kernel: ${String(error.message).replace(/\s+/g, ' ').slice(0, 100)}`;
  }
  fs.rmSync(emitted, { recursive: true, force: true });
  fs.writeFileSync(constraints, JSON.stringify({ specs: [{ tensor: one.user.weight, shards: one.cut }] }));
  const done = spawnSync(CLI, ['plan', original, '--cluster', cluster(folder, sizeOf(one.cut)), '--strategy', 'tensor', '--constraints', constraints,
    '--emit', emitted], { encoding: 'utf8' });
  if (done.status !== 0) throw new Error(`status ${done.status}: ${done.stderr}`);
  const plan = JSON.parse(fs.readFileSync(path.join(emitted, 'plan.json'))), tolerance = { rtol: 1e-3, atol: 1e-3 };
  for (const name of ['annotated', 'simulation']) {
    const why = difference(await compute(path.join(emitted, `${name}.onnx`), feeds), expected, tolerance);
    if (why) throw new Error(`${name}: ${why}`);
  }
  const { results } = await runDevices(inFolder(emitted), feeds, { y: expected });
  const why = difference(results.y, expected, tolerance);
  if (why) throw new Error(`devices: ${why}`);
  for (const { id, memory } of plan.devices) {
    const held = weightsIn(path.join(emitted, `device-${id}.onnx`));
    if (Math.abs(held - memory.weights_bytes) > 0.02 * memory.weights_bytes + 128 + wholeBytes(one)) throw new Error(`device ${id} holds ${held} bytes of weights, the plan says ${memory.weights_bytes}`);
  }
  return null;
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-quantized-'));
try {
  let number = 0, failed = 0;
  for (const one of cases()) {
    const name = `${one.user.name} by ${nameOf(one.form)}, in ${one.cut.join(' x ')}`;
    if (only && !name.includes(only)) continue;
    number++;
    try {
      const skipped = await check(folder, one);
      console.log(`ok ${number} quantized ${name}${skipped ? ` # ${skipped}` : ''}`);
    } catch (error) {
      failed++;
      console.log(`not ok ${number} quantized ${name}\n  ${String(error.message).replace(/\s+/g, ' ').slice(0, 400)}`);
    }
  }
  console.log(`# quantized_cases: ${number - failed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
} finally {
  fs.rmSync(folder, { recursive: true });
}
