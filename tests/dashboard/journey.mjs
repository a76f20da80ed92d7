// What a person does with the page, from the upload of a model to the annotated one in ONNX Runtime; a picture of each view
// in both schemes and at two widths is left in build/test-logs/dashboard.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { externalFiles } from '../conformance/wire.mjs';
import { check, equal, exact, finish, openPage, pictures, shared, startBrowser, startDaemon, that, top } from './page.mjs';

const require = createRequire(path.join(top, 'tests/conformance/'));
const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const published = path.join(shared, 'models/bert_base.onnx');
const file = fs.existsSync(published) ? published : path.join(top, 'tests/data/transformer_tiny.onnx');
const VIEWS = ['overview', 'timeline', 'memory', 'graph', 'collectives', 'sharding', 'nodes', 'diagnostics', 'search', 'downloads'];

fs.mkdirSync(pictures, { recursive: true });
const daemon = await startDaemon();
const browser = await startBrowser();
const { page, context, faults } = await openPage(browser, daemon.url);
let id = '', other = '', plan;

/** Goes to a view, and waits until all that it asks for is there. */
async function show(on, hash) {
  await on.goto(`${daemon.url}/#/${hash}`);
  await on.locator('main').waitFor();
  await on.waitForLoadState('networkidle');
}

async function planned(query) {
  const model = plan?.model.sha256 ?? (await daemon.json('v1/models')).models?.[0]?.id;
  const body = { model, cluster: { device: 'a100-sxm4-80gb', count: 4 }, objective: 'latency', ...query };
  const made = await daemon.json('v1/plans', { method: 'POST', headers: { 'Content-Type': 'application/json', Prefer: 'wait=120' }, body: JSON.stringify(body) });
  return made.id;
}

await check('journey/upload, plan on 8 devices, watch', async () => {
  await show(page, '');
  await page.locator('input[type=file]').first().setInputFiles(file);
  await page.waitForURL(/#\/models\/[0-9a-f]{64}/, { timeout: 60_000 });
  const model = /models\/([0-9a-f]{64})/.exec(page.url())[1];
  await show(page, `models/${model}/plan`);
  await page.getByLabel('Number of devices').fill('8');
  await page.locator('button[type=submit]').click();
  await page.waitForURL(/#\/plans\/[0-9a-f]{32}/, { timeout: 60_000 });
  id = /plans\/([0-9a-f]{32})/.exec(page.url())[1];
  await page.getByRole('navigation', { name: 'Views of this plan' }).waitFor({ timeout: 120_000 });
  ({ plan } = await daemon.json(`v1/plans/${id}`));
  equal(plan.devices.length, 8, 'devices');
});

await check('journey/figures of the overview are the plan\'s', async () => {
  await show(page, `plans/${id}/overview`);
  for (const name of ['latency_seconds', 'throughput_per_second', 'devices_used', 'gap', 'interval_seconds', 'lower_bound_seconds', 'communication_bytes'])
    equal(await exact(page.locator(`data[data-figure=${name}]`).first()), [plan.estimate[name]], name);
  await page.getByText(plan.estimate.bottleneck).first().waitFor();
});

await check('journey/figures of memory are the plan\'s', async () => {
  await show(page, `plans/${id}/memory`);
  await page.getByRole('button', { name: 'Table' }).first().click();
  for (const name of ['weights_bytes', 'activations_peak_bytes', 'communication_bytes', 'total_bytes', 'capacity_bytes'])
    equal(await exact(page.locator(`td data[data-figure=${name}]`)), plan.devices.map((device) => device.memory[name]), name);
});

await check('journey/figures of the timeline are the plan\'s', async () => {
  await show(page, `plans/${id}/timeline`);
  await page.getByRole('button', { name: 'Table' }).first().click();
  for (const name of ['compute_seconds', 'collective_seconds', 'start_seconds'])
    equal(await exact(page.locator(`td data[data-figure=${name}]`)), plan.stages.map((stage) => stage[name]), name);
});

await check('journey/a device, a slice, a collective, a tensor', async () => {
  await show(page, `plans/${id}/memory`);
  await page.locator('.stack-row').last().click();
  await page.waitForURL(/stage=/);
  await show(page, `plans/${id}/timeline`);
  const canvas = page.locator('.timeline canvas');
  await canvas.focus();
  await page.keyboard.press('ArrowDown');
  await page.waitForURL(/slice=/);
  await page.keyboard.press('+');
  await page.getByRole('heading', { level: 2 }).nth(1).waitFor();
  if (plan.collectives.length > 0) {
    await show(page, `plans/${id}/collectives`);
    await page.locator('tbody a').first().click();
  }
  await show(page, `plans/${id}/sharding`);
  await page.locator('tbody a, tbody button').first().click();
  await page.getByText(plan.tensors[0].because).first().waitFor();
});

await check('journey/compare with a second plan', async () => {
  other = await planned({});
  that(/^[0-9a-f]{32}$/.test(other ?? ''), `a second plan: ${other}`);
  await show(page, `compare/${id}/${other}`);
  await page.getByRole('heading', { name: 'Two plans' }).waitFor();
  const figures = await exact(page.locator('data'));
  that(figures.includes(plan.estimate.latency_seconds), 'the latency of the first plan');
});

await check('journey/the annotated model in ONNX Runtime', async () => {
  await show(page, `plans/${id}/downloads`);
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('row', { name: /annotated/i }).getByRole('link').or(page.getByRole('button', { name: /annotated/i })).or(page.getByRole('link', { name: /annotated/i })).first().click()]);
  const folder = fs.mkdtempSync(path.join(daemon.data, 'annotated-'));
  const to = path.join(folder, 'model.onnx');
  await download.saveAs(to);
  const bytes = fs.readFileSync(to);
  for (const [name, size] of externalFiles(bytes)) {
    const handle = fs.openSync(path.join(folder, name), 'w');
    fs.ftruncateSync(handle, size);
    fs.closeSync(handle);
  }
  const runtime = require('onnxruntime-node');
  const session = await runtime.InferenceSession.create(to, { graphOptimizationLevel: 'disabled' });
  that(session.inputNames.length > 0, 'inputs');
  await session.release();
});

