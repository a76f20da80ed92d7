// Numbers on the page are those of the plan: each view is read back and compared with the plan's JSON, or with its CSV where
// that is what has them; and what people read of a number is that number, rounded.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { check, equal, exact, finish, MODEL, openPage, show, startBrowser, startDaemon, that, top } from './page.mjs';

const daemon = await startDaemon();
const browser = await startBrowser();
const { page, context, faults } = await openPage(browser, daemon.url);
const A100 = 'a100-sxm4-80gb';
const bytesOfModel = fs.statSync(MODEL).size;
// Each operator is a kernel: of several in one, a part of a node moves less than its share of what the node would alone.
const runtime = 'generic';
// Devices that hold the model only in parts, so that its operators are split and exchange; stages; and other clusters.
const whole = await daemon.plan(MODEL, { cluster: { device: A100, count: 1 } });
const least = (share) => Math.ceil(whole.plan.devices[0].memory.total_bytes * share);
const split = await daemon.plan(MODEL, { cluster: { device: A100, count: 8, runtime, memory_limit_bytes: least(0.3) }, objective: 'latency', options: { strategy: 'tensor' } });
const stages = await daemon.plan(MODEL, { cluster: { device: A100, count: 8 }, objective: 'throughput', options: { strategy: 'pipeline' } });
const swept = await daemon.plan(MODEL, { sweep: { devices: [1, 2, 4], types: [A100, 'l4-24gb'], runtime, choose: 'best' }, objective: 'latency', options: { what_if: true } });
const followed = await daemon.json('v1/replan', {
  method: 'POST', headers: { 'Content-Type': 'application/json', Prefer: 'wait=60' },
  body: JSON.stringify({ from: stages.id, cluster: { device: A100, count: 7 }, horizon_seconds: 1e9 }),
});
const odd = await (async () => {
  const graph = { name: 'odd', opset: 21, inputs: [{ name: 'x', dtype: 'float32', shape: ['batch', 64] }], outputs: [{ name: 'z', dtype: 'float32', shape: ['batch', 64] }],
    nodes: [{ name: 'first', op: 'Relu', inputs: ['x'], outputs: ['y'] }, { name: 'strange', op: 'Mystery', domain: 'com.example', inputs: ['y'], outputs: ['z'] }] };
  const json = (body, more) => ({ method: 'POST', headers: { 'Content-Type': 'application/json', ...more }, body: JSON.stringify(body) });
  const { id } = await daemon.json('v1/models', json(graph));
  return daemon.json('v1/plans', json({ model: id, cluster: { device: A100, count: 2 } }, { Prefer: 'wait=60' }));
})();

// A language model, served: prompts and steps on devices of their own, and by all devices in turn.
const served = await (async () => {
  const graph = execFileSync('python3', ['-c', 'import json, decoder_graph; print(json.dumps(decoder_graph.decoder(2, 512, 8, 4, 1024, 4096)))'], { cwd: path.join(top, 'tests/tools') });
  const { id } = await daemon.json('v1/models', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: graph });
  const plan = (workload) => daemon.json('v1/plans', {
    method: 'POST', headers: { 'Content-Type': 'application/json', Prefer: 'wait=60' },
    body: JSON.stringify({ model: id, cluster: { device: A100, count: 2 }, options: { workload: { llm: { input: 256, output: 64 }, ...workload } } }),
  });
  return { pools: await plan({ pools: 'separate', concurrency: 16 }), turns: await plan({ concurrency: 'best', limits: { tpot_seconds: 0.05 } }) };
})();

const go = (place) => show(page, daemon.url, place);
const table = (caption) => page.locator('table', { has: page.locator('caption', { hasText: new RegExp(`^${caption}$`) }) });
const asTables = async () => {
  for (const button of await page.getByRole('button', { name: 'Table', exact: true }).all()) await button.click();
};
const figures = (scope, name) => exact(scope.locator(`data[data-figure="${name}"]`));
const columns = async (scope, rows, names) => {
  for (const name of names) equal(await figures(scope, name), rows.map((row) => row[name]), name);
};

