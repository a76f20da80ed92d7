// Runs the devices' models of a plan, a process for each device, with ONNX Runtime on processors.
//
//     npm install onnxruntime-node && node run.mjs DIR [OPTIONS]
//
// DIR is what `shardplan export PLAN.json --model MODEL --format sessions -o DIR` wrote; README.md has the options.
// Or from a program of your own:
//
//     const processes = await start(DIR);
//     const outputs = await processes.run({ ids: { type: 'int64', dims: [1, 16], data: BigInt64Array.of(..) } });
//     await processes.stop();
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import { createInterface } from 'node:readline';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { copiesOf, feedsOn, joinBoxes, readManifest, resultsOn, routeCount, takeBox } from './manifest.mjs';
import { loadRuntime, sessionOptions } from './sessions.mjs';
import { Channel, Mailbox, PROTOCOL, tensorOf } from './wire.mjs';

export const RANK = [process.execPath, path.join(path.dirname(fileURLToPath(import.meta.url)), 'rank.mjs')];

/* ---- processes ---- */

// Starts a process here; its address.
function launch(folder, { command, threads, stderr }, children) {
  const [program, ...words] = typeof command === 'function' ? command(children.length) : command;
  const child = spawn(program, [...words, folder, '--threads', String(threads)], { stdio: ['ignore', 'pipe', stderr] });
  children.push(child);
  return new Promise((resolve, reject) => {
    createInterface(child.stdout).once('line', (line) => resolve(JSON.parse(line).listen));
    child.once('error', reject);
    child.once('exit', (status, signal) => reject(new Error(`A process ended with ${signal ?? `status ${status}`} before it was ready.`)));
  });
}

/** Processes that are ready for requests. */
class Processes {
  constructor(manifest) {
    this.manifest = manifest;
    this.ranks = []; // {device, copy, channel, models, seconds: of all runs, spent: by the process}
    this.children = [];
    this.copies = copiesOf(manifest).map(() => ({ next: 0, inFlight: 0, mailbox: new Mailbox() }));
    this.loops = 0;
    this.routes = Array.from({ length: routeCount(manifest) }, (_, route) => ({ feeds: feedsOn(manifest, route), results: resultsOn(manifest, route),
      devices: manifest.routes?.[route].devices ?? manifest.devices.map(({ id }) => id), share: manifest.routes?.[route].share ?? 1, taken: 0 }));
    this.failure = null;
  }

  fail(error) {
    if (this.failure) return;
    this.failure = error;
    for (const { mailbox } of this.copies) mailbox.fail(error);
    for (const { channel } of this.ranks) channel.send({ type: 'stop', message: error.message });
  }

  connect(rank, addresses) {
    return new Promise((resolve, reject) => {
      const [, host, port] = /^(.*):(\d+)$/.exec(addresses[rank.device]), { mailbox } = this.copies[rank.copy];
      const gone = (message) => {
        const error = new Error(message);
        reject(error);
        if (!this.isOver) this.fail(error);
      };
      rank.channel = new Channel(net.connect(Number(port), host), (head, bytes) => {
        if (head.type === 'error') gone(/^Device \d+ is gone/.test(head.message) ? head.message : `Device ${rank.device}: ${head.message}`);
        else if (head.type === 'ready') resolve(Object.assign(rank, { models: head.models }));
        else if (head.type === 'tensor') mailbox.put(head.request, head.key, tensorOf(head, bytes));
        else if (head.type === 'done') {
          rank.seconds += head.seconds;
          rank.spent = head.spent;
          mailbox.put(head.request, `done ${rank.device}`, true);
        }
      }, (why) => gone(`Device ${rank.device} is gone: ${why ?? 'its connection closed'}.`));
      rank.channel.accept();
      rank.channel.send({ type: 'hello', role: 'driver', protocol: PROTOCOL, manifest: this.manifest.digest, device: rank.device, addresses });
    });
  }

