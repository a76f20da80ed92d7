// The models of several devices, carried out as their manifest says: which session runs when, and who feeds whom.
//
// Models that run at the same time are put together in one graph, in which collectives are Add, Concat and Slice over
// all ranks. They are met in lockstep, as real ranks would: where one waits for a collective that another never comes
// to, or comes to with another operator, that is an error.
import fs from 'node:fs';
import path from 'node:path';
import ort from 'onnxruntime-node';
import { fields } from './wire.mjs';

const options = { graphOptimizationLevel: 'disabled', intraOpNumThreads: 1, interOpNumThreads: 1, executionMode: 'sequential',
  enableCpuMemArena: false, enableMemPattern: false, logSeverityLevel: 4 };

/* ---- protobuf ---- */

function varint(value) {
  const bytes = [];
  for (let rest = BigInt.asUintN(64, BigInt(value)); ; rest >>= 7n) {
    const isLast = rest <= 0x7fn;
    bytes.push(Number(rest & 0x7fn) | (isLast ? 0 : 0x80));
    if (isLast) return Buffer.from(bytes);
  }
}
export const message = (number, ...payloads) => {
  const payload = Buffer.concat(payloads.map((item) => Buffer.from(item)));
  return Buffer.concat([varint(number * 8 + 2), varint(payload.length), payload]);
};
const integer = (number, value) => Buffer.concat([varint(number * 8), varint(value)]);
// 4-byte fields are floats in all messages that are taken apart here.
const again = ([number, payload]) => (typeof payload === 'bigint' ? integer(number, payload) : message(number, payload));

/* ---- names: every name in a graph gets the device's prefix ---- */

const prefixed = (prefix, number, payload) => message(number, payload.length ? prefix + payload.toString() : '');

// A record whose field `number` is its name; other fields stay byte for byte.
function renameRecord(bytes, nameField, prefix, inner = {}) {
  const parts = [];
  for (const { number, payload, raw } of rawFields(bytes)) {
    if (number === nameField) parts.push(prefixed(prefix, number, payload));
    else if (inner[number]) parts.push(message(number, inner[number](payload)));
    else parts.push(raw);
  }
  return Buffer.concat(parts);
}

export function* rawFields(bytes) {
  let at = 0;
  for (const [number, payload] of fields(bytes)) {
    // The end of a field follows from its payload where it has one, else it is found again.
    const start = at;
    let [tag, next] = skipVarint(bytes, at);
    switch (Number(tag & 7n)) {
      case 0: next = skipVarint(bytes, next)[1]; break;
      case 1: next += 8; break;
      case 2: { const [size, after] = skipVarint(bytes, next); next = after + Number(size); break; }
      default: next += 4;
    }
    at = next;
    yield { number, payload, raw: bytes.subarray(start, at) };
  }
}
function skipVarint(bytes, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[at++];
    value |= BigInt(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return [value, at];
  }
}

const renameAttribute = (bytes, prefix) => renameRecord(bytes, 0, prefix, { 6: (graph) => renameGraph(graph, prefix), 11: (graph) => renameGraph(graph, prefix) });
const renameNode = (bytes, prefix) => {
  const parts = [];
  for (const { number, payload, raw } of rawFields(bytes)) {
    if (number <= 3) parts.push(prefixed(prefix, number, payload));
    else if (number === 5) parts.push(message(5, renameAttribute(payload, prefix)));
    else parts.push(raw);
  }
  return Buffer.concat(parts);
};
const renameSparse = (bytes, prefix) => renameRecord(bytes, 0, prefix, { 1: (tensor) => renameRecord(tensor, 8, prefix) });
const renamers = { 1: renameNode, 5: (bytes, prefix) => renameRecord(bytes, 8, prefix), 15: renameSparse,
  11: (bytes, prefix) => renameRecord(bytes, 1, prefix), 12: (bytes, prefix) => renameRecord(bytes, 1, prefix), 13: (bytes, prefix) => renameRecord(bytes, 1, prefix) };

function renameGraph(bytes, prefix) {
  const parts = [];
  for (const { number, payload, raw } of rawFields(bytes)) parts.push(renamers[number] ? message(number, renamers[number](payload, prefix)) : raw);
  return Buffer.concat(parts);
}

/* ---- collectives ---- */

