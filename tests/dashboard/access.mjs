// The page where daemons really are: one that wants tokens, one below a path of a proxy, one with TLS.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { check, equal, exact, finish, MODEL, openPage, PROGRAM, settle, show, startBrowser, startDaemon, that } from './page.mjs';

const browser = await startBrowser();
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'shardplan-access-'));

/** From the upload to the overview of a plan, and back to the list. */
async function use(page, url) {
  await page.getByLabel('Model file').setInputFiles(MODEL);
  await page.waitForURL(/#\/models\/[0-9a-f]{64}\/plan/);
  await settle(page);
  await page.getByLabel('Number of devices').fill('2');
  await page.locator('button[type=submit]').click();
  await page.getByRole('navigation', { name: 'Views of this plan' }).waitFor({ timeout: 60_000 });
  await settle(page);
  that((await exact(page.locator('data[data-figure=latency_seconds]').first()))[0] > 0, 'a latency');
  const [, id] = /plans\/([0-9a-f]{32})/.exec(page.url());
  await show(page, url, `plans/${id}/timeline`);
  await page.locator('.timeline canvas').waitFor();
  return id;
}

await check('access/a daemon that wants tokens', async () => {
  const [token, reader] = ['writer', 'reader'].map((name) =>
    execFileSync(PROGRAM, ['token', name, '--scopes', name === 'reader' ? 'read' : 'read,plan'], { encoding: 'utf8' }).split('\n'));
  const tokens = path.join(folder, 'tokens.json');
  fs.writeFileSync(tokens, JSON.stringify({ principals: [token, reader].map(([, entry]) => JSON.parse(entry)) }));
  const daemon = await startDaemon('--tokens', tokens);
  const { page, context, faults } = await openPage(browser, daemon.url);
  await show(page, daemon.url, '');
  await page.getByText('This daemon answers those who have a token.').waitFor();
  const give = async (text) => {
    await page.getByLabel('Token').fill(text);
    await page.getByRole('button', { name: 'Use it' }).click();
    await settle(page);
  };
  await give(`spl_${'x'.repeat(43)}`);
  await page.getByText('The daemon does not take this token').waitFor();
  await give(token[0]);
  const id = await use(page, daemon.url);
  // Downloads carry the token; links could not.
  await show(page, daemon.url, `plans/${id}/downloads`);
  await page.evaluate(() => { window.showSaveFilePicker = undefined; }); // a dialog of the system, which nobody would answer
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('row', { name: /^Annotated model/ }).getByRole('button').click()]);
  const annotated = await fetch(`${daemon.url}/v1/plans/${id}/model`, { headers: { Authorization: `Bearer ${token[0]}` } });
  that(fs.readFileSync(await download.path()).equals(Buffer.from(await annotated.arrayBuffer())), 'the file is what the daemon has');
  // The token is kept for this tab, and nowhere that others look.
  await page.reload();
  await settle(page);
  await page.getByText('What one device runs').waitFor();
  that(!page.url().includes(token[0]) && !JSON.stringify(await context.storageState()).includes(token[0]), 'neither in the address nor in cookies or local storage');
  equal(await page.evaluate(() => Object.values(localStorage).join()), '', 'local storage');
  await page.getByRole('button', { name: 'Forget token' }).click();
  await page.getByLabel('Token').waitFor();
  // Who may only read is told so.
  await give(reader[0]);
  await show(page, daemon.url, '');
  await page.getByLabel('Model file').setInputFiles(MODEL);
  await page.getByRole('alert').waitFor();
  that(/FORBIDDEN|SCOPE|may not/i.test(await page.getByRole('alert').innerText()), await page.getByRole('alert').innerText());
  equal(faults, [], 'faults of the page');
  await context.close();
  equal(await daemon.stop(), 0, 'the end of the daemon');
});

await check('access/below a path of a proxy', async () => {
  const daemon = await startDaemon();
  const { port } = new URL(daemon.url);
  const prefix = '/tools/shardplan';
  const astray = [];
  const proxy = http.createServer((request, response) => {
    if (!request.url.startsWith(`${prefix}/`)) {
      astray.push(request.url);
      response.writeHead(404).end();
      return;
    }
    const asked = http.request({ port, host: '127.0.0.1', method: request.method, path: request.url.slice(prefix.length), headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    request.pipe(asked);
    response.on('close', () => asked.destroy());
  });
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${proxy.address().port}${prefix}`;
  const { page, context, faults } = await openPage(browser, url);
  await show(page, url, '');
  const id = await use(page, url);
  await show(page, url, `plans/${id}/downloads`);
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('row', { name: /^Plan \(JSON\)/ }).getByRole('link').click()]);
  equal(JSON.parse(fs.readFileSync(await download.path(), 'utf8')).id, id, 'the plan that was fetched');
  equal(astray.filter((one) => one !== '/favicon.ico'), [], 'requests beside the path');
  equal(faults, [], 'faults of the page');
  await context.close();
  proxy.closeAllConnections();
  proxy.close();
  equal(await daemon.stop(), 0, 'the end of the daemon');
});

await check('access/over TLS', async () => {
  const [key, certificate] = ['key', 'pem'].map((kind) => path.join(folder, `server.${kind}`));
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1', '-subj', '/CN=127.0.0.1',
    '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', certificate], { stdio: 'pipe' });
  const daemon = await startDaemon('--tls-certificate', certificate, '--tls-key', key);
  const { page, context, faults } = await openPage(browser, daemon.url, { ignoreHTTPSErrors: true });
  await show(page, daemon.url, '');
  await use(page, daemon.url);
  equal(faults, [], 'faults of the page');
  await context.close();
  equal(await daemon.stop(), 0, 'the end of the daemon');
});

await check('access/a daemon that goes away and comes back', async () => {
  const daemon = await startDaemon();
  const { page, context } = await openPage(browser, daemon.url);
  await show(page, daemon.url, '');
  await context.setOffline(true);
  await page.getByRole('button', { name: 'Models' }).click();
  await page.getByText('The daemon does not answer').waitFor();
  await context.setOffline(false);
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('No models yet.').waitFor();
  equal(await page.getByRole('alert').count(), 0, 'alerts');
  await context.close();
  equal(await daemon.stop(), 0, 'the end of the daemon');
});

await browser.close();
fs.rmSync(folder, { recursive: true });
finish();
