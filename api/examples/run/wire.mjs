// Messages between processes, and tensors in them. wire.py is the same in Python, and either talks to the other.
//
// A message is the size of a head (4 bytes, little-endian), the head (JSON), and as many bytes as the head's `bytes` says.
// The bytes are a tensor's elements, little-endian and row by row; of strings a JSON array.

const MAX_HEAD = 1 << 20, MAX_BODY = 2 ** 32;

export const PROTOCOL = 1;

const ARRAYS = { float32: Float32Array, float64: Float64Array, float16: Uint16Array, bool: Uint8Array,
  int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array };

// ONNX Runtime's Tensor and what is left of one after it went to another thread have these members, too.
/** @typedef {{type: string, dims: number[], data: ArrayLike}} Tensor */

export function bytesOf({ type, data }) {
  if (type === 'string') return Buffer.from(JSON.stringify(data));
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
}

export function tensorOf({ dtype, shape }, bytes) {
  if (dtype === 'string') return { type: dtype, dims: shape, data: JSON.parse(bytes) };
  const size = shape.reduce((a, b) => a * b, 1), Array = ARRAYS[dtype];
  if (!Array) throw new Error(`Tensors of the type ${dtype} cannot be exchanged.`);
  if (bytes.length !== size * Array.BYTES_PER_ELEMENT) throw new Error(`A tensor of the shape [${shape}] came with ${bytes.length} bytes.`);
  return { type: dtype, dims: shape, data: new Array(bytes.buffer, bytes.byteOffset, size) };
}

/** One connection. Calls onMessage(head, bytes) for each message, and onEnd(reason) once. */
export class Channel {
  constructor(socket, onMessage, onEnd) {
    this.socket = socket;
    this.maxBody = 0; // until the other side has said what it is
    this.onMessage = onMessage;
    let why = null;
    socket.setNoDelay(true);
    socket.setKeepAlive(true, 1000); // notices a machine that is gone
    socket.on('error', (error) => (why = error.message));
    socket.on('close', () => onEnd(why));
    socket.on('data', (chunk) => {
      try {
        this.#read(chunk);
      } catch (error) {
        socket.destroy(error);
      }
    });
    this.#expect('size', 4);
  }

  send(head, tensor = null) {
    const bytes = tensor ? bytesOf(tensor) : Buffer.alloc(0);
    const text = Buffer.from(JSON.stringify(tensor ? { ...head, dtype: tensor.type, shape: tensor.dims, bytes: bytes.length } : head));
    const size = Buffer.alloc(4);
    size.writeUInt32LE(text.length);
    this.socket.cork();
    this.socket.write(size);
    this.socket.write(text);
    if (bytes.length > 0) this.socket.write(bytes);
    this.socket.uncork();
  }

  /** Closes it once all that was sent is on its way. */
  end() {
    this.socket.end();
  }

  #expect(what, size) {
    this.what = what;
    this.bytes = Buffer.allocUnsafeSlow(size); // memory of its own: elements are aligned
    this.filled = 0;
  }

  #read(chunk) {
    for (let at = 0; at < chunk.length; ) {
      const count = chunk.copy(this.bytes, this.filled, at);
      at += count;
      this.filled += count;
      while (this.filled === this.bytes.length) if (!this.#next()) break;
    }
  }

  // What was expected is there. False: something of a size is expected now.
  #next() {
    if (this.what === 'size') {
      const size = this.bytes.readUInt32LE();
      if (size === 0 || size > MAX_HEAD) throw new Error(`A message begins with the size ${size}: the other side is no process of a plan.`);
      this.#expect('head', size);
      return false;
    }
    if (this.what === 'head') {
      this.head = JSON.parse(this.bytes);
      const size = this.head.bytes ?? 0;
      if (!Number.isSafeInteger(size) || size < 0 || size > this.maxBody) throw new Error(`A message of ${size} bytes is not expected here.`);
      this.#expect('body', size);
      return size === 0;
    }
    const { head, bytes } = this;
    this.#expect('size', 4);
    this.onMessage(head, bytes);
    return false;
  }

  accept() {
    this.maxBody = MAX_BODY;
  }
}

/** What has come for each request, and who waits for it. */
export class Mailbox {
  constructor() {
    this.requests = new Map();
    this.failure = null;
  }

  #slot(request, key) {
    if (!this.requests.has(request)) this.requests.set(request, new Map());
    const slots = this.requests.get(request);
    if (!slots.has(key)) {
      const slot = {};
      slot.promise = new Promise((resolve, reject) => Object.assign(slot, { resolve, reject }));
      slot.promise.catch(() => {}); // who waits hears of it
      if (this.failure) slot.reject(this.failure);
      slots.set(key, slot);
    }
    return slots.get(key);
  }

  put(request, key, value) {
    this.#slot(request, key).resolve(value);
  }

  take(request, key) {
    return this.#slot(request, key).promise;
  }

  forget(request) {
    this.requests.delete(request);
  }

  fail(error) {
    this.failure ??= error;
    for (const slots of this.requests.values()) for (const slot of slots.values()) slot.reject(this.failure);
  }
}
