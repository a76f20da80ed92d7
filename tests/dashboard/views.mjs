// Every view in both schemes and at two widths: nothing wider than the screen, nothing that axe-core finds serious. A picture of
// each is left in build/test-logs/dashboard, for people to look at.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { check, equal, finish, MODEL, openPage, pictures, settle, show, startBrowser, startDaemon, that, VIEWS } from './page.mjs';

const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
fs.mkdirSync(pictures, { recursive: true });
const daemon = await startDaemon();
const browser = await startBrowser();
const A100 = 'a100-sxm4-80gb';
const staged = await daemon.plan(MODEL, { cluster: { device: A100, count: 8 }, objective: 'throughput', options: { strategy: 'pipeline' } });
const first = await daemon.plan(MODEL, { cluster: { device: A100, count: 1 } });
const limit = Math.ceil(first.plan.devices[0].memory.total_bytes * 0.3);
const split = await daemon.plan(MODEL, { cluster: { device: A100, count: 8, memory_limit_bytes: limit }, objective: 'latency', options: { strategy: 'tensor' } });
const swept = await daemon.plan(MODEL, { sweep: { devices: [1, 2, 4, 8], types: [A100, 'l4-24gb', 'h100-sxm-80gb'], choose: 'best' }, objective: 'throughput', options: { what_if: true } });
const { id } = staged;
const node = staged.plan.collectives[0].after_node;
const refused = await daemon.plan(MODEL, { cluster: { device: A100, count: 1, memory_limit_bytes: Math.ceil(limit / 10) } }).catch((error) => String(error));
that(/NO_PLAN_FITS/.test(refused), `a plan on too little memory: ${refused}`);
const [failed] = (await daemon.json('v1/plans?state=failed')).plans;

const places = {
  home: '', models: '?show=models', model: `models/${staged.model}`, new: `models/${staged.model}/plan`, failed: `plans/${failed.id}`,
  compare: `compare/${id}/${split.id}`, nowhere: 'no/such/place', sweep: `plans/${swept.id}/sweep`,
  ...Object.fromEntries(VIEWS.map((name) => [name, `plans/${id}/${name}`])),
  'collectives-split': `plans/${split.id}/collectives`, 'sharding-split': `plans/${split.id}/sharding?split=true`,
  tensor: `plans/${split.id}/sharding?name=${encodeURIComponent(split.plan.collectives[0].tensor)}`, node: `plans/${id}/nodes?name=${encodeURIComponent(node)}`,
  collective: `plans/${id}/collectives?index=0`, stages: `plans/${id}/graph?group=stage&box=0`, stage: `plans/${id}/memory?stage=2`, 'graph-split': `plans/${split.id}/graph`,
};

/** As the browser's own tools do: the policy of the page does not let it add a script. */
async function findings(opened) {
  const session = await opened.context.newCDPSession(opened.page);
  await session.send('Runtime.evaluate', { expression: axe });
  const { result } = await session.send('Runtime.evaluate', {
    expression: `axe.run().then((found) => JSON.stringify(found.violations.filter((one) => ['serious', 'critical'].includes(one.impact))
      .map((one) => [one.id, one.nodes.map((node) => node.html.slice(0, 200))])))`,
    awaitPromise: true,
    returnByValue: true,
  });
  await session.detach();
  return JSON.parse(result.value);
}