function parseNode(bytes) {
  const node = { inputs: [], outputs: [], op: '', domain: '', attributes: {} };
  for (const [number, payload] of fields(bytes)) {
    if (number === 1) node.inputs.push(payload.toString());
    else if (number === 2) node.outputs.push(payload.toString());
    else if (number === 4) node.op = payload.toString();
    else if (number === 7) node.domain = payload.toString();
    else if (number === 5) {
      const all = [...fields(payload)], name = all.find(([field]) => field === 1)[1].toString();
      const ints = all.filter(([field]) => field === 8).map(([, value]) => Number(value));
      const int = all.find(([field]) => field === 3), text = all.find(([field]) => field === 4);
      node.attributes[name] = ints.length ? ints : text ? text[1].toString() : int ? Number(BigInt.asIntN(64, int[1])) : null;
    }
  }
  return node;
}

const simple = (op, inputs, output, ...attributes) =>
  message(1, ...inputs.map((name) => message(1, name)), message(2, output), message(4, op), ...attributes);
const intAttribute = (name, value) => message(5, message(1, name), integer(3, value), integer(20, 2));

// What a collective is, in the same words for both kinds; null for other operators.
function collectiveOf(node, rank, worldSize) {
  const all = Array.from({ length: worldSize }, (_, i) => i);
  if (node.domain === 'com.microsoft' && node.op === 'AllReduce') return { kind: 'ALL_REDUCE', reduce: 'SUM', ranks: all };
  if (node.domain === 'com.microsoft' && ['AllGather', 'AllToAll'].includes(node.op)) {
    if (node.attributes.group_size !== worldSize) throw new Error(`${node.op} of ${node.attributes.group_size} in a world of ${worldSize}`);
    return { kind: node.op === 'AllGather' ? 'ALL_GATHER' : 'ALL_TO_ALL', axis: node.attributes.axis ?? 0, ranks: all };
  }
  if (node.op !== 'DistCollective') return null;
  const { groups, nb_rank: count } = node.attributes;
  const kind = node.attributes.collective_operation.toUpperCase(), reduce = node.attributes.reduce_op.toUpperCase();
  const ranks = groups ?? all;
  if (count !== ranks.length || !ranks.includes(rank)) throw new Error(`rank ${rank} in a group of ${count}: ${ranks}`);
  return { kind, reduce, axis: 0, ranks };
}

const combiners = { SUM: 'Add', MAX: 'Max', MIN: 'Min', PROD: 'Mul' };
let serial = 0;

function combine(names, op, output) {
  const nodes = [];
  let sum = names[0];
  names.slice(1).forEach((name, i) => {
    const to = i + 2 === names.length ? output : `sum:${serial++}`;
    nodes.push(simple(op, [sum, name], to));
    sum = to;
  });
  return names.length === 1 ? [simple('Identity', names, output)] : nodes;
}

// Equal parts along the first axis; since opset 18 their number is said.
function split(name, count, opset) {
  const parts = Array.from({ length: count }, () => `part:${serial++}`);
  const number = opset >= 18 ? [intAttribute('num_outputs', count)] : [];
  return { parts, node: message(1, message(1, name), ...parts.map((part) => message(2, part)), message(4, 'Split'), intAttribute('axis', 0), ...number) };
}

// The nodes that give each of `ranks` its output; inputs and outputs are by place in the group.
function joint(collective, inputs, outputs, opset) {
  const op = combiners[collective.reduce];
  switch (collective.kind) {
    case 'ALL_REDUCE':
      return outputs.flatMap((output) => combine(inputs, op, output));
    case 'ALL_GATHER':
      return outputs.map((output) => simple('Concat', inputs, output, intAttribute('axis', collective.axis)));
    case 'REDUCE_SCATTER': {
      const sum = `sum:${serial++}`, { parts, node } = split(sum, outputs.length, opset);
      return [...combine(inputs, op, sum), node, ...outputs.map((output, i) => simple('Identity', [parts[i]], output))];
    }
    case 'ALL_TO_ALL': {
      const all = inputs.map((input) => split(input, inputs.length, opset));
      return [...all.map(({ node }) => node),
        ...outputs.map((output, i) => simple('Concat', all.map(({ parts }) => parts[i]), output, intAttribute('axis', 0)))];
    }
    default:
      throw new Error(`a collective ${collective.kind}`);
  }
}

