// How the page carries a large plan: 100,000 nodes on 512 devices, in Chromium.
//
//     node tests/bench/page.mjs [--build build] [--nodes 100000] [--devices 512] [--seconds 3] [--pictures DIR]
//
// paint   first contentful paint of each view, opened in a new tab with nothing cached, and when all that it asks for is there;
//         beside a page of one line from the same daemon (its answer to an unknown route), which is what the browser itself takes
// frames  frames per second while the timeline is dragged, zoomed and scrolled, beside the same seconds without any input,
//         which is what the screen gives; the longest pause between two frames, too; "pictures" are different spans that were
//         met when every tenth turn of the input was over: the input did what it should
// memory  of the tab's process (proportional set size) after all that, its JavaScript heap, and the same of an empty tab
// Nothing is asserted; times are of this machine. Needs `npm ci` in tests/dashboard, and Chromium.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { atEnd, need } from './lacking.mjs';

const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const options = { build: path.join(top, 'build'), nodes: '100000', devices: '512', seconds: '3', pictures: '' };
for (let i = 2; i < process.argv.length; i += 2) options[process.argv[i].slice(2)] = process.argv[i + 1];
process.env.SHARDPLAND ??= path.join(options.build, 'server/shardpland');
need(process.env.SHARDPLAND, 'build it first: meson setup BUILD && ninja -C BUILD');
need(process.env.CHROMIUM ?? '/usr/bin/chromium', 'install it first: apt-get install chromium');
need(path.join(top, 'tests/dashboard/node_modules/playwright-core'), 'install it first: npm ci --ignore-scripts in tests/dashboard');
const { openPage, QUIET_MS, settle, show, startBrowser, startDaemon, VIEWS } = await import('../dashboard/page.mjs');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-large-'));
atEnd(() => fs.rmSync(folder, { recursive: true, force: true }));
const file = path.join(folder, 'model.json');
execFileSync('python3', [path.join(top, 'tests/bench/models.py'), '--model', 'blocks', '--nodes', options.nodes, '--output', file]);
const daemon = await startDaemon();
atEnd(() => fs.rmSync(daemon.data, { recursive: true, force: true })); // the daemon itself is ended by page.mjs
const browser = await startBrowser();
const control = await browser.newBrowserCDPSession();
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function makePlan() {
  const asked = Date.now();
  const model = await daemon.json('v1/models', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: fs.readFileSync(file) });
  const body = { model: model.id, cluster: { device: 'h100-sxm-80gb', count: Number(options.devices) }, objective: 'throughput' };
  let plan = await daemon.json('v1/plans', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  while (['queued', 'running'].includes(plan.state)) {
    await pause(500);
    plan = await daemon.json(`v1/plans/${plan.id}`);
  }
  if (plan.state !== 'succeeded') throw new Error(`the plan: ${JSON.stringify(plan).slice(0, 1000)}`);
  console.log(`plan of ${options.nodes} nodes on ${options.devices} devices made in ${((Date.now() - asked) / 1000).toFixed(1)} s`);
  const timeline = await daemon.json(`v1/plans/${plan.id}/timeline`, { headers: { Accept: 'application/json' } });
  console.log(`${plan.plan.stages.length} stages, ${plan.plan.estimate.devices_used} devices used, ${timeline.lane_count} lanes`);
  return plan.id;
}

/** Opens an address in a tab of its own; when the first paint was, and when the page had come to rest. */
async function open(address) {
  const { context, page } = await openPage(browser, daemon.url);
  const begun = Date.now();
  await page.goto(address);
  await settle(page);
  const quiet = Date.now() - begun - QUIET_MS;
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN);
  return { context, page, paint, quiet };
}

/** Frames of the browser while something is done. */
async function frames(page, act) {
  await page.evaluate(() => {
    window.frames_ = [];
    const note = (time) => {
      window.frames_.push(time);
      window.noting = requestAnimationFrame(note);
    };
    window.noting = requestAnimationFrame(note);
  });
  const shown = () => page.evaluate(() => document.querySelector('.timeline canvas').getAttribute('aria-label') + document.querySelector('.timeline').scrollTop);
  const until = Date.now() + Number(options.seconds) * 1000;
  const seen = new Set();
  for (let turn = 0; Date.now() < until; turn++) {
    await act(turn);
    if (turn % 10 === 9) seen.add(await shown());
  }
  return page.evaluate((pictures) => {
    cancelAnimationFrame(window.noting);
    const gaps = window.frames_.slice(1).map((time, at) => time - window.frames_[at]);
    return { pictures, rate: (1000 * gaps.length) / gaps.reduce((sum, gap) => sum + gap, 0), longest: Math.max(...gaps) };
  }, seen.size);
}