  // The route that has had the least of its share.
  #route() {
    const after = ({ taken, share }) => (taken + 1) / share, least = this.routes.reduce((best, each) => (after(each) < after(best) ? each : best));
    least.taken++;
    return this.routes.indexOf(least);
  }

  #copy() {
    return this.copies.reduce((least, each) => (each.inFlight < least.inFlight ? each : least));
  }

  /** The outputs of one request by name. Several may be on their way; the copy that has the fewest takes it. */
  run(feeds) {
    return this.#run(feeds, this.#copy(), this.#route());
  }

  /**
   * Steps that hand states on, such as the keys and values of a decoder: these stay on the devices that made them.
   * step(feeds) gives the outputs but for the states; the first step takes the states as they are at the beginning. The
   * models have to be for the sizes of all steps. end() lets the states go.
   */
  loop() {
    const loop = this.loops++, copy = this.#copy(), route = this.#route();
    let step = 0;
    return {
      step: (feeds) => this.#run(feeds, copy, route, { loop, step: step++ }),
      end: () => this.#of(copy).forEach(({ channel }) => channel.send({ type: 'end', loop })) };
  }

  async #run(feeds, copy, route, loop = {}) {
    if (this.failure) throw this.failure;
    const request = copy.next++, { devices, ...on } = this.routes[route], states = this.manifest.states;
    const needed = on.feeds.filter(({ tensor }) => !loop.step || !states.some(({ past }) => past === tensor));
    const results = on.results.filter(({ tensor }) => loop.step === undefined || !states.some(({ present }) => present === tensor));
    copy.inFlight++;
    try {
      for (const { device, channel } of this.#of(copy)) {
        if (!devices.includes(device)) continue;
        channel.send({ type: 'request', request, route, ...loop });
        for (const { device: to, key, tensor, box } of needed) {
          if (to !== device) continue;
          if (!feeds[tensor]) throw new Error(`The input '${tensor}' is missing.`);
          channel.send({ type: 'tensor', request, key }, takeBox(feeds[tensor], box));
        }
      }
      const pieces = {};
      for (const { key, tensor, box } of results) (pieces[tensor] ??= []).push({ tensor: await copy.mailbox.take(request, key), box });
      for (const { device } of this.#of(copy)) if (devices.includes(device)) await copy.mailbox.take(request, `done ${device}`);
      return Object.fromEntries(Object.entries(pieces).map(([name, list]) => [name, joinBoxes(list)]));
    } finally {
      copy.inFlight--;
      copy.mailbox.forget(request);
    }
  }

  #of(copy) {
    const index = this.copies.indexOf(copy);
    return this.ranks.filter((rank) => rank.copy === index);
  }

  /** Ends them all. */
  async stop() {
    this.isOver = true;
    for (const { channel } of this.ranks) {
      channel?.send({ type: 'stop', message: this.failure?.message });
      channel?.end();
    }
    await Promise.all(this.children.map((child) => child.exitCode ?? child.signalCode ?? new Promise((resolve) => {
      const late = setTimeout(() => child.kill('SIGKILL'), 5000);
      child.once('exit', () => resolve(clearTimeout(late)));
    })));
  }
}

/**
 * Starts a process for each device of each copy of the plan, or takes those that are at the addresses `at` (in the order
 * of copies and devices). `command` starts one: rank.mjs when not given, or what a function says of the number of a
 * process. `stderr` is what they have for their errors, as in child_process.
 */
export async function start(folder, { threads = 1, at = null, command = RANK, stderr = 'inherit' } = {}) {
  const manifest = readManifest(folder), processes = new Processes(manifest);
  try {
    const addresses = [];
    for (let copy = 0; copy < processes.copies.length; copy++)
      for (const { id } of manifest.devices) {
        const rank = { device: id, copy, seconds: 0, spent: 0 };
        if (at && !at[addresses.length]) throw new Error(`The plan needs ${processes.copies.length * manifest.devices.length} processes, and ${at.length} addresses are given.`);
        addresses.push(at?.[addresses.length] ?? launch(folder, { command, threads, stderr }, processes.children));
        processes.ranks.push(rank);
      }
    const all = await Promise.all(addresses);
    await Promise.all(processes.ranks.map((rank) => processes.connect(rank,
      Object.fromEntries(processes.ranks.flatMap(({ device, copy }, i) => (copy === rank.copy ? [[device, all[i]]] : []))))));
    return processes;
  } catch (error) {
    processes.isOver = true;
    processes.children.forEach((child) => child.kill());
    processes.ranks.forEach(({ channel }) => channel?.socket.destroy());
    throw error;
  }
}

