// What all benchmarks here do alike: say in one sentence what they lack, and end what they started when they are ended.
import fs from 'node:fs';
import path from 'node:path';

const LACKS = 2; // status of a benchmark that cannot begin

/** Ends the benchmark before it begins, unless the file is there; the sentence ends with what to do. */
export function need(file, what) {
  if (fs.existsSync(file)) return;
  console.error(`${path.basename(process.argv[1])}: ${file} is missing; ${what}`);
  process.exit(LACKS);
}

/** The same for a program on the path. */
export function needProgram(name, deb) {
  if ((process.env.PATH ?? '').split(':').some((folder) => fs.existsSync(path.join(folder, name)))) return;
  console.error(`${path.basename(process.argv[1])}: ${name} is missing; install it first: apt-get install ${deb}`);
  process.exit(LACKS);
}

const ends = [];

/** Calls the function when the process ends, however it ends but by kill -9. It cannot wait for anything. */
export function atEnd(end) {
  ends.push(end);
}

process.on('exit', () => {
  for (const end of ends.reverse()) {
    try {
      end();
    } catch (error) {
      console.error(String(error));
    }
  }
});
process.on('SIGINT', () => process.exit(130));
process.on('SIGTERM', () => process.exit(143));
