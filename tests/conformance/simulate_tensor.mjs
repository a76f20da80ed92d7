// Tensors of test cases: TensorProto files by hand, their elements as numbers, and how close two of them are.
//
// What the runtime's binding cannot take or hand out (bfloat16, 8-bit and 4-bit floats, 4-bit integers) goes another
// way: an input becomes an initializer of the model, an output is cast to float32 in the model. Nodes make inputs that are
// sequences or optionals, and take sequences apart that are outputs.
import fs from 'node:fs';
import ort from 'onnxruntime-node';
import { fields } from './wire.mjs';

const FLOAT = 1, STRING = 8, BOOL = 9, FLOAT16 = 10;

// Data type to the binding's name, the array that holds it, and the bytes of an element.
const fed = new Map([
  [FLOAT, ['float32', Float32Array]], [2, ['uint8', Uint8Array]], [3, ['int8', Int8Array]],
  [4, ['uint16', Uint16Array]], [5, ['int16', Int16Array]], [6, ['int32', Int32Array]], [7, ['int64', BigInt64Array]],
  [BOOL, ['bool', Uint8Array]], [FLOAT16, ['float16', Uint16Array]], [11, ['float64', Float64Array]],
  [12, ['uint32', Uint32Array]], [13, ['uint64', BigUint64Array]]]);

export const isFed = (type) => type === STRING || fed.has(type);

function varints(payload) {
  const values = [];
  if (typeof payload === 'bigint') return [BigInt.asIntN(64, payload)];
  for (let at = 0; at < payload.length; ) {
    let value = 0n;
    for (let shift = 0n, more = true; more; shift += 7n) {
      const byte = payload[at++];
      value |= BigInt(byte & 0x7f) << shift;
      more = (byte & 0x80) !== 0;
    }
    values.push(BigInt.asIntN(64, value));
  }
  return values;
}

// The parts of a TensorProto that matter here.
export function parseTensor(bytes) {
  const tensor = { type: 0, dims: [], raw: null, numbers: [], strings: [], pieces: [], bytes };
  for (const [number, payload] of fields(bytes)) {
    if (number === 1) tensor.dims.push(...varints(payload).map(Number));
    else if (number === 2) tensor.type = Number(payload);
    else if (number === 4 || number === 10) tensor.pieces.push(payload);
    else if (number === 5 || number === 7 || number === 11) tensor.numbers.push(...varints(payload));
    else if (number === 6) tensor.strings.push(payload.toString());
    else if (number === 9) tensor.raw = payload;
  }
  return tensor;
}

const sizeOf = (dims) => dims.reduce((product, dim) => product * dim, 1);

function arrayOf(tensor) {
  const [, Kind] = fed.get(tensor.type);
  const count = sizeOf(tensor.dims);
  const bytes = tensor.raw ?? (tensor.pieces.length ? Buffer.concat(tensor.pieces) : null);
  if (bytes && bytes.length === count * Kind.BYTES_PER_ELEMENT) {
    return new Kind(Uint8Array.from(bytes).buffer);
  }
  const isBig = Kind === BigInt64Array || Kind === BigUint64Array;
  const mask = Kind === BigUint64Array ? (value) => BigInt.asUintN(64, value) : (value) => value;
  if (tensor.numbers.length !== count) throw new Error(`a tensor of ${count} elements has ${tensor.numbers.length}`);
  return Kind.from(tensor.numbers, (value) => (isBig ? mask(value) : Number(value)));
}

export function readTensor(file) {
  return parseTensor(fs.readFileSync(file));
}

// The TensorProtos in a SequenceProto, or in an OptionalProto of a tensor or of a sequence.
export function readContainer(file, { isOptional, isSequence }) {
  const of = (number, bytes) => [...fields(bytes)].filter(([field]) => field === number).map(([, payload]) => payload);
  const bytes = fs.readFileSync(file), [whole] = isOptional && isSequence ? of(5, bytes) : [bytes];
  return whole ? of(3, whole) : [];
}