// One graph of several devices' graphs. `models`: [{ prefix, rank, worldSize, bytes }].
export function link(models) {
  const nodes = [], others = [], heads = new Map(), functions = [];
  let opset = 0;
  const devices = models.map(({ prefix, rank, worldSize, bytes }) => {
    const waiting = [];
    for (const { number, payload, raw } of rawFields(bytes)) {
      if (number === 7) {
        for (const field of rawFields(renameGraph(payload, prefix))) {
          if (field.number === 1) waiting.push(field);
          else if (field.number !== 2) others.push(field.raw);
        }
      } else if (number === 25 && rank === models[0].rank) functions.push(raw);
      else if (number === 1 || number === 8) heads.set(raw.toString('latin1'), raw);
      if (number === 8) {
        const parts = new Map(fields(payload));
        if (!parts.get(1)?.length) opset = Number(parts.get(2));
      }
    }
    return { rank, worldSize, waiting, at: 0, collective: null, node: null };
  });
  const byRank = new Map(devices.map((device) => [device.rank, device]));
  const advance = (device) => {
    for (device.collective = null; device.at < device.waiting.length; device.at++) {
      const field = device.waiting[device.at], node = parseNode(field.payload);
      device.collective = collectiveOf(node, device.rank, device.worldSize);
      device.node = node;
      if (device.collective) return;
      nodes.push(field.raw);
    }
  };
  devices.forEach(advance);
  let met = 0;
  for (;;) {
    const blocked = devices.filter(({ collective }) => collective);
    if (blocked.length === 0) break;
    const key = ({ collective }) => JSON.stringify(collective);
    const ready = blocked.find((device) => device.collective.ranks.every((rank) => byRank.get(rank)?.collective && key(byRank.get(rank)) === key(device)));
    if (!ready) throw new Error(`deadlock: rank ${blocked[0].rank} waits in ${key(blocked[0])}`);
    const group = ready.collective.ranks.map((rank) => byRank.get(rank));
    nodes.push(...joint(ready.collective, group.map(({ node }) => node.inputs[0]), group.map(({ node }) => node.outputs[0]), opset));
    met++;
    for (const device of group) {
      device.at++;
      advance(device);
    }
  }
  const graph = message(7, ...nodes, message(2, 'linked'), ...others);
  return { bytes: Buffer.concat([...heads.values(), ...functions, graph]), collectives: met };
}

/* ---- tensors ---- */

const runsOf = (box, dims) => (box ?? dims.map((dim) => [0, dim])).map((axis, i) =>
  (Array.isArray(axis[0]) ? axis : [axis]).map(([start, limit]) => [start, limit ?? dims[i]]));
const sizeOf = (dims) => dims.reduce((product, dim) => product * dim, 1);

// Calls visit(whole, part) with the indices of each element of a box.
function eachElement(dims, box, visit) {
  const indices = runsOf(box, dims).map((ranges) => ranges.flatMap(([start, limit]) => Array.from({ length: limit - start }, (_, i) => start + i)));
  const strides = dims.map((_, i) => sizeOf(dims.slice(i + 1))), own = indices.map((list) => list.length), total = sizeOf(own);
  for (let part = 0; part < total; part++) {
    let whole = 0, rest = part;
    for (let axis = dims.length; axis-- > 0; rest = Math.floor(rest / own[axis])) whole += indices[axis][rest % own[axis]] * strides[axis];
    visit(whole, part);
  }
  return own;
}

export function takeBox(tensor, box) {
  if (!box) return tensor;
  const picked = [];
  const dims = eachElement(tensor.dims, box, (whole) => picked.push(whole));
  const data = tensor.type === 'string' ? picked.map((i) => tensor.data[i]) : tensor.data.constructor.from(picked, (i) => tensor.data[i]);
  return new ort.Tensor(tensor.type, data, dims);
}

// Part `part` of a tensor that a manifest's micro_batches cut, and all parts one behind the other; without an axis each has
// the same.
export function cutAlong(tensor, { axis, extent }, part) {
  if (axis === null) return tensor;
  return takeBox(tensor, tensor.dims.map((dim, i) => (i === axis ? [part * extent, (part + 1) * extent] : [0, dim])));
}
export function joinAlong(parts, { axis, extent }) {
  if (axis === null) return parts[0];
  const dims = parts[0].dims.map((dim, i) => (i === axis ? extent * parts.length : dim));
  const whole = new Assembly({ type: parts[0].type, dims, data: parts[0].type === 'string' ? Array(sizeOf(dims)) : new parts[0].data.constructor(sizeOf(dims)) });
  parts.forEach((tensor, part) => whole.put(tensor, dims.map((dim, i) => (i === axis ? [part * extent, (part + 1) * extent] : [0, dim]))));
  return whole.tensor;
}

