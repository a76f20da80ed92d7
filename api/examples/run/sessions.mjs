// ONNX Runtime in a thread of its own, so that messages come and go while a model runs.
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Worker, isMainThread, parentPort } from 'node:worker_threads';

/** onnxruntime-node, as it is installed where the command was started. */
export async function loadRuntime() {
  const require = createRequire(pathToFileURL(path.join(process.cwd(), 'run.mjs')));
  return (await import(pathToFileURL(require.resolve('onnxruntime-node')))).default;
}

export const sessionOptions = (threads) => ({ graphOptimizationLevel: 'all', executionMode: 'sequential',
  intraOpNumThreads: threads, interOpNumThreads: 1, logSeverityLevel: 3 });

/** The sessions of one device. */
export class Sessions {
  constructor() {
    this.worker = new Worker(fileURLToPath(import.meta.url));
    this.waiting = [];
    this.worker.on('message', ({ error, ...answer }) => {
      const { resolve, reject } = this.waiting.shift();
      if (error) reject(new Error(error));
      else resolve(answer);
    });
    this.worker.on('error', (error) => this.waiting.splice(0).forEach(({ reject }) => reject(error)));
  }

  #ask(question) {
    return new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject });
      this.worker.postMessage(question);
    });
  }

  load(file, threads) {
    return this.#ask({ file, threads });
  }

  /** {outputs, seconds} of a run of the model that was loaded as number `index`. */
  run(index, inputs) {
    return this.#ask({ index, inputs });
  }
}

async function answer(ort, sessions, { file, threads, index, inputs }) {
  if (file) {
    sessions.push(await ort.InferenceSession.create(file, sessionOptions(threads)));
    return {};
  }
  const feeds = {}, outputs = {}, start = performance.now();
  for (const [name, { type, dims, data }] of Object.entries(inputs)) feeds[name] = new ort.Tensor(type, data, dims);
  for (const [name, { type, dims, data }] of Object.entries(await sessions[index].run(feeds))) outputs[name] = { type, dims, data };
  return { outputs, seconds: (performance.now() - start) / 1000 };
}

// The memory of tensors, which goes to the other thread without a copy.
const buffersOf = (tensors) => [...new Set(Object.values(tensors).flatMap(({ data }) => (ArrayBuffer.isView(data) ? [data.buffer] : [])))];

if (!isMainThread) {
  const runtime = loadRuntime(), sessions = [];
  let last = runtime;
  parentPort.on('message', (question) => {
    last = last.then(async () => {
      try {
        const said = await answer(await runtime, sessions, question);
        parentPort.postMessage(said, buffersOf(said.outputs ?? {}));
      } catch (error) {
        parentPort.postMessage({ error: error.message });
      }
    });
  });
}