const titles = new Set(); // of each view
async function look(colorScheme, width) {
  const opened = await openPage(browser, daemon.url, { colorScheme, viewport: { width, height: 900 }, reducedMotion: 'reduce' });
  for (const [name, place] of Object.entries(places)) {
    await check(`views/${name}, ${colorScheme}, ${width} pixels`, async () => {
      await show(opened.page, daemon.url, place);
      await opened.page.screenshot({ path: path.join(pictures, `${name}-${colorScheme}-${width}.png`), fullPage: true });
      const beyond = await opened.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      that(beyond <= 0, `wider than the screen by ${beyond} pixels`);
      const below = await opened.page.evaluate(() => document.documentElement.scrollHeight - Math.max(innerHeight, scrollY + document.querySelector('main').getBoundingClientRect().bottom));
      that(below <= 1, `${below} pixels of nothing below the page`);
      titles.add(`${name}: ${await opened.page.title()}`);
      equal(await opened.page.locator('h1').count(), 1, 'headings of the page');
      equal(await findings(opened), [], 'findings of axe');
      equal(opened.faults, [], 'faults of the page');
    });
  }
  await opened.context.close();
}

await Promise.all(['light', 'dark'].flatMap((colorScheme) => [1440, 390].map((width) => look(colorScheme, width))));

await check('views/titles say what is shown', () => {
  const of = (name) => [...titles].filter((one) => one.startsWith(`${name}: `)).map((one) => one.slice(name.length + 2));
  for (const name of VIEWS) equal(of(name), [`${name[0].toUpperCase()}${name.slice(1)} of ${staged.plan.model.name}, plan ${id.slice(0, 12)} · Shardplan`], name);
  equal(of('nowhere'), ['Nothing here · Shardplan'], 'an address of nothing');
  equal(of('home'), ['Models and plans · Shardplan'], 'the first page');
  equal(of('failed'), [`failed: plan ${failed.id.slice(0, 12)} · Shardplan`], 'a plan that failed');
});

const { page, context, faults } = await openPage(browser, daemon.url);
await check('views/each picture has a table that says the same', async () => {
  for (const [name, place] of Object.entries(places)) {
    await show(page, daemon.url, place);
    const figures = page.locator('section.figure');
    const drawn = await page.locator('main canvas, main svg, main .stacks').count();
    that(drawn === 0 || (await figures.count()) > 0, `${name} has ${drawn} pictures`);
    for (const figure of await figures.all()) {
      await figure.getByRole('button', { name: 'Table', exact: true }).click();
      await settle(page);
      that((await figure.locator('table').count()) > 0, `a table in ${name}`);
      equal(await figure.locator('canvas, svg, .stacks').count(), 0, `pictures beside the tables of ${name}`);
      await figure.getByRole('button', { name: 'Picture', exact: true }).click();
    }
  }
});

await check('views/all of a plan by keys alone', async () => {
  await show(page, daemon.url, `plans/${id}`);
  // From above the page on, wherever the pointer has been before.
  await page.evaluate(() => {
    const start = document.createElement('span');
    start.tabIndex = -1;
    document.body.prepend(start);
    start.focus();
  });
  const focused = () => page.evaluate(() => (document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent).trim());
  await page.keyboard.press('Tab');
  equal(await focused(), 'Skip to content', 'what the first Tab comes to');
  await page.keyboard.press('Enter');
  equal(await page.evaluate(() => document.activeElement.id), 'main', 'behind the header');
  const seen = [];
  for (let presses = 0; presses < VIEWS.length; presses++) {
    await page.keyboard.press('Tab');
    seen.push((await focused()).toLowerCase());
    const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    that(ring !== 'none', `${seen.at(-1)} shows that it has the focus`);
  }
  equal(seen, VIEWS, 'the tabs, in order');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/downloads$/);
});

await check('views/the scheme can be chosen, and stays', async () => {
  await show(page, daemon.url, '');
  const colour = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await colour();
  await page.getByLabel('Colours').selectOption('dark');
  const dark = await colour();
  that(dark !== light, `the page is ${dark} in both`);
  await page.reload();
  await settle(page);
  equal(await colour(), dark, 'after it was opened again');
  await page.getByLabel('Colours').selectOption('light');
  equal(await colour(), light, 'light again');
});

await check('views/the page did nothing that it must not', async () => equal(faults, [], 'faults'));
await context.close();
await browser.close();
equal(await daemon.stop(), 0, 'the end of the daemon');
finish();
