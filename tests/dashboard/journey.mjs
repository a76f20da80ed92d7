// What a person does with the page, from the upload of a model to the annotated one in ONNX Runtime.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { externalFiles } from '../conformance/wire.mjs';
import { check, equal, exact, finish, MODEL, openPage, settle, show, startBrowser, startDaemon, that, top } from './page.mjs';

const require = createRequire(path.join(top, 'tests/conformance/'));
const daemon = await startDaemon();
const browser = await startBrowser();
const { page, context, faults } = await openPage(browser, daemon.url);
const go = (place) => show(page, daemon.url, place);
const idOf = (pattern) => pattern.exec(page.url())?.[1];
let model, id, plan;

/** Submits the form and waits for the views of the plan. */
async function planned() {
  await page.locator('button[type=submit]').click();
  await page.waitForURL(/#\/plans\/[0-9a-f]{32}/);
  const made = idOf(/plans\/([0-9a-f]{32})/);
  await page.getByRole('navigation', { name: 'Views of this plan' }).waitFor({ timeout: 120_000 });
  await settle(page);
  return made;
}

await check('journey/drop a model', async () => {
  await go('');
  await page.getByText('No plans yet').waitFor();
  const dropped = await page.evaluateHandle((text) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))], 'dropped.onnx'));
    return transfer;
  }, fs.readFileSync(MODEL).toString('base64'));
  await page.locator('.drop').dispatchEvent('drop', { dataTransfer: dropped });
  await page.waitForURL(/#\/models\/[0-9a-f]{64}\/plan/);
  model = idOf(/models\/([0-9a-f]{64})/);
  equal((await daemon.json('v1/models')).models.map((one) => one.id), [model], 'the stored models');
});

await check('journey/choose the file of a model', async () => {
  await go('');
  await page.getByLabel('Model file').setInputFiles(MODEL);
  await page.waitForURL(`**/#/models/${model}/plan`); // the same bytes are the same model
});

await check('journey/an upload tells how far it is, and can be cancelled', async () => {
  // On a line of 200 kB/s, 4 MB last.
  const session = await context.newCDPSession(page);
  const speed = (bytes) => session.send('Network.emulateNetworkConditions', { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: bytes });
  await go('');
  await speed(200_000);
  await page.getByLabel('Model file').setInputFiles({ name: 'slow.onnx', mimeType: 'application/octet-stream', buffer: Buffer.alloc(4_000_000) });
  const bar = page.getByRole('progressbar', { name: 'Upload of slow.onnx' });
  await page.waitForFunction(() => document.querySelector('main progress')?.value > 0.02);
  that((await bar.getAttribute('value')) < 1, 'it is under way');
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('alert').getByText('The upload was cancelled.').waitFor();
  await speed(-1);
  equal((await daemon.json('v1/models')).models.length, 1, 'stored models');
});

await check('journey/what is no model is refused, with the reason', async () => {
  await go('');
  await page.getByLabel('Model file').setInputFiles({ name: 'letter.onnx', mimeType: 'application/octet-stream', buffer: Buffer.from('Dear Sir or Madam') });
  const said = await page.getByRole('alert').innerText();
  that(/MALFORMED|NOT_|BAD_|INVALID|ONNX/i.test(said) && /request [0-9a-f]+/.test(said), said);
});

await check('journey/plan on 8 devices', async () => {
  await go(`models/${model}/plan`);
  await page.getByLabel('Number of devices').fill('8');
  id = await planned();
  ({ plan } = await daemon.json(`v1/plans/${id}`));
  equal(plan.devices.length, 8, 'devices');
  equal(plan.model.sha256, model, 'the model');
});

