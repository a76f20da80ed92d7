// What is committed is what the sources build, byte for byte; it is small, asks no other host, and has nothing inline.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import zlib from 'node:zlib';
import { check, equal, finish, that, top } from './page.mjs';

const MOST_BYTES = 80_000; // of all files together, each compressed by gzip
const source = path.join(top, 'server/dashboard');
const built = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-bundle-'));

function files(folder) {
  return Object.fromEntries(fs.readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name))
    .sort()
    .map((file) => [path.relative(folder, file), fs.readFileSync(file)]));
}

await check('bundle/types', () => {
  execFileSync('node', [path.join(source, 'node_modules/typescript/bin/tsc'), '--noEmit'], { cwd: source });
});
await check('bundle/committed is what the sources build', () => {
  execFileSync('node', [path.join(source, 'node_modules/vite/bin/vite.js'), 'build', '--outDir', built, '--emptyOutDir'], { cwd: source, stdio: ['ignore', 'ignore', 'pipe'] });
  const [committed, made] = [files(path.join(source, 'dist')), files(built)];
  equal(Object.keys(committed), Object.keys(made), 'the files of server/dashboard/dist');
  for (const [name, bytes] of Object.entries(made)) that(bytes.equals(committed[name]), `${name} differs: run "npm run build" in server/dashboard`);
});
await check('bundle/licences of what is in it', () => {
  const made = execFileSync('node', [path.join(source, 'third_party.mjs')]);
  that(made.equals(fs.readFileSync(path.join(source, 'THIRD_PARTY.txt'))), 'THIRD_PARTY.txt differs: run "npm run licenses" in server/dashboard');
});
await check('bundle/size', () => {
  const sizes = Object.entries(files(path.join(source, 'dist'))).map(([name, bytes]) => [name, zlib.gzipSync(bytes, { level: 9 }).length]);
  const all = sizes.reduce((sum, [, size]) => sum + size, 0);
  console.log(`# ${all} bytes in ${sizes.length} files`);
  that(all < MOST_BYTES, `${all} bytes compressed, at most ${MOST_BYTES}: ${sizes.map(([name, size]) => `${name} ${size}`).join(', ')}`);
});
await check('bundle/no other host, nothing inline', () => {
  for (const [name, bytes] of Object.entries(files(path.join(source, 'dist')))) {
    const text = bytes.toString();
    // Names of XML's languages look like addresses, and nobody asks for them.
    const hosts = [...text.matchAll(/\bhttps?:\/\/[^\s"'`)]+/g)].map(([address]) => address).filter((address) => !/^http:\/\/www\.w3\.org\//.test(address));
    equal(hosts, [], `addresses in ${name}`);
    if (name.endsWith('.html')) {
      that(!/<script(?![^>]*\ssrc=)/.test(text) && !/<style|\sstyle=|\son[a-z]+=/.test(text), `${name} has code or styles inline`);
    }
  }
});
fs.rmSync(built, { recursive: true });
finish();