/* ---- measuring ---- */

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

/** Seconds of a request when it is alone. */
async function measureLatency(processes, feeds, requests) {
  const latencies = [];
  for (let i = 0; i < requests; i++) {
    const start = performance.now();
    await processes.run(feeds);
    latencies.push((performance.now() - start) / 1000);
  }
  return median(latencies);
}

/** Requests per second with several on their way; seconds of each device per request, and the share of the time. */
export async function measureThroughput(processes, feeds, requests, inFlight) {
  const before = processes.ranks.map(({ seconds, spent }) => ({ seconds, spent })), start = performance.now();
  let next = 0;
  await Promise.all(Array.from({ length: Math.min(inFlight, requests) }, async () => {
    while (next++ < requests) await processes.run(feeds);
  }));
  const total = (performance.now() - start) / 1000;
  return { throughput_per_second: requests / total,
    devices: processes.ranks.map(({ device, copy, models, seconds, spent }, i) => ({ device, copy, models,
      seconds: (seconds - before[i].seconds) / requests, spent: (spent - before[i].spent) / requests, busy: (seconds - before[i].seconds) / total })) };
}

/** Both, after two requests that warm up. */
export async function measure(processes, feeds, requests, inFlight) {
  for (let i = 0; i < 2; i++) await processes.run(feeds);
  return { latency_seconds: await measureLatency(processes, feeds, requests), ...await measureThroughput(processes, feeds, requests, inFlight) };
}

const ARRAYS = { float32: Float32Array, float64: Float64Array, float16: Uint16Array, int64: BigInt64Array, uint64: BigUint64Array,
  int32: Int32Array, uint32: Uint32Array, int16: Int16Array, uint16: Uint16Array, int8: Int8Array, uint8: Uint8Array, bool: Uint8Array };

/** Inputs of the plan's sizes: integers are 0 or 1, which every table of a vocabulary has. */
export function makeUp({ inputs }) {
  return Object.fromEntries(inputs.map(({ name, dtype, shape }) => {
    if (!ARRAYS[dtype] || !shape) throw new Error(`Say the input '${name}' with --inputs: none is made up for it.`);
    const dims = shape.map((extent) => extent ?? 1), length = dims.reduce((a, b) => a * b, 1);
    const value = dtype === 'float16' ? (i) => 0x3800 + (i & 1023) : /64$/.test(dtype) && dtype !== 'float64' ? (i) => BigInt(i & 1)
      : dtype.startsWith('float') ? (i) => Math.sin(i) : (i) => i & 1;
    return [name, { type: dtype, dims, data: ARRAYS[dtype].from({ length }, (_, i) => value(i)) }];
  }));
}

/* ---- the command ---- */

// Tensors in a file: {NAME: {"dtype", "shape", "data": [..]}}.
const isBig = (dtype) => dtype === 'int64' || dtype === 'uint64';
const load = (file) => Object.fromEntries(Object.entries(JSON.parse(fs.readFileSync(file, 'utf8'))).map(([name, { dtype, shape, data }]) =>
  [name, { type: dtype, dims: shape, data: dtype === 'string' ? data : ARRAYS[dtype].from(isBig(dtype) ? data.map(BigInt) : data) }]));
const save = (file, outputs) => fs.writeFileSync(file, `${JSON.stringify(Object.fromEntries(Object.entries(outputs).map(([name, { type, dims, data }]) =>
  [name, { dtype: type, shape: dims, data: Array.from(data, isBig(type) ? Number : (value) => value) }])))}\n`);