/** Rows of comma-separated values, quoted as RFC 4180 has it. */
function csv(text) {
  const rows = [...text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g)].reduce((all, [, quoted, plain, end]) => {
    all.at(-1).push(quoted?.replaceAll('""', '"') ?? plain);
    if (end !== ',') all.push([]);
    return all;
  }, [[]]).filter((row) => row.length > 1);
  return rows.slice(1).map((row) => Object.fromEntries(row.map((value, at) => [rows[0][at], value])));
}

const PREFIXES = { n: 1e-9, p: 1e-12, 'µ': 1e-6, m: 1e-3, '': 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 };

/** What a person understands "12.3 ms" to be, and how far from it the number may be that was rounded to this. */
function understood(text) {
  const found = /^([+-]?)([\d,]+(?:\.(\d+))?) ?(?:(%)|(min)|([npµmkMGTPE]?)(s|B|FLOP|\/s)?)$/.exec(text);
  if (found === null) throw new Error(`nobody understands ${JSON.stringify(text)}`);
  const [, sign, digits, fraction = '', percent, minutes, prefix = ''] = found;
  const scale = percent ? 0.01 : minutes ? 60 : PREFIXES[prefix];
  const value = Number(digits.replaceAll(',', '')) * scale * (sign === '-' ? -1 : 1);
  return { value, slack: 0.5001 * scale * 10 ** -fraction.length };
}

for (const [name, { id, plan: { service } }] of Object.entries(served)) {
  await check(`figures/service of ${name}`, async () => {
    await go(`plans/${id}/overview`);
    await asTables();
    const card = page.locator('section', { has: page.getByRole('heading', { name: 'Service', exact: true }) });
    const facts = Object.fromEntries(await card.locator('dl.facts > div').evaluateAll((rows) => rows.map((row) => [row.querySelector('dt').textContent, [...row.querySelectorAll('dd data')].map((one) => Number(one.value))])));
    for (const [label, member, range] of [['First token', 'ttft_seconds', 'ttft_range'], ['Per token', 'tpot_seconds', 'tpot_range'], ['Request', 'request_seconds', 'request_range'], ['Requests', 'requests_per_second', 'requests_range'], ['Tokens', 'tokens_per_second', 'tokens_range']])
      equal(facts[label], [service[member], service[range].low, service[range].high], label);
    for (const [label, member] of [['In flight', 'concurrency'], ['Memory allows', 'memory_concurrency'], ['Limits allow', 'limit_concurrency'], ['Caches', 'cache_bytes'], ['Tokens of a device', 'tokens_per_second_per_device']])
      equal(facts[label], [service[member]], label);
    await columns(table('Phases'), service.phases, ['runs_per_request', 'latency_seconds', 'interval_seconds', 'memory_bytes', 'time_share']);
    equal(await card.locator('p', { hasText: 'Limit' }).count(), (service.limits ?? []).length, 'limits');
    if (name === 'pools') {
      await columns(table('Pools'), [service.pools.prefill, service.pools.decode], ['copies', 'devices_per_copy', 'capacity_per_second']);
      equal(await figures(table('Pools'), 'busy'), [service.pools.prefill.time_share, service.pools.decode.place_share], 'busy');
      equal(await exact(page.locator('p', { hasText: 'cache are sent' }).locator('data')), [service.pools.transfer.bytes_per_request, service.pools.transfer.seconds, service.pools.transfer.link_share], 'what is sent');
    } else {
      that(service.front_by_tpot.length > 2, 'a front of several points');
      await columns(table('Tokens of a device against the time per token'), service.front_by_tpot, ['concurrency', 'ttft_seconds', 'tpot_seconds', 'tokens_per_second_per_device']);
      await columns(table('Price against the time of a request'), service.front_by_price, ['concurrency', 'request_seconds', 'dollars_per_million_tokens']);
    }
  });
}

