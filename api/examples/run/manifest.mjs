// What a manifest says (core/realize/realize.h has all members): who runs which models, and what goes where.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';

const VERSION = 1;

/** Reads and checks the manifest of a folder. `digest` tells it from all others. */
export function readManifest(folder) {
  const bytes = fs.readFileSync(path.join(folder, 'manifest.json')), manifest = JSON.parse(bytes);
  if (manifest.version !== VERSION)
    throw new Error(`The manifest has version ${manifest.version ?? 'none'}, and this program reads version ${VERSION}: write the models again with the shardplan that this program came with.`);
  const sizes = new Map();
  for (const { world } of manifest.devices) sizes.set(world, (sizes.get(world) ?? 0) + 1);
  if ([...sizes.values()].some((size) => size > 1))
    throw new Error(`These models exchange by collectives (${manifest.target}), which this program's runtime does not have: write them with 'shardplan export PLAN.json --model MODEL --format sessions -o DIR'.`);
  if (manifest.micro_batches)
    throw new Error(`These models run ${manifest.micro_batches.count} times for a request, once for each micro-batch, which this program does not do: plan without --micro-batches.`);
  return { ...manifest, folder, digest: createHash('sha256').update(bytes).digest('hex') };
}

/** Which devices of the cluster run the models of each copy of the plan, in the order of `devices`. */
export const copiesOf = (manifest) => manifest.copies ?? [manifest.devices.map(({ id }) => id)];

export const routeCount = (manifest) => manifest.routes?.length ?? 1;

/**
 * What one device does on a route: its parts in their order, each with its inputs and outputs. An input has the `key`
 * under which it is waited for; an output the devices that it goes to. What a step of a loop hands to the next has the
 * name of the state, `past` of an input and `present` of an output.
 */
export function partsOn(manifest, route, id) {
  const states = new Map(manifest.states.map(({ past, present }) => [present, past]));
  const device = manifest.devices.find((each) => each.id === id), sources = inputsOn(manifest, route);
  if (!sources.has(id)) return [];
  const keyOf = ({ device, part, output }) => `${device} ${part} ${output}`;
  const takers = new Map();
  for (const [taker, list] of sources) for (const source of list.values()) if (source.device !== undefined) takers.set(keyOf(source), (takers.get(keyOf(source)) ?? new Set()).add(taker));
  return [...device.parts].sort((a, b) => a.part - b.part).map(({ part, model, inputs, outputs }) => ({
    model,
    inputs: inputs.map(({ name }) => {
      const source = sources.get(id).get(`${part} ${name}`), isPast = [...states.values()].includes(source.tensor);
      return { name, key: source.device === undefined ? inputKey(part, name) : keyOf(source), past: isPast ? source.tensor : null, box: source.box };
    }),
    outputs: outputs.filter(({ to }) => to !== 'nobody').map(({ name, to, tensor, box }) => {
      const key = keyOf({ device: id, part, output: name });
      return { name, key, isResult: to === 'output', present: states.get(tensor) ?? null, box, to: [...(takers.get(key) ?? [])] };
    }) }));
}

/** Whether the device makes all that it takes of the states, from where on it takes it: else a loop cannot be run. */
export function checkStates(parts) {
  const startsOf = (box) => JSON.stringify(box?.map((axis) => (Array.isArray(axis[0]) ? axis : [axis]).map(([start]) => start)) ?? null);
  const made = new Map(parts.flatMap(({ outputs }) => outputs.flatMap(({ present, box }) => (present ? [[present, startsOf(box)]] : []))));
  for (const { inputs } of parts)
    for (const { past, box } of inputs)
      if (past && made.get(past) !== startsOf(box)) throw new Error(`The plan does not keep the state '${past}' where it is made: no loop can be run.`);
}

const inputKey = (part, name) => `input ${part} ${name}`;

// Device -> "PART INPUT" -> where it comes from: {tensor, box} of the model's inputs, or {device, part, output}.
function inputsOn(manifest, route) {
  const on = manifest.routes?.[route], result = new Map();
  for (const { id, parts } of manifest.devices) {
    if (on && !on.devices.includes(id)) continue;
    const sources = new Map();
    for (const { part, inputs } of parts)
      for (const port of inputs) {
        const own = port.from === 'device' && on?.inputs.find((each) => each.device === id && each.input === port.name);
        sources.set(`${part} ${port.name}`, own ? { device: own.from, part: partOf(manifest, own.from, own.output), output: own.output } : port);
      }
    result.set(id, sources);
  }
  return result;
}

const partOf = (manifest, id, output) =>
  manifest.devices.find((each) => each.id === id).parts.find(({ outputs }) => outputs.some(({ name }) => name === output)).part;

/** What the devices of a route need of the model's inputs: [{device, key, tensor, box}]. */
export function feedsOn(manifest, route) {
  const list = [];
  for (const [device, sources] of inputsOn(manifest, route))
    for (const [place, { from, tensor, box }] of sources) if (from === 'input') list.push({ device, key: `input ${place}`, tensor, box });
  return list;
}

/** Who gives what of the model's outputs on a route: [{key, tensor, box}]; where several devices have a box, the first. */
export function resultsOn(manifest, route) {
  const on = manifest.routes?.[route], seen = new Set(), list = [];
  for (const { id, parts } of manifest.devices) {
    if (on && !on.devices.includes(id)) continue;
    for (const { part, outputs } of parts)
      for (const { name, to, tensor, box } of outputs) {
        const what = JSON.stringify([tensor, box]);
        if (to !== 'output' || seen.has(what)) continue;
        seen.add(what);
        list.push({ device: id, key: `${id} ${part} ${name}`, tensor, box });
      }
  }
  return list;
}