// A tensor that is put together of boxes; `like` says of what type and extents.
class Assembly {
  constructor(like) {
    this.like = like;
    this.data = like.type === 'string' ? Array(like.data.length) : new like.data.constructor(like.data.length);
    this.filled = new Uint8Array(like.data.length);
  }
  put(tensor, box) {
    const dims = eachElement(this.like.dims, box, (whole, part) => {
      this.data[whole] = tensor.data[part];
      this.filled[whole] = 1;
    });
    if (String(dims) !== String(tensor.dims)) throw new Error(`a part has the shape [${tensor.dims}] instead of [${dims}]`);
  }
  get tensor() {
    if (this.filled.some((is) => !is)) throw new Error('the devices do not give all of an output');
    return new ort.Tensor(this.like.type, this.data, this.like.dims);
  }
}

/* ---- running ---- */

// Where the manifest and its models are: files of one prefix, or a folder of `plan --emit`.
export const withPrefix = (prefix) => ({ manifest: `${prefix}.json`, fileOf: (model) => `${prefix}.${model}` });
export const inFolder = (folder) => ({ manifest: path.join(folder, 'manifest.json'), fileOf: (model) => path.join(folder, model) });

// Runs a manifest. `feeds` are the original's, `expected` its results by name (for types and extents). What a device has
// of an input already is in `held`, by "DEVICE INPUT", and is not looked for in `feeds`; what each has of the outputs comes
// back in the same form.
export async function runDevices({ manifest: manifestFile, fileOf }, feeds, expected, held = new Map()) {
  const manifest = JSON.parse(fs.readFileSync(manifestFile, 'utf8'));
  if (manifest.failure) throw new Error(manifest.failure);
  const models = new Map(), stored = new Map(), parts = new Map();
  const assemblies = Object.fromEntries(Object.entries(expected).map(([name, tensor]) => [name, new Assembly(tensor)]));
  const worldSizes = new Map();
  for (const { world } of manifest.devices) worldSizes.set(world, (worldSizes.get(world) ?? 0) + 1);
  for (const { id, world, rank, parts: own } of manifest.devices) {
    own.forEach((part) => models.set(part.model, { ...part, id, number: part.part, rank, worldSize: worldSizes.get(world), prefix: `d${id}:` }));
  }
  const counts = { sessions: 0, collectives: 0, models: models.size };
  for (const together of manifest.order) {
    const group = together.map((name) => models.get(name));
    const { bytes, collectives } = link(group.map((part) => ({ ...part, bytes: fs.readFileSync(fileOf(part.model)) })));
    const inputs = {};
    for (const part of group) {
      for (const input of part.inputs) {
        const name = part.prefix + input.name;
        if (input.from === 'input') inputs[name] = held.get(`${part.id} ${input.tensor}`) ?? takeBox(feeds[input.tensor], input.box);
        else inputs[name] = stored.get(`${input.device} ${input.part} ${input.output}`);
        if (!inputs[name]) throw new Error(`${part.model} needs ${JSON.stringify(input)} before it is there`);
      }
    }
    const session = await ort.InferenceSession.create(bytes, options);
    try {
      if (String([...session.inputNames].sort()) !== String(Object.keys(inputs).sort())) throw new Error(`the models take ${session.inputNames} and the manifest gives ${Object.keys(inputs)}`);
      const results = await session.run(inputs);
      for (const part of group) {
        for (const output of part.outputs) {
          const tensor = results[part.prefix + output.name];
          if (!tensor) throw new Error(`${part.model} does not give ${output.name}`);
          stored.set(`${part.id} ${part.number} ${output.name}`, tensor);
          if (output.to !== 'output') continue;
          parts.set(`${part.id} ${output.tensor}`, tensor);
          if (assemblies[output.tensor]) assemblies[output.tensor].put(tensor, output.box);
        }
      }
    } finally {
      await session.release();
    }
    counts.sessions++;
    counts.collectives += collectives;
    for (const part of group) models.delete(part.model);
  }
  if (models.size > 0) throw new Error(`${[...models.keys()]} never run`);
  return { results: Object.fromEntries(Object.entries(assemblies).map(([name, assembly]) => [name, assembly.tensor])), counts, parts };
}