export function toFeed(tensor) {
  if (tensor.type === STRING) return new ort.Tensor('string', tensor.strings, tensor.dims);
  return new ort.Tensor(fed.get(tensor.type)[0], arrayOf(tensor), tensor.dims);
}

/* ---- changing a model ---- */

function varint(value) {
  const bytes = [];
  for (let rest = BigInt.asUintN(64, BigInt(value)); ; rest >>= 7n) {
    const isLast = rest <= 0x7fn;
    bytes.push(Number(rest & 0x7fn) | (isLast ? 0 : 0x80));
    if (isLast) return Buffer.from(bytes);
  }
}

const message = (number, ...payloads) => {
  const payload = Buffer.concat(payloads.map((item) => Buffer.from(item)));
  return Buffer.concat([varint(number * 8 + 2), varint(payload.length), payload]);
};
const integer = (number, value) => Buffer.concat([varint(number * 8), varint(value)]);
const again = ([number, payload]) => (typeof payload === 'bigint' ? integer(number, payload) : message(number, payload));
const nameOf = (record) => [...fields(record)].find(([number]) => number === 1)?.[1].toString();

// NodeProto: input 1, output 2, op_type 4, attribute 5 {name 1, i 3, type 20}; ValueInfoProto: name 1, type 2.
const toFloat = message(5, message(1, 'to'), integer(3, FLOAT), integer(20, 2));
const floatType = message(2, message(1, integer(1, FLOAT)));
const castNode = (name, castName) => message(1, message(1, name), message(2, castName), message(4, 'Cast'), toFloat);

const call = (op, inputs, output) => message(1, ...inputs.map((name) => message(1, name)), message(2, output), message(4, op));

// An input that is a sequence or an optional, made of its tensors.
function makeContainer([name, { isOptional, isSequence, tensors }]) {
  const parts = tensors.map((_, i) => `${name}.${i}`), whole = isSequence && isOptional ? `${name}.whole` : isSequence ? name : parts[0];
  return [...tensors.map((bytes, i) => message(5, bytes, message(8, parts[i]))),
    ...(isSequence ? [call('SequenceConstruct', parts, whole)] : []), ...(isOptional ? [call('Optional', [whole], name)] : [])];
}

// The tensors of an output that is a sequence, as outputs.
export const partsOf = ({ name, count }) => Array.from({ length: count }, (_, i) => `${name}.out.${i}`);
const takeApart = (output) => partsOf(output).flatMap((part, i) => [
  message(5, integer(2, 7), integer(7, i), message(8, `${part}.at`)), call('SequenceAt', [output.name, `${part}.at`], part),
  message(12, message(1, part), message(2, message(1, integer(1, output.elem))))]);

// ModelProto.graph is 7; GraphProto: node 1, initializer 5, input 11, output 12. `constants` maps names of inputs to
// tensors, `casts` names of outputs to the names of what they are cast to; `containers` are inputs by name, and
// `sequences` outputs by name.
export function changeModel(bytes, { constants, casts, containers, sequences }) {
  const parts = [];
  for (const [number, payload] of fields(bytes)) {
    if (number !== 7) {
      parts.push(again([number, payload]));
      continue;
    }
    const graph = [];
    for (const [inner, record] of fields(payload)) {
      const isOutput = inner === 12 && casts.has(nameOf(record));
      const isOther = (inner === 11 && (constants.has(nameOf(record)) || containers.has(nameOf(record)))) || (inner === 12 && sequences.has(nameOf(record)));
      if (isOutput) graph.push(message(12, message(1, casts.get(nameOf(record))), floatType));
      else if (!isOther) graph.push(again([inner, record]));
    }
    // Of a field that is no list the last one counts.
    for (const [name, tensor] of constants) graph.push(message(5, tensor.bytes, message(8, name)));
    for (const [name, castName] of casts) graph.push(castNode(name, castName));
    graph.push(...[...containers].flatMap(makeContainer), ...[...sequences.values()].flatMap(takeApart));
    parts.push(message(7, ...graph));
  }
  return Buffer.concat(parts);
}