/** The largest difference of two results, in parts of the largest element. */
export function furthest(own, expected) {
  let most = 0, largest = 1e-30;
  if (own?.data.length !== expected.data.length) return Infinity;
  for (let i = 0; i < expected.data.length; i++) {
    const a = Number(own.data[i]), b = Number(expected.data[i]);
    if (!Object.is(a, b)) most = Math.max(most, Number.isNaN(a - b) ? Infinity : Math.abs(a - b));
    if (Number.isFinite(b)) largest = Math.max(largest, Math.abs(b));
  }
  return most / largest;
}

const SAME = 1e-3; // sums are added up in another order

async function compare(model, feeds, outputs, threads) {
  const ort = await loadRuntime(), session = await ort.InferenceSession.create(model, sessionOptions(threads));
  const expected = await session.run(Object.fromEntries(Object.entries(feeds).map(([name, { type, dims, data }]) => [name, new ort.Tensor(type, data, dims)])));
  return Math.max(...session.outputNames.map((name) => furthest(outputs[name], expected[name])));
}

const time = (seconds) => (seconds === undefined ? '' : seconds < 1e-3 ? `${(seconds * 1e6).toFixed(1)} us` : seconds < 1 ? `${(seconds * 1e3).toFixed(1)} ms` : `${seconds.toFixed(2)} s`);
const rate = (value) => (value === undefined ? '' : `${value.toPrecision(4)} /s`);

function report(processes, measured, csv) {
  const { estimate = {} } = processes.manifest;
  const rows = [['latency', time(measured.latency_seconds), time(estimate.latency_seconds)], ['throughput', rate(measured.throughput_per_second), rate(estimate.throughput_per_second)]];
  console.log(`${''.padEnd(12)}${'measured'.padStart(12)}${'plan'.padStart(12)}`);
  for (const [name, own, planned] of rows) console.log(`${name.padEnd(12)}${own.padStart(12)}${planned.padStart(12)}`);
  for (const { device, copy, models, seconds, busy } of measured.devices)
    console.log(`device ${device}${processes.copies.length > 1 ? ` of copy ${copy}` : ''}: ${models} models, computes ${time(seconds)} per request, ${Math.round(100 * busy)} % of the time`);
  if (!csv) return;
  const lines = ['figure,unit,measured,plan', `latency,s,${measured.latency_seconds},${estimate.latency_seconds ?? ''}`, `throughput,1/s,${measured.throughput_per_second},${estimate.throughput_per_second ?? ''}`,
    ...measured.devices.map(({ device, copy, seconds }) => `compute of device ${device} of copy ${copy},s,${seconds},`)];
  fs.writeFileSync(csv, `${lines.join('\n')}\n`);
}

async function main([folder, ...words]) {
  const options = { requests: '20', threads: '1', 'in-flight': '' };
  for (let i = 0; i < words.length; i += 2) options[words[i].replace(/^--/, '')] = words[i + 1];
  const processes = await start(folder, { threads: Number(options.threads), at: options.at?.split(',') ?? null });
  try {
    const feeds = options.inputs ? load(options.inputs) : makeUp(processes.manifest), outputs = await processes.run(feeds);
    console.log(`${processes.ranks.length} processes are ready.`);
    if (options.outputs) save(options.outputs, outputs);
    if (options.compare) {
      const off = await compare(options.compare, feeds, outputs, Number(options.threads));
      if (off < SAME) console.log(`The results are those of ${path.basename(options.compare)}.`);
      else throw new Error(`The results are not those of ${path.basename(options.compare)}: they differ by ${off.toPrecision(2)} of the largest element.`);
    }
    const inFlight = Number(options['in-flight']) || processes.ranks.length + processes.copies.length;
    if (Number(options.requests) > 0) report(processes, await measure(processes, feeds, Number(options.requests), inFlight), options.csv);
  } finally {
    await processes.stop();
  }
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    await main(process.argv.slice(2));
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
