// Writes the licences of the packages whose code the built page has: the minifier drops every comment, and their notices with
// them. Those are all packages that package-lock.json does not keep for development alone.
//
//   node third_party.mjs [--output FILE]     # otherwise to standard output
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ALLOWED = ['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT'];
const PAPER = /^(licen[cs]e|copying|notice)([-.].*)?$/i;
const RULE = '='.repeat(100);
const HEAD = `The page that shardpland serves contains code of these packages of the npm registry. Each is under the licence
below its name. "npm run licenses" in server/dashboard writes this file.
`;
const top = path.dirname(fileURLToPath(import.meta.url));

function readJson(...names) {
  return JSON.parse(fs.readFileSync(path.join(top, ...names), 'utf8'));
}

/** The lines of a file, whatever ends them, without blanks at its ends. */
function readText(...names) {
  return fs.readFileSync(path.join(top, ...names), 'utf8').replace(/^\uFEFF/, '').replace(/\r\n?/g, '\n').replace(/[ \t]+$/gm, '').replace(/^\n+|\n+$/g, '');
}

/** An address that a browser opens, of what package.json may say: a home page, or where the sources are. */
function home({ homepage, repository }) {
  const address = homepage ?? repository?.url ?? repository;
  if (typeof address !== 'string') return 'none given';
  return address.replace(/^git\+/, '').replace(/^(github:|git:\/\/github\.com\/|(?=[\w-]+\/[\w.-]+$))/, 'https://github.com/').replace(/\.git$/, '');
}

/** What the file has of the package in this place, a folder below node_modules. */
function describe(place, pinned) {
  if (!fs.existsSync(path.join(top, place, 'package.json'))) throw new Error(`${place} is not there: run "npm ci"`);
  const about = readJson(place, 'package.json');
  const { name, version, license } = about;
  if (version !== pinned.version) throw new Error(`${name} is there in version ${version}, and ${pinned.version} is pinned: run "npm ci"`);
  if (!ALLOWED.includes(license))
    throw new Error(`${name} ${version} has the licence ${JSON.stringify(license)}; the page may have code under ${ALLOWED.join(', ')}`);
  const papers = fs.readdirSync(path.join(top, place), { withFileTypes: true })
    .filter((entry) => entry.isFile() && PAPER.test(entry.name))
    .map((entry) => entry.name)
    .sort();
  if (!papers.some((paper) => !/^notice/i.test(paper) && readText(place, paper) !== ''))
    throw new Error(`${name} ${version} has no file with the text of its licence`);
  const text = papers.map((paper) => readText(place, paper)).join('\n\n');
  return { key: `${name} ${version}`, text: `${RULE}\n${name} ${version}\nLicence: ${license}\nHome: ${home(about)}\n\n${text}\n` };
}

function write() {
  const { values } = parseArgs({ options: { output: { type: 'string' } } });
  const parts = Object.entries(readJson('package-lock.json').packages)
    .filter(([place, pinned]) => place !== '' && !pinned.dev)
    .map(([place, pinned]) => describe(place, pinned));
  // A package may be there twice, in two places; by code points, as no locale may decide.
  const found = new Map(parts.map(({ key, text }) => [key, text]));
  const text = [HEAD, ...[...found.keys()].sort().map((key) => found.get(key))].join('\n');
  if (values.output === undefined) process.stdout.write(text);
  else fs.writeFileSync(values.output, text);
}

try {
  write();
} catch (error) {
  console.error(`third_party: ${error.message}`);
  process.exitCode = 1;
}
