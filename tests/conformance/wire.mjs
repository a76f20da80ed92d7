// Just enough of the protobuf wire format to find a model's external data; written apart from the C reader on purpose.
import fs from 'node:fs';
import path from 'node:path';

function varint(bytes, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[at++];
    value |= BigInt(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return [value, at];
  }
}

// The fields of one message: [number, payload] with bytes for length-delimited fields.
export function* fields(bytes) {
  for (let at = 0; at < bytes.length; ) {
    let tag, value;
    [tag, at] = varint(bytes, at);
    const number = Number(tag >> 3n);
    switch (Number(tag & 7n)) {
      case 0: [value, at] = varint(bytes, at); break;
      case 1: value = bytes.subarray(at, (at += 8)); break;
      case 2: {
        let size;
        [size, at] = varint(bytes, at);
        value = bytes.subarray(at, (at += Number(size)));
        break;
      }
      case 5: value = bytes.subarray(at, (at += 4)); break;
      default: throw new Error(`wire type ${tag & 7n} at ${at}`);
    }
    yield [number, value];
  }
}

// Map of external file name to the bytes it must have, from ModelProto.graph (7) .initializer (5) .external_data (13).
export function externalFiles(model) {
  const sizes = new Map();
  for (const [modelField, graph] of fields(model)) {
    if (modelField !== 7) continue;
    for (const [graphField, tensor] of fields(graph)) {
      if (graphField !== 5) continue;
      const entry = {};
      for (const [tensorField, pair] of fields(tensor)) {
        if (tensorField !== 13) continue;
        const [key, value] = [...fields(pair)].map(([, text]) => text.toString());
        entry[key] = value;
      }
      if (!entry.location) continue;
      const end = Number(entry.offset ?? 0) + Number(entry.length ?? 0);
      sizes.set(entry.location, Math.max(sizes.get(entry.location) ?? 0, end));
    }
  }
  return sizes;
}

// Weights of 0.001 .. 0.04, or from another number on: no number is so small that it is slow.
export function fillWeights(folder, model, least = 0.001) {
  const block = Float32Array.from({ length: 1 << 20 }, (_, i) => least + (0.04 - least) * ((i * 2654435761) % 4294967296) / 4294967296);
  const bytes = Buffer.from(block.buffer);
  for (const [name, size] of externalFiles(fs.readFileSync(model))) {
    const file = fs.openSync(path.join(folder, name), 'w');
    for (let at = 0; at < size; at += bytes.length) fs.writeSync(file, bytes, 0, Math.min(bytes.length, size - at));
    fs.closeSync(file);
  }
}