/* ---- comparing ---- */

function halfToNumber(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  if (exponent === 31) return mantissa ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + mantissa / 1024) : 2 ** -14 * (mantissa / 1024));
}

const reals = new Set(['float32', 'float16', 'float64']);
export const isReal = (type) => reals.has(type);

// Good for what has a normal number in float16: the generator makes no others.
function toHalf(value) {
  if (value === 0) return 0;
  const sign = value < 0 ? 0x8000 : 0, magnitude = Math.abs(value);
  const exponent = Math.max(-14, Math.floor(Math.log2(magnitude)));
  const mantissa = Math.round((magnitude / 2 ** exponent - 1) * 1024);
  return magnitude < 2 ** -14 ? sign : sign | ((exponent + 15) * 1024 + mantissa);
}

// A tensor of plain numbers or words.
export function makeTensor(type, dims, values) {
  if (type === 'string') return new ort.Tensor(type, values, dims);
  const [, Kind] = [...fed.values()].find(([name]) => name === type) ?? [];
  if (!Kind) throw new Error(`no inputs of type ${type} are made`);
  const isBig = Kind === BigInt64Array || Kind === BigUint64Array;
  const convert = isBig ? (value) => BigInt(value) : type === 'float16' ? toHalf : Number;
  return new ort.Tensor(type, Kind.from(values, convert), dims);
}

// What one rounding to the type may change: computing in parts rounds at other places.
const leastTolerance = { float16: 4e-3 };
// Sums that cancel keep the rounding of what was added: half a unit of the largest result.
const leastShare = { float16: 2 ** -11 };

const largestOf = (numbers) => numbers.reduce((largest, value) => (Number.isFinite(value) ? Math.max(largest, Math.abs(value)) : largest), 0);

const numbersOf = (tensor) =>
  tensor.type === 'float16' && tensor.data instanceof Uint16Array ? Array.from(tensor.data, halfToNumber) : tensor.data;

// Why two results of the runtime differ, or null; `largest` is raised to the largest error relative to the tolerance's
// scale: |a - b| / max(|b|, atol / rtol).
export function difference(actual, expected, { rtol = 1e-3, atol = 1e-6, shapesOnly = false } = {}, largest = { error: 0 }) {
  if (actual.type !== expected.type) return `the type is ${actual.type} instead of ${expected.type}`;
  if (String(actual.dims) !== String(expected.dims)) return `the shape is [${actual.dims}] instead of [${expected.dims}]`;
  if (shapesOnly) return null;
  const own = numbersOf(actual), other = numbersOf(expected);
  const relative = Math.max(rtol, leastTolerance[expected.type] ?? 0);
  const isNumber = isReal(expected.type);
  const share = leastShare[expected.type];
  const absolute = share ? Math.max(atol, share * largestOf(other)) : atol;
  let wrong = 0, first = null;
  for (let i = 0; i < other.length; i++) {
    if (Object.is(own[i], other[i]) || own[i] === other[i]) continue;
    if (isNumber && Number.isNaN(own[i]) && Number.isNaN(other[i])) continue;
    if (isNumber) {
      const gap = Math.abs(own[i] - other[i]);
      const error = gap / Math.max(Math.abs(other[i]), absolute / relative);
      if (Number.isFinite(gap) && error > largest.error) largest.error = error;
      if (gap <= absolute + relative * Math.abs(other[i])) continue;
    }
    wrong++;
    first ??= `element ${i} is ${own[i]} instead of ${other[i]}`;
  }
  return wrong ? `${wrong} of ${other.length} elements are wrong; ${first}` : null;
}