/* ---- boxes ---- */

// For each axis, ranges of indices; null is all there is, and a limit of null the end.
const rangesOf = (box, dims) => dims.map((dim, i) => {
  const axis = box?.[i] ?? [0, dim];
  return (Array.isArray(axis[0]) ? axis : [axis]).map(([start, limit]) => [start, limit ?? dim]);
});

// Calls visit(at in the whole, at in the part, count) for each run of elements of a box.
function eachRun(dims, box, visit) {
  const ranges = rangesOf(box, dims), indices = ranges.slice(0, -1).map((list) => list.flatMap(([start, limit]) => Array.from({ length: limit - start }, (_, i) => start + i)));
  const rows = indices.reduce((count, list) => count * list.length, 1);
  let at = 0;
  for (let row = 0; row < rows; row++) {
    let whole = 0, stride = dims.at(-1) ?? 1, rest = row;
    for (let axis = indices.length; axis-- > 0; stride *= dims[axis]) {
      whole += indices[axis][rest % indices[axis].length] * stride;
      rest = Math.floor(rest / indices[axis].length);
    }
    for (const [start, limit] of ranges.at(-1) ?? [[0, 1]]) {
      visit(whole + start, at, limit - start);
      at += limit - start;
    }
  }
  return ranges.map((list) => list.reduce((size, [start, limit]) => size + limit - start, 0));
}

const isAll = (box, dims) => !box || rangesOf(box, dims).every((list, i) => list.length === 1 && list[0][0] === 0 && list[0][1] === dims[i]);

/** The box of a tensor. */
export function takeBox(tensor, box) {
  if (isAll(box, tensor.dims)) return tensor;
  const dims = rangesOf(box, tensor.dims).map((list) => list.reduce((size, [start, limit]) => size + limit - start, 0));
  const size = dims.reduce((a, b) => a * b, 1), data = tensor.type === 'string' ? new Array(size) : new tensor.data.constructor(size);
  eachRun(tensor.dims, box, (from, to, count) => copy(data, to, tensor.data, from, count));
  return { type: tensor.type, dims, data };
}

function copy(to, at, from, start, count) {
  if (Array.isArray(to)) for (let i = 0; i < count; i++) to[at + i] = from[start + i];
  else to.set(from.subarray(start, start + count), at);
}

/** A tensor that is put together of [{tensor, box}]. */
export function joinBoxes(pieces) {
  const [{ tensor: first, box: only }] = pieces;
  if (!only) return first;
  const dims = first.dims.map((dim, axis) => Math.max(...pieces.map(({ tensor, box }) => {
    const ranges = Array.isArray(box[axis][0]) ? box[axis] : [box[axis]], [start, limit] = ranges.at(-1);
    return limit ?? start + tensor.dims[axis];
  })));
  const size = dims.reduce((a, b) => a * b, 1), data = first.type === 'string' ? new Array(size) : new first.data.constructor(size);
  let there = 0;
  for (const { tensor, box } of pieces) {
    const own = eachRun(dims, box, (to, from, count) => copy(data, to, tensor.data, from, count));
    if (String(own) !== String(tensor.dims)) throw new Error(`A piece has the shape [${tensor.dims}] instead of [${own}].`);
    there += tensor.data.length;
  }
  if (there < size) throw new Error('The devices do not give all of an output.');
  return { type: first.type, dims, data };
}

/* ---- models ---- */

const KEY = 'shardplan.manifest', METADATA = 14; // the field of a ModelProto

/** The fingerprint in a model's metadata, or null. Of the file only what leads there is read. */
export function fingerprintOf(file) {
  const handle = fs.openSync(file, 'r');
  try {
    const size = fs.fstatSync(handle).size;
    for (let at = 0; at < size; ) {
      const bytes = Buffer.alloc(20), there = bytes.subarray(0, fs.readSync(handle, bytes, 0, 20, at));
      const tag = varint(there, 0), value = varint(there, tag.next), kind = tag.value & 7;
      if (kind !== 0 && kind !== 2) return null;
      const begin = at + value.next, end = kind === 2 ? begin + value.value : begin;
      if (tag.value >> 3 === METADATA) {
        const entry = Buffer.alloc(end - begin);
        fs.readSync(handle, entry, 0, entry.length, begin);
        const [key, text] = textsOf(entry);
        if (key === KEY) return text;
      }
      at = end;
    }
    return null;
  } finally {
    fs.closeSync(handle);
  }
}

function varint(bytes, at) {
  for (let value = 0, scale = 1; ; scale *= 128) {
    const byte = bytes[at++];
    value += (byte & 127) * scale;
    if (!(byte & 128)) return { value, next: at };
  }
}

function textsOf(entry) {
  const texts = [];
  for (let at = 0; at < entry.length; ) {
    const size = varint(entry, at + 1);
    texts.push(entry.toString('utf8', size.next, size.next + size.value));
    at = size.next + size.value;
  }
  return texts;
}

/** Whether the models of a device are those that the manifest is of. */
export function checkModels(manifest, id) {
  const { fingerprint, parts } = manifest.devices.find((each) => each.id === id);
  for (const { model } of parts)
    if (fingerprintOf(path.join(manifest.folder, model)) !== fingerprint)
      throw new Error(`The model ${model} is not the one that the manifest is of: write both again.`);
}
