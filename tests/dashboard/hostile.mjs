// Names of models, nodes and tensors are anybody's text: the page shows them, and nothing of them runs.
import { check, equal, finish, openPage, show, startBrowser, startDaemon, that, VIEWS } from './page.mjs';

const MARKUP = [
  '<script>window.injected=1</script>',
  '<img src=x onerror="window.injected=1">',
  '"><svg onload=window.injected=1>',
  "javascript:window.injected=1//",
  '</title><script>window.injected=1</script>',
  '{{constructor.constructor("window.injected=1")()}}',
  '\u202Eexe.lanif',
];
const daemon = await startDaemon();
const browser = await startBrowser();

/** A chain of Relu whose names are all of these. */
function graph(names) {
  const tensor = (at) => `${names[at % names.length]} ${at}`;
  return {
    name: names[0],
    opset: 21,
    inputs: [{ name: tensor(0), dtype: 'float32', shape: [64, 64] }],
    outputs: [tensor(names.length)],
    nodes: names.map((name, at) => ({ name, op: 'Relu', inputs: [tensor(at)], outputs: [tensor(at + 1)] })),
  };
}

const asJson = (body) => ({ method: 'POST', headers: { 'Content-Type': 'application/json', Prefer: 'wait=30' }, body: JSON.stringify(body) });

/** What is answered: JSON, or nothing that the daemon itself has said. */
async function ask(path, body) {
  const response = await fetch(`${daemon.url}/${path}`, asJson(body));
  const text = await response.text();
  try {
    return { status: response.status, body: JSON.parse(text), text };
  } catch {
    return { status: response.status, body: {}, text };
  }
}

await check('hostile/policy', async () => {
  const response = await fetch(`${daemon.url}/`, { headers: { Accept: 'text/html' } });
  const policy = response.headers.get('Content-Security-Policy') ?? '';
  that(/default-src 'none'/.test(policy) && /script-src 'self'(;|$)/.test(policy) && /style-src 'self'(;|$)/.test(policy), policy);
  that(!/unsafe|\*|https?:/.test(policy), policy);
});

await check('hostile/markup in names', async () => {
  const model = await ask('v1/models', graph(MARKUP));
  that(model.status === 200 || model.status === 201, `${model.status} ${model.text.slice(0, 300)}`);
  const { status, body, text } = await ask('v1/plans', { model: model.body.id, cluster: { device: 'l4-24gb', count: 2 }, constraints: { max_stages: 1, forbid: [{ nodes: MARKUP[1] }] } });
  equal(status, 200, text.slice(0, 300));
  const { page, context, faults } = await openPage(browser, daemon.url);
  for (const view of ['', `models/${model.body.id}`, ...VIEWS.map((name) => `plans/${body.id}/${name}`), `compare/${body.id}/${body.id}`]) {
    await show(page, daemon.url, view);
    equal(await page.evaluate(() => window.injected), undefined, `in ${view}`);
    equal(await page.locator('main script, main img, main iframe, main object').count(), 0, `elements made of names in ${view}`);
  }
  await page.goto(`${daemon.url}/#/plans/${body.id}/nodes`);
  await page.getByText(MARKUP[1]).first().waitFor();
  equal(faults, [], 'faults of the page');
  await context.close();
});

await check('hostile/a name of 10 MB is refused', async () => {
  for (const names of [['x'.repeat(10_000_000)], ['<b>'.repeat(3_500_000), 'y']]) {
    const { status, body, text } = await ask('v1/models', graph(names));
    that(status >= 400 && status < 500 && body.code !== undefined, `${status} ${text.slice(0, 300)}`);
    // What it says does not repeat the name: pages and logs show it.
    that(text.length < 10_000, `an answer of ${text.length} bytes`);
  }
});

await check('hostile/an address with anything in it', async () => {
  const { page, context, faults } = await openPage(browser, daemon.url);
  for (const hash of ['#/plans/<script>window.injected=1</script>', '#/plans/%3Cimg%20src=x%20onerror=window.injected=1%3E/overview', '#/%E0%A4%A', '#/compare/../../v1/models/x',
    '#/models/..%2F..%2Fv1%2Fplans']) {
    await show(page, daemon.url, hash.slice(2));
    equal(await page.evaluate(() => window.injected), undefined, hash);
  }
  equal(faults, [], 'faults of the page');
  await context.close();
});

await browser.close();
equal(await daemon.stop(), 0, 'the end of the daemon');
finish();
