// What the tests of the page share: a daemon, a browser, and lines of TAP.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

export const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const pictures = path.join(top, 'build/test-logs/dashboard');
export const shared = process.env.SHARDPLAN_TEST_DATA ?? path.join(top, '../shared/data');

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

/** A daemon on a free port with a folder of its own; stop() ends it and says whether it ended well. */
export async function startDaemon(...options) {
  const data = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-page-'));
  const process_ = spawn(process.env.SHARDPLAND ?? path.join(top, 'build/server/shardpland'),
    ['--listen', '127.0.0.1:0', '--data', data, ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  const url = await new Promise((resolve, reject) => {
    process_.on('exit', (code) => reject(new Error(`the daemon ended with ${code}: ${log}`)));
    process_.stderr.on('data', (bytes) => {
      log += bytes;
      const port = /127\.0\.0\.1:(\d+)/.exec(log)?.[1];
      if (port !== undefined) resolve(`http://127.0.0.1:${port}`);
    });
  });
  return {
    url,
    data,
    json: async (where, init) => (await fetch(`${url}/${where}`, init)).json(),
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

/** A page that notes what it must not do: errors, refusals by the content policy, requests to other hosts. */
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  const faults = [];
  page.on('pageerror', (error) => faults.push(`error: ${error}`));
  page.on('console', (message) => {
    // A refused request is told there, too; the tests ask for refusals.
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) faults.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !/^(blob|data):/.test(request.url())) faults.push(`asked for ${request.url()}`);
  });
  return { context, page, faults };
}

/** The exact numbers of elements, as the page has them beside those for people. */
export function exact(locator) {
  return locator.evaluateAll((elements) => elements.map((element) => Number(element.value)));
}

export function finish() {
  process.exit(failed > 0 ? 1 : 0);
}
