// What the tests of the page share: a daemon, a browser, and lines of TAP.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

export const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const pictures = path.join(top, 'build/test-logs/dashboard');
/** The largest model that is at hand: BERT where the published models are, a small transformer of the project's elsewhere. */
const published = path.join(process.env.SHARDPLAN_TEST_DATA ?? path.join(top, '../shared/data'), 'models/bert_base.onnx');
export const MODEL = fs.existsSync(published) ? published : path.join(top, 'tests/data/transformer_tiny.onnx');

let failed = 0;

export async function check(name, test) {
  try {
    const reason = await test();
    console.log(`ok ${name}${typeof reason === 'string' ? ` # SKIP ${reason}` : ''}`);
  } catch (error) {
    failed++;
    console.log(`not ok ${name}\n${String(error?.stack ?? error).slice(0, 4000).replace(/^/gm, '  ')}`);
  }
}

export function equal(actual, expected, what) {
  if (JSON.stringify(actual) !== JSON.stringify(expected))
    throw new Error(`${what}: is ${JSON.stringify(actual)?.slice(0, 600)}, not ${JSON.stringify(expected)?.slice(0, 600)}`);
}

export function that(condition, what) {
  if (!condition) throw new Error(what);
}

export const PROGRAM = process.env.SHARDPLAND ?? path.join(top, 'build/server/shardpland');

/** A daemon on a free port with a folder of its own; stop() ends it and says whether it ended well. */
export async function startDaemon(...options) {
  const data = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-page-'));
  const process_ = spawn(PROGRAM, ['--listen', '127.0.0.1:0', '--data', data, ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
  process.on('exit', () => process_.kill('SIGKILL')); // where the test itself ended early
  let log = '';
  const url = await new Promise((resolve, reject) => {
    process_.on('exit', (code) => reject(new Error(`the daemon ended with ${code}: ${log}`)));
    process_.stderr.on('data', (bytes) => {
      log += bytes;
      const port = /127\.0\.0\.1:(\d+)/.exec(log)?.[1];
      if (port !== undefined) resolve(`${options.includes('--tls-certificate') ? 'https' : 'http'}://127.0.0.1:${port}`);
    });
  });
  return {
    url,
    data,
    json: async (where, init) => (await fetch(`${url}/${where}`, init)).json(),
    /** Stores the model, and plans it; the finished plan as GET has it. */
    plan: async (model, query) => {
      const post = async (where, body, type, headers) => {
        const response = await fetch(`${url}/${where}`, { method: 'POST', headers: { 'Content-Type': type, ...headers }, body });
        const answer = await response.json();
        if (!response.ok) throw new Error(`${where}: ${JSON.stringify(answer)}`);
        return answer;
      };
      const stored = await post('v1/models', fs.readFileSync(model), 'application/octet-stream');
      const made = await post('v1/plans', JSON.stringify({ model: stored.id, ...query }), 'application/json', { Prefer: 'wait=120' });
      if (made.state !== 'succeeded') throw new Error(`the plan: ${JSON.stringify(made).slice(0, 1000)}`);
      return made;
    },
    stop: () => new Promise((resolve) => {
      process_.removeAllListeners('exit');
      process_.on('exit', (code) => {
        fs.rmSync(data, { recursive: true, force: true });
        resolve(code);
      });
      process_.kill('SIGTERM');
    }),
  };
}

/** Chromium without the services of its maker, which a closed network would refuse. */
export function startBrowser() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync'],
  });
}

const asking = new WeakMap(); // of each page: requests that are not answered yet

/** A page that notes what it must not do: errors, refusals by the content policy, requests to other hosts. */
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  const faults = [];
  const open = new Set();
  asking.set(page, open);
  page.on('pageerror', (error) => faults.push(`error: ${error}`));
  page.on('console', (message) => {
    // A refused request is told there, too; the tests ask for refusals.
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) faults.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !/^(blob|data):/.test(request.url())) faults.push(`asked for ${request.url()}`);
    if (!request.url().endsWith('/events')) open.add(request);
  });
  for (const end of ['requestfinished', 'requestfailed']) page.on(end, (request) => open.delete(request));
  return { context, page, faults };
}

export const QUIET_MS = 500; // more than any pause of the page's own before it asks for more

/** Waits until the page has all that it asked for, and shows it. */
export async function settle(page) {
  const open = asking.get(page);
  for (let quiet = 0, waited = 0; quiet < QUIET_MS; waited += 50) {
    if (waited > 60_000) throw new Error(`the page does not come to rest: it waits for ${[...open].map((one) => one.url()).join(', ') || 'nothing'}`);
    await page.waitForTimeout(50);
    const isBusy = open.size > 0 || (await page.locator('main .loading, main [aria-busy=true]').count()) > 0;
    quiet = isBusy ? 0 : quiet + 50;
  }
}

/** Goes to a view, "plans/ID/timeline", and waits until it is all there. */
export async function show(page, url, place) {
  await page.goto(`${url}/#/${place}`);
  await page.locator('main').waitFor();
  await settle(page);
}

export const VIEWS = ['overview', 'timeline', 'memory', 'graph', 'collectives', 'sharding', 'nodes', 'diagnostics', 'search', 'downloads'];

/** The exact numbers of elements, as the page has them beside those for people. */
export function exact(locator) {
  return locator.evaluateAll((elements) => elements.map((element) => Number(element.value)));
}

export function finish() {
  process.exit(failed > 0 ? 1 : 0);
}