for (const [name, { id, plan }] of Object.entries({ split, stages, swept })) {
  await check(`figures/${name}: the overview`, async () => {
    await go(`plans/${id}/overview`);
    for (const one of ['latency_seconds', 'throughput_per_second', 'devices_used', 'gap', 'interval_seconds', 'lower_bound_seconds', 'communication_bytes'])
      equal(await exact(page.locator(`dd data[data-figure=${one}]`)), [plan.estimate[one]], one);
    await columns(table('Stages'), plan.stages, ['seconds', 'compute_seconds', 'collective_seconds']);
    equal(await page.locator('section', { has: page.getByRole('heading', { name: 'Assumptions' }) }).locator('li').allInnerTexts(),
      plan.assumptions.map(({ device, text, member }) => `${device === null ? '' : `${device}: `}${text} ${member}`), 'assumptions');
    for (const [name, range] of Object.entries({ latency_seconds: plan.estimate.latency_range, throughput_per_second: plan.estimate.throughput_range }))
      equal(await exact(page.locator('dd', { has: page.locator(`data[data-figure=${name}]`) }).locator('.range data')), [range.low, range.high], `range of ${name}`);
    for (const sentence of [plan.estimate.bottleneck, plan.why.binding.sentence, plan.why.second_best?.sentence ?? plan.why.no_second_best, ...plan.stages.map((stage) => stage.because)])
      await page.getByText(sentence).first().waitFor();
  });

  await check(`figures/${name}: memory`, async () => {
    await go(`plans/${id}/memory`);
    await asTables();
    await columns(table('Memory of each device'), plan.devices.map((device) => device.memory),
      ['weights_bytes', 'cache_bytes', 'activations_peak_bytes', 'communication_bytes', 'total_bytes', 'capacity_bytes']);
    // The curve's highest point is the peak of the plan, for the fullest devices, which are shown at first.
    const ratio = (device) => device.memory.total_bytes / device.memory.capacity_bytes;
    const fullest = plan.devices.filter((device) => device.stage !== null).reduce((most, one) => (ratio(one) > ratio(most) ? one : most));
    equal(Math.max(...await figures(table('Memory over time'), 'bytes')), fullest.memory.activations_peak_bytes, 'the peak over time');
  });

  await check(`figures/${name}: the timeline`, async () => {
    await go(`plans/${id}/timeline`);
    await asTables();
    await columns(table('What the devices of each stage do for one request'), plan.stages, ['compute_seconds', 'collective_seconds', 'send_seconds', 'receive_seconds', 'start_seconds', 'replicas']);
    const path = table('Critical path');
    const [begins, took] = [await figures(path, 'begin_seconds'), await figures(path, 'took')];
    that(Math.abs(begins.at(-1) + took.at(-1) - plan.estimate.latency_seconds) < 1e-9 * plan.estimate.latency_seconds, 'the path ends with the request');
    that(begins.every((one, at) => at === 0 || Math.abs(begins[at - 1] + took[at - 1] - one) < 1e-9 * plan.estimate.latency_seconds), 'one step after the other');
  });

  await check(`figures/${name}: collectives`, async () => {
    await go(`plans/${id}/collectives`);
    const kinds = [...new Set(plan.collectives.map((one) => one.kind))];
    if (kinds.length === 0) {
      await page.getByText('The devices exchange nothing.').waitFor();
      return;
    }
    for (const kind of kinds) {
      const row = table('Exchanges by kind').locator('tr', { hasText: kind });
      const mine = plan.collectives.filter((one) => one.kind === kind);
      equal(await figures(row, 'count'), [mine.length], `number of ${kind}`);
      equal(await figures(row, 'bytes'), [mine.reduce((sum, one) => sum + one.bytes, 0)], `bytes of ${kind}`);
      const [sum, shown] = [mine.reduce((all, one) => all + one.seconds, 0), (await figures(row, 'seconds'))[0]];
      that(Math.abs(shown - sum) <= 1e-12 * sum, `seconds of ${kind}: ${shown}, not ${sum}`);
    }
    const longest = [...plan.collectives].sort((a, b) => b.seconds - a.seconds).slice(0, 100);
    equal(await figures(table('Exchanges'), 'seconds'), longest.map((one) => one.seconds), 'seconds, the longest first');
    const tensors = await table('Exchanges').locator('tbody tr td:nth-child(2)').allInnerTexts();
    that(longest.every((one, at) => one.tensor === tensors[at] || longest.filter((other) => other.seconds === one.seconds).some((other) => other.tensor === tensors[at])), 'tensors');
  });

  await check(`figures/${name}: shardings, and why`, async () => {
    await go(`plans/${id}/sharding`);
    const first = plan.tensors.slice(0, 100);
    await columns(table('Tensors and their shardings'), first, ['bytes']);
    equal(await figures(table('Tensors and their shardings'), 'bytes_per_device'), first.map((one) => one.bytes_per_device ?? one.bytes), 'bytes on one device');
    const text = (column) => table('Tensors and their shardings').locator(`tbody tr td:nth-child(${column})`).allTextContents();
    equal(await text(1), first.map((one) => one.name), 'names');
    equal(await text(4), first.map((one) => one.spec.text || 'whole'), 'specs');
    equal(await text(7), first.map((one) => one.because), 'why');
    await page.getByLabel('Split').selectOption('true');
    await page.waitForURL(/split=true/);
    await page.waitForFunction(() => document.querySelector('main [aria-busy=true]') === null);
    const parts = plan.tensors.filter((one) => [one, ...(one.uses ?? [])].some((place) => /S/.test(place.spec.text))).length;
    if (parts === 0) await page.getByText('Nothing matches.').waitFor();
    else await page.getByText(`of ${parts.toLocaleString('en')}`, { exact: false }).waitFor();
  });

  await check(`figures/${name}: nodes`, async () => {
    const rows = csv(await (await fetch(`${daemon.url}/v1/plans/${id}/exports/csv`)).text());
    equal(rows.length, plan.model.node_count, 'lines');
    await go(`plans/${id}/nodes`);
    equal(await table('Nodes').locator('tbody tr td:nth-child(1)').allTextContents(), rows.slice(0, 100).map((row) => row.node), 'names');
    const shown = ['seconds', 'collective_seconds', 'flops', 'bytes', 'weights_bytes'];
    const [seconds, collectives, ...sizes] = await Promise.all(shown.map((one) => figures(table('Nodes'), one)));
    // The time of a line has in it the collective that ends the node's own reduction; the page tells what is exchanged apart.
    seconds.forEach((one, line) => {
      const all = Number(rows[line].seconds);
      that(one === all || (one < all && one + collectives[line] >= all * (1 - 1e-12)), `seconds of ${rows[line].node}: ${one} and ${collectives[line]}, of ${all}`);
    });
    // The page has what one device does, the lines what all do together: they are the same where a device has whole operators.
    const of = (one, row) => Number(row[one.replace('weights', 'weight')]);
    sizes.forEach((figures, at) => figures.forEach((one, line) => {
      const all = rows[line].folded === 'true' ? 0 : of(shown[at + 2], rows[line]);
      const { devices } = plan.stages[Number(rows[line].stage)];
      that(devices.length === 1 ? one === all : one <= all && one >= (all / devices.length) * 0.999, `${shown[at + 2]} of ${rows[line].node}: ${one} of ${all}`);
    }));
  });

  await check(`figures/${name}: boxes of the graph add up`, async () => {
    await go(`plans/${id}/graph`);
    await asTables();
    const nodes = await figures(table('Boxes of the graph'), 'nodes');
    equal(nodes.reduce((sum, one) => sum + one, 0), plan.model.node_count, 'nodes');
    await go(`plans/${id}/graph?group=stage`);
    await asTables();
    equal((await figures(table('Boxes of the graph'), 'nodes')).sort(), plan.stages.map((stage) => stage.nodes.length).sort(), 'nodes of stages');
  });

  await check(`figures/${name}: the search`, async () => {
    await go(`plans/${id}/search`);
    for (const one of ['seconds', 'explored', 'accepted', 'candidates', 'subgraphs']) equal(await figures(page, `search.${one}`), [plan.search[one]], one);
    await columns(table('Alternatives'), plan.search.alternatives, ['stages', 'devices', 'latency_seconds', 'interval_seconds', 'memory_bytes']);
  });
}

