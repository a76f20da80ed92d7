// What the reports of simulations have in common.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

// --name VALUE and --flag of the command line.
export function readArguments(names, flags) {
  const values = {}, rest = process.argv.slice(2);
  while (rest.length) {
    const name = rest.shift().replace(/^--/, '');
    if (flags.includes(name)) values[name] = true;
    else if (names.includes(name) && rest.length) values[name] = rest.shift();
    else throw new Error(`usage: ${path.basename(process.argv[1])} ${names.map((item) => `[--${item} ..]`).join(' ')} ${flags.map((item) => `[--${item}]`).join(' ')}`);
  }
  return values;
}

// What a program prints; what it says on standard error is passed on.
export function run(command, ...args) {
  const { status, signal, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
  if (error) throw error;
  if (status !== 0) throw new Error(`${path.basename(command)} ends with ${signal ?? status}: ${stderr.slice(0, 4000)}`);
  process.stderr.write(stderr);
  return stdout;
}

// Keeps a failing simulation in SIMULATE_KEEP: NAME.onnx, NAME.original.onnx, NAME.json with the inputs' bytes.
export function keep(line, result) {
  const folder = process.env.SIMULATE_KEEP;
  if (!folder) return;
  fs.mkdirSync(folder, { recursive: true });
  const name = path.join(folder, line.name.replace(/[^\w.+-]+/g, '_'));
  if (line.model && fs.existsSync(line.model)) fs.copyFileSync(line.model, `${name}.onnx`);
  if (line.original) {
    fs.rmSync(`${name}.original.onnx`, { force: true });
    fs.copyFileSync(line.original, `${name}.original.onnx`);
  }
  const inputs = Object.fromEntries((line.inputs ?? []).map((file, i) => [line.inputNames[i], fs.readFileSync(file).toString('base64')]));
  fs.writeFileSync(`${name}.json`, JSON.stringify({ ...line, result, inputBytes: inputs }, null, 1));
}