await check('journey/devices say where their figures come from, and the runtime is chosen', async () => {
  await go(`models/${model}/plan`);
  await page.getByRole('combobox', { name: 'Device', exact: true }).selectOption('h100-sxm-80gb');
  const said = await page.getByText('Time of kernels').innerText();
  that(/USD an hour \(.*\d{4}-\d\d-\d\d\)/.test(said) && /measured \(products, attention/.test(said), said);
  await page.getByRole('combobox', { name: 'Device', exact: true }).selectOption('l4-24gb');
  await page.getByText('not measured, defaults of its kind').waitFor();
  equal(await page.getByLabel('Runtime').inputValue(), 'onnxruntime', 'the default');
  await page.getByLabel('Runtime').selectOption('tensorrt');
  await page.getByLabel('Number of devices').fill('1');
  const { plan: found } = await daemon.json(`v1/plans/${await planned()}`);
  equal(found.cluster.groups.map((group) => group.runtime), ['tensorrt'], 'runtime');
  await page.getByText('tensorrt runs the model').waitFor();
});

await check('journey/a form that the daemon refuses says why', async () => {
  await go(`models/${model}/plan`);
  await page.getByLabel('Stages, at most').fill('3');
  await page.getByText('Pins, groups, shardings').click();
  await page.getByRole('textbox', { name: /^Constraints/ }).fill('{"pins": [{"nodes": "*", "stage": 7}]}');
  await page.locator('button[type=submit]').click();
  const said = await page.getByRole('alert').innerText();
  that(/stage/.test(said), said);
  await go(`models/${model}/plan`);
  await page.getByRole('button', { name: 'Custom' }).click();
  await page.locator('textarea').first().fill('{"device": ');
  await page.locator('button[type=submit]').click();
  await page.getByRole('alert').getByText('The cluster is not JSON').waitFor();
});

await check('journey/what a model does not say is told in the form', async () => {
  const operators = [{ domain: 'com.example', name: 'FusedGate', versions: [1], rule: '[b.., k] [k, n] -> [b.., n]; k sum', flops: '2*b..*k*n' }];
  const described = { opset: 21, inputs: [{ name: 'x', dtype: 'float32', shape: ['past + seq', 64] }],
    initializers: [{ name: 'w', dtype: 'float32', shape: [64, 32] }], outputs: ['y'],
    nodes: [{ op: 'FusedGate', domain: 'com.example', inputs: ['x', 'w'], outputs: ['y'] }] };
  await go('');
  await page.getByLabel('Model file').setInputFiles({ name: 'gate.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(described)) });
  await page.waitForURL((url) => /#\/models\/[0-9a-f]{64}\/plan/.test(url.hash) && !url.hash.includes(model));
  await page.getByLabel('Dimension past').fill('4');
  await page.getByLabel('Tolerance (%)').fill('0.7');
  await page.getByText('Sizes, values, shapes, operators and states').click();
  await page.getByLabel('Sizes of other dimensions').fill('{"past + seq": 12}');
  await page.getByLabel('Shapes of tensors').fill('{"y": ["past + seq", 32]}');
  await page.getByLabel('Operators of your own').fill(JSON.stringify(operators));
  const { plan: found } = await daemon.json(`v1/plans/${await planned()}`);
  equal(found.options.operators, operators, 'operators');
  equal(found.options.tolerance, 0.007, 'tolerance');
  equal(found.options.dims, { past: 4, 'past + seq': 12 }, 'dims');
  equal(found.options.shapes, { y: ['past + seq', 32] }, 'shapes');
  const copies = found.copies?.count ?? 1; // each computes all
  equal(found.devices.reduce((sum, device) => sum + device.flops, 0), copies * 2 * 12 * 64 * 32, 'FLOPs');
});

await check('journey/watch progress arrive', async () => {
  // Everything that the page shows of the search while it runs is noted as it changes.
  await page.addInitScript(() => {
    window.seen = { shares: [], best: [], bound: [], phases: [] };
    const add = (list, value) => value !== undefined && list.at(-1) !== value && list.push(value);
    new MutationObserver(() => {
      const bar = document.querySelector('progress.wide');
      if (bar === null) return;
      const figure = (name) => document.querySelector(`data[data-figure=${name}]`)?.value;
      add(window.seen.shares, bar.value);
      add(window.seen.best, figure('best_seconds'));
      add(window.seen.bound, figure('lower_bound_seconds'));
      add(window.seen.phases, bar.closest('section').querySelector('h2').textContent);
    }).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  });
  await page.reload();
  await go('');
  await page.getByLabel('Model file').setInputFiles(path.join(top, 'tests/data/vit_l_16.onnx')); // one to search for seconds
  await page.waitForURL((url) => /#\/models\/[0-9a-f]{64}\/plan/.test(url.hash) && !url.hash.includes(model));
  await settle(page);
  await page.getByLabel('Number of devices').fill('64');
  await page.getByLabel('Run what-if analysis').check();
  const long = await planned();
  const seen = await page.evaluate(() => window.seen);
  const { plan: found } = await daemon.json(`v1/plans/${long}`);
  that(new Set(seen.shares).size >= 2, `shares of the progress: ${seen.shares}`);
  that(seen.phases.includes('Searching'), `phases: ${seen.phases}`);
  that(seen.best.length >= 1 && seen.bound.length >= 1, `best ${seen.best}, bound ${seen.bound}`);
  that(Number(seen.best.at(-1)) >= Number(seen.bound.at(-1)), 'the best is above the bound');
  equal(Number(seen.best.at(-1)), found.estimate.best_found_seconds, 'the best at last');
  // The course is kept, and told as a table, too.
  await page.getByRole('link', { name: 'Search', exact: true }).click();
  const course = page.locator('section', { has: page.getByRole('heading', { name: 'Best plan and bound over time' }) });
  await course.getByRole('img').waitFor();
  await course.getByRole('button', { name: 'Table' }).click();
  const best = (await exact(course.locator('data[data-figure=best]'))).filter((one) => one > 0);
  equal(best.at(-1), found.estimate.best_found_seconds, 'the end of the course');
  that(best.every((one, at) => at === 0 || one <= best[at - 1]), `it only gets better: ${best}`);
});

await check('journey/cancel a search', async () => {
  const { id: large } = (await daemon.json('v1/models')).models.find((one) => one.id !== model);
  await go(`models/${large}/plan`);
  await page.getByLabel('Number of devices').fill('256');
  await page.getByLabel('Run what-if analysis').check();
  await page.locator('button[type=submit]').click();
  await page.getByRole('button', { name: 'Cancel' }).click();
  const cancelled = idOf(/plans\/([0-9a-f]{32})/);
  await page.locator('.badge', { hasText: 'cancelled' }).waitFor();
  equal((await daemon.json(`v1/plans/${cancelled}`)).state, 'cancelled', 'the state');
});

await check('journey/a device', async () => {
  const stage = plan.stages.at(-1);
  const { memory } = plan.devices[stage.devices[0]];
  await go(`plans/${id}/memory`);
  await page.locator('.stack-row').last().click();
  await page.waitForURL(/stage=/);
  await settle(page);
  const alive = page.locator('section', { has: page.getByRole('heading', { name: 'Alive at the peak' }) });
  equal(await exact(alive.locator('data[data-figure=activations_peak_bytes]')), [memory.activations_peak_bytes], 'activations');
  // What is alive adds up to them, as far as the list goes.
  const held = await exact(alive.locator('td data[data-figure=bytes]'));
  that(held.length > 0 && held.reduce((sum, one) => sum + one, 0) <= memory.activations_peak_bytes, `alive: ${held}`);
});

await check('journey/a slice of the timeline, by keys', async () => {
  await go(`plans/${id}/timeline`);
  const canvas = page.locator('.timeline canvas');
  await canvas.focus();
  await page.keyboard.press('ArrowDown');
  await page.waitForURL(/slice=/);
  await page.keyboard.press('+');
  await page.waitForURL(/from=/);
  await settle(page);
  const label = await canvas.getAttribute('aria-label');
  that(!label.includes(' from 0 s to '), `zoomed in: ${label}`);
  const details = page.locator('section', { has: page.locator('dt', { hasText: 'Begins' }) });
  const [begin, end, busy] = await exact(details.locator('data'));
  that(begin < end && busy <= end - begin + 1e-12 && busy > 0, `${begin} to ${end}, ${busy} busy`);
  const title = await details.getByRole('heading').innerText();
  // The address is a link to just this.
  await page.reload();
  await settle(page);
  equal(await details.getByRole('heading').innerText(), title, 'the slice after the address was opened again');
  // So is the tab: of all of it, as it was at first.
  await page.getByRole('link', { name: 'Timeline', exact: true }).click();
  await page.waitForFunction(() => document.querySelector('.timeline canvas').getAttribute('aria-label').includes(' from 0 s to '));
  await page.goBack();
  await page.waitForFunction(() => !document.querySelector('.timeline canvas').getAttribute('aria-label').includes(' from 0 s to '));
  await settle(page);
  await details.getByRole('link').click();
  await page.waitForURL(/\/(nodes|collectives)\?/);
});

await check('journey/a slice of the timeline, by pointing', async () => {
  await go(`plans/${id}/timeline`);
  const box = await page.locator('.timeline canvas').boundingBox();
  const lane = { x: box.x + 90 + (box.width - 90) * 0.001, y: box.y + 22 + 10 };
  // As hands do it, in many small steps, until the line below the picture says what is there.
  const told = () => page.locator('.told').textContent();
  for (let step = 0; step < 50 && !/ of request \d+ from /.test(await told()); step++) {
    await page.mouse.move(lane.x + (step % 3), lane.y);
    await page.waitForTimeout(50);
  }
  that(/ of request 0 from /.test(await told()), await told());
  await page.mouse.down();
  await page.mouse.up();
  await page.waitForURL(/slice=0/);
  const before = await page.locator('.timeline canvas').getAttribute('aria-label');
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, -300);
  await page.keyboard.up('Control');
  await page.waitForFunction((text) => document.querySelector('.timeline canvas').getAttribute('aria-label') !== text, before);
});

await check('journey/a collective', async () => {
  await go(`plans/${id}/collectives`);
  const longest = plan.collectives.reduce((most, one) => (one.seconds > most.seconds ? one : most));
  await page.locator('table', { has: page.locator('caption', { hasText: /^Exchanges$/ }) }).locator('tbody button').first().click();
  await page.waitForURL(/index=/);
  await settle(page);
  equal(await exact(page.locator('data[data-figure="collective.seconds"]')), [longest.seconds], 'seconds');
  const shown = plan.collectives[Number(/index=(\d+)/.exec(page.url())[1])];
  equal(await exact(page.locator('data[data-figure="collective.bytes"]')), [shown.bytes], 'bytes');
  await page.locator('.details').getByText(shown.tensor, { exact: true }).click();
  await page.waitForURL(/sharding\?name=/);
  await settle(page);
  await page.getByRole('heading', { name: shown.tensor, exact: true }).waitFor();
});

await check('journey/a tensor, and the nodes around it', async () => {
  const tensor = plan.tensors.find((one) => one.kind === 'activation');
  await go(`plans/${id}/sharding`);
  await page.getByLabel('Name').fill(tensor.name);
  await page.waitForURL(/search=/);
  await settle(page);
  await page.getByRole('button', { name: tensor.name, exact: true }).click();
  await settle(page);
  const details = page.locator('.details');
  await details.getByText(tensor.because).waitFor();
  equal(await exact(details.locator('data[data-figure="tensor.bytes"]')), [tensor.bytes], 'bytes');
  equal(JSON.parse(await details.locator('pre').textContent()), tensor.spec.onnx, 'the spec as ONNX has it');
  await details.locator('table').last().getByRole('link').first().click();
  await page.waitForURL(/nodes\?name=/);
  await settle(page);
  await page.locator('.details').getByText(tensor.name, { exact: true }).first().waitFor();
});

await check('journey/the graph: into a module and out again, by pointer and keys', async () => {
  await go(`plans/${id}/graph`);
  const title = await page.locator('.crumbs').innerText();
  that(title.startsWith(`${plan.model.node_count.toLocaleString('en')} nodes`), title);
  const box = page.locator('.box.module, .box.run').first();
  await page.getByRole('button', { name: 'Fit' }).focus();
  await page.keyboard.press('Tab');
  equal(await page.evaluate(() => document.activeElement.matches('.box')), true, 'boxes are what the next Tab comes to');
  await box.focus();
  // One that is far away comes into sight with the focus.
  const frame = await page.locator('.graph').boundingBox();
  const place = await box.boundingBox();
  that(place.x >= frame.x && place.x + place.width <= frame.x + frame.width && place.y >= frame.y && place.y + place.height <= frame.y + frame.height, 'the box is in sight');
  await page.keyboard.press('Enter');
  await page.waitForURL(/box=/);
  await page.keyboard.press('Enter');
  await page.waitForURL(/path=/);
  await settle(page);
  await page.locator('.crumbs button').first().click();
  await settle(page);
  equal(await page.locator('.crumbs').innerText(), title, 'outside again');
  await page.getByLabel('Boxes are').selectOption('stage');
  await settle(page);
  equal(await page.locator('.box.stage').count(), plan.stages.length, 'stages');
  await page.locator('.box.stage').first().dblclick();
  await page.waitForURL(/stage=0/);
});

await check('journey/compare with a second plan', async () => {
  const second = await daemon.plan(MODEL, { cluster: { device: 'a100-sxm4-80gb', count: 4 }, objective: 'latency' });
  await go('');
  for (const one of [id, second.id]) await page.getByRole('checkbox', { name: `Compare plan ${one.slice(0, 12)}` }).check();
  await page.getByRole('link', { name: 'Compare the two' }).click();
  await page.getByRole('heading', { name: 'Two plans' }).waitFor();
  await settle(page);
  for (const [side, one] of [['a', plan], ['b', second.plan]]) {
    equal(await exact(page.locator(`data[data-figure="${side} Latency"]`)), [one.estimate.latency_seconds], `latency of ${side}`);
    equal(await exact(page.locator(`data[data-figure="${side} Throughput"]`)), [one.estimate.throughput_per_second], `throughput of ${side}`);
  }
  // Tensors that are sharded otherwise: as many as the two plans have.
  const texts = new Map(second.plan.tensors.map((one) => [one.name, one.spec.text]));
  const other = plan.tensors.filter((one) => texts.get(one.name) !== one.spec.text).length;
  const said = other === 0 ? page.getByText('None: every tensor has the same sharding') : page.getByText(`of ${other.toLocaleString('en')}`, { exact: false });
  await said.first().waitFor();
});

await check('journey/every download answers', async () => {
  await go(`plans/${id}/downloads`);
  const links = await page.locator('a[download]').evaluateAll((all) => all.map((one) => one.href));
  // All that the contract names; the model and the plan beside it.
  const { paths } = await daemon.json('openapi.json');
  const formats = paths['/v1/plans/{id}/exports/{format}'].parameters.find((one) => one.name === 'format').schema.enum;
  const known = { simulation: '/simulation', perfetto: '/timeline' };
  for (const format of formats) that(links.some((link) => link.endsWith(known[format] ?? `/exports/${format}`)), `a link to ${format}`);
  for (const link of links) {
    const response = await fetch(link);
    const bytes = await response.arrayBuffer();
    // One that cannot be made of this plan says why.
    if (response.status === 422) that(JSON.parse(Buffer.from(bytes).toString()).detail.length > 20, link);
    else that(response.status === 200 && bytes.byteLength > 0, `${link}: ${response.status}, ${bytes.byteLength} bytes`);
  }
});

await check('journey/the annotated model in ONNX Runtime', async () => {
  await go(`plans/${id}/downloads`);
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('row', { name: /^Annotated model/ }).getByRole('link').click()]);
  const folder = fs.mkdtempSync(path.join(daemon.data, 'annotated-'));
  const to = path.join(folder, 'model.onnx');
  await download.saveAs(to);
  const bytes = fs.readFileSync(to);
  that(bytes.length > fs.statSync(MODEL).size, 'annotations were added');
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

await check('journey/delete a model that plans need: refused, and said', async () => {
  await go('?show=models');
  await page.getByRole('row', { name: /dropped/ }).getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('alert').getByText('MODEL_IN_USE').waitFor();
});

await check('journey/the page did nothing that it must not', async () => equal(faults, [], 'faults'));
await context.close();
await browser.close();
equal(await daemon.stop(), 0, 'the end of the daemon');
finish();