await check('journey/the page did nothing that it must not', async () => equal(faults, [], 'faults'));
await context.close();

for (const colorScheme of ['light', 'dark']) {
  for (const width of [1440, 390]) {
    const opened = await openPage(browser, daemon.url, { colorScheme, viewport: { width, height: 900 } });
    const places = { home: '', model: `models/${plan?.model.sha256}`, new: `models/${plan?.model.sha256}/plan`, compare: `compare/${id}/${other}`,
      ...Object.fromEntries(VIEWS.map((name) => [name, `plans/${id}/${name}`])) };
    for (const [name, place] of Object.entries(places)) {
      await check(`views/${name}, ${colorScheme}, ${width} pixels`, async () => {
        await show(opened.page, place);
        await opened.page.waitForTimeout(300);
        await opened.page.screenshot({ path: path.join(pictures, `${name}-${colorScheme}-${width}.png`), fullPage: true });
        const beyond = await opened.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        that(beyond <= 0, `wider than the screen by ${beyond} pixels`);
        // As the browser's own tools do: the policy of the page does not let it add a script.
        const session = await opened.context.newCDPSession(opened.page);
        await session.send('Runtime.evaluate', { expression: axe });
        const { result } = await session.send('Runtime.evaluate', {
          expression: "axe.run().then((found) => JSON.stringify(found.violations.filter((one) => ['serious', 'critical'].includes(one.impact)).map((one) => [one.id, one.nodes.map((node) => node.html.slice(0, 200))])))",
          awaitPromise: true, returnByValue: true });
        equal(JSON.parse(result.value), [], 'findings of axe');
        equal(opened.faults, [], 'faults of the page');
      });
    }
    await opened.context.close();
  }
}

await browser.close();
equal(await daemon.stop(), 0, 'the end of the daemon');
finish();