/** Bytes of the process of a tab, and of its heap after a collection. */
async function memory(page) {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  const { processInfo } = await control.send('SystemInfo.getProcessInfo');
  const sizes = processInfo.filter((one) => one.type === 'renderer').map((one) => {
    try {
      return Number(/^Pss:\s+(\d+) kB/m.exec(fs.readFileSync(`/proc/${one.id}/smaps_rollup`, 'utf8'))[1]) * 1024;
    } catch {
      return 0;
    }
  });
  return { process: Math.max(...sizes), heap: usedSize };
}

const mb = (bytes) => `${(bytes / 1e6).toFixed(0)} MB`;
const id = await makePlan();

const empty = await open(`${daemon.url}/no-such-page`);
console.log(`\n${'view'.padEnd(14)}${'first paint'.padStart(12)}${'all there'.padStart(12)}${'tab'.padStart(10)}${'heap'.padStart(10)}`);
const row = async (name, { page, paint, quiet }) => {
  const size = await memory(page);
  console.log(`${name.padEnd(14)}${`${paint.toFixed(0)} ms`.padStart(12)}${`${quiet} ms`.padStart(12)}${mb(size.process).padStart(10)}${mb(size.heap).padStart(10)}`);
};
await row('(one line)', empty);
await empty.context.close();
for (const view of VIEWS) {
  const opened = await open(`${daemon.url}/#/plans/${id}/${view}`);
  await row(view, opened);
  if (options.pictures !== '') await opened.page.screenshot({ path: path.join(options.pictures, `large-${view}.png`), fullPage: true });
  await opened.context.close();
}

const { page, context } = await open(`${daemon.url}/#/plans/${id}/timeline`);
const box = await page.locator('.timeline canvas').boundingBox();
const middle = { x: box.x + box.width / 2, y: box.y + 150 };
const drag = async (turn) => {
  if (turn === 0) {
    await page.mouse.move(middle.x, middle.y);
    await page.mouse.down();
  }
  await page.mouse.move(middle.x + 200 * Math.sin(turn / 15), middle.y);
};
const wheel = (keys, move) => async (turn) => {
  if (turn === 0) {
    await page.mouse.move(middle.x, middle.y);
    for (const key of keys) await page.keyboard.down(key);
  }
  await page.mouse.wheel(0, move(turn));
};
console.log(`\n${'timeline'.padEnd(26)}${'frames/s'.padStart(10)}${'longest'.padStart(10)}${'pictures'.padStart(10)}`);
const tell = (name, { rate, longest, pictures }) => console.log(`${name.padEnd(26)}${rate.toFixed(1).padStart(10)}${`${longest.toFixed(0)} ms`.padStart(10)}${String(pictures).padStart(10)}`);
tell('no input', await frames(page, () => pause(50)));
tell('zoom of the whole', await frames(page, wheel(['Control'], (turn) => (turn % 60 < 30 ? -20 : 20))));
await page.keyboard.up('Control');
for (let turn = 0; turn < 3; turn++) await page.getByRole('button', { name: 'Zoom in' }).click();
await settle(page);
tell('drag, zoomed in', await frames(page, drag));
await page.mouse.up();
tell('zoom, zoomed in', await frames(page, wheel(['Control'], (turn) => (turn % 60 < 30 ? -20 : 20))));
await page.keyboard.up('Control');
tell('scroll through the lanes', await frames(page, wheel([], (turn) => (turn % 120 < 60 ? 60 : -60))));
for (const view of VIEWS) await show(page, daemon.url, `plans/${id}/${view}`);
const size = await memory(page);
console.log(`\none tab after the timeline and every view: ${mb(size.process)}, heap ${mb(size.heap)}`);
await context.close();
await browser.close();
fs.rmSync(folder, { recursive: true });
await daemon.stop();