await check('figures/clusters that were asked about, as a plot and as a table', async () => {
  const { id, plan } = swept;
  await go(`plans/${id}/sweep`);
  const fitting = plan.sweep.filter((row) => row.fits);
  equal(await page.locator('.scatter .dot').count(), fitting.length, 'points');
  equal(await page.locator('.scatter .dot.best').count(), fitting.filter((row) => row.pareto).length, 'points that nothing beats');
  equal(await page.locator('.scatter .dot .ring').count(), 1, 'the chosen one');
  await page.getByRole('button', { name: 'Table', exact: true }).click();
  const fits = (rows, name) => rows.map((row) => row[name]).filter((value) => value !== null);
  for (const name of ['devices_used', 'stages', 'latency_seconds', 'interval_seconds', 'throughput_per_second', 'memory_bytes'])
    equal(await figures(table('Clusters that were asked about'), name), fits(plan.sweep, name), name);
  for (const name of ['gain', 'devices', 'latency_seconds', 'throughput_per_second'])
    equal(await figures(table('What a change of the cluster would bring'), name), fits(plan.what_if, name), `what if: ${name}`);
});

await check('figures/what is moved', async () => {
  const { id, plan } = followed;
  that(plan.moved_bytes > 0, 'something is moved');
  await go(`plans/${id}/overview`);
  await columns(table('Moves'), plan.replan.sums, ['to', 'bytes', 'moves']);
  equal(await figures(page, 'moved_bytes'), [plan.moved_bytes], 'moved');
  for (const name of ['kept_bytes', 'moving_seconds', 'horizon_seconds']) equal(await figures(page, name), [plan.replan[name]], name);
});

await check('figures/diagnostics, and the way to what they are about', async () => {
  const { id, plan } = odd;
  that(plan.diagnostics.length >= 2, 'the plan has something to say');
  await go(`plans/${id}/diagnostics`);
  const shown = await table('Diagnostics').locator('tbody tr').allTextContents();
  equal(shown.length, plan.diagnostics.length, 'lines');
  plan.diagnostics.forEach((one, at) => {
    for (const part of [one.severity, one.code, one.message, one.hint ?? '', one.node ?? '', one.tensor ?? '']) that(shown[at].includes(part), `${shown[at]} has ${part}`);
  });
  await page.getByRole('link', { name: 'strange', exact: true }).click();
  await page.waitForURL(/nodes\?name=strange/);
  await page.getByRole('heading', { name: 'strange', exact: true }).waitFor();
  await go(`plans/${id}/overview`);
  await page.getByRole('link', { name: '1 warning' }).waitFor();
});

await check('figures/the list of plans and of models', async () => {
  await go('');
  const rows = await table('Plans, newest first').locator('tbody tr').all();
  const newest = [served.turns, served.pools, odd, followed, swept, stages, split, whole];
  equal(rows.length, newest.length, 'plans');
  for (const [at, { plan }] of newest.entries()) {
    for (const name of ['latency_seconds', 'throughput_per_second', 'gap']) equal(await figures(rows[at], name), [plan.estimate[name]], name);
    const ratios = plan.devices.filter((device) => device.stage !== null).map(({ memory }) => memory.total_bytes / memory.capacity_bytes);
    that(Math.abs((await figures(rows[at], 'memory_worst_ratio'))[0] - Math.max(...ratios)) < 1e-12, 'the fullest device');
  }
  await go('?show=models');
  that((await figures(table('Stored models'), 'bytes')).includes(bytesOfModel), 'bytes of the model');
});

await check('figures/what people read is the number, rounded', async () => {
  let read = 0;
  for (const { id } of [split, stages, swept]) {
    for (const view of ['overview', 'timeline', 'memory', 'graph', 'collectives', 'sharding', 'nodes', 'search', 'sweep', '../../compare/' + `${split.id}/${stages.id}`]) {
      await go(view.startsWith('..') ? view.slice(6) : `plans/${id}/${view}`);
      await asTables();
      const shown = await page.locator('data').evaluateAll((all) => all.map((one) => [one.value, one.textContent, one.title]));
      for (const [value, text, title] of shown) {
        const { value: meant, slack } = understood(text);
        that(Math.abs(meant - Number(value)) <= slack + 1e-9 * Math.abs(meant), `${view}: ${text} for ${value}`);
        equal(title, value, 'the title has it exactly');
        read++;
      }
    }
  }
  that(read > 500, `${read} numbers were read`);
});

await check('figures/the page did nothing that it must not', async () => equal(faults, [], 'faults'));
await context.close();
await browser.close();
equal(await daemon.stop(), 0, 'the end of the daemon');
finish();
