// One device of a plan: loads its models, takes what the other devices send it, runs, and sends on.
//
//     node rank.mjs DIR [--listen 127.0.0.1:0] [--threads 1]
//
// Prints {"listen": "HOST:PORT"} and waits for run.mjs, which says which device it is and where the others are.
// Anybody who reaches the port can use it: listen on addresses of a trusted network only.
import net from 'node:net';
import path from 'node:path';
import { checkModels, checkStates, partsOn, readManifest, routeCount } from './manifest.mjs';
import { Sessions } from './sessions.mjs';
import { Channel, Mailbox, PROTOCOL, tensorOf } from './wire.mjs';

const folder = process.argv[2], options = { listen: '127.0.0.1:0', threads: '1' };
for (let i = 3; i < process.argv.length; i += 2) options[process.argv[i].replace(/^--/, '')] = process.argv[i + 1];

const manifest = readManifest(folder), mailbox = new Mailbox(), sessions = new Sessions();
const peers = new Map(); // devices that this one sends to
let device = null, driver = null, isOver = false;
let last = Promise.resolve();

const hello = { type: 'hello', protocol: PROTOCOL, manifest: manifest.digest };

function fail(message) {
  if (isOver) return;
  isOver = true;
  console.error(`device ${device ?? '?'}: ${message}`);
  mailbox.fail(new Error(message));
  driver?.send({ type: 'error', message });
  driver?.end();
  setTimeout(() => process.exit(1), 100); // the message is on its way
}

function leave() {
  isOver = true;
  for (const channel of peers.values()) channel.send({ type: 'bye' });
  setTimeout(() => process.exit(0), 50);
}

// Refuses whoever runs something else, and a second program that sends requests.
function check({ protocol, manifest: digest, role }) {
  if (protocol !== PROTOCOL) throw new Error(`The other side speaks version ${protocol} of the protocol, and this program version ${PROTOCOL}.`);
  if (digest !== manifest.digest) throw new Error('The other side has another manifest: all processes need the same.');
  if (role === 'driver' && driver) throw new Error('Another program sends requests here.');
}

/* ---- who connects ---- */

function welcome(socket) {
  let role = null, name = 'a process', hasLeft = false;
  const channel = new Channel(socket, receive, (why) => {
    if (role && !hasLeft) fail(`${name} is gone: ${why ?? 'its connection closed'}.`);
  });
  function receive(head, bytes) {
    if (role === null) {
      try {
        check(head);
      } catch (error) {
        channel.send({ type: 'error', message: error.message });
        channel.end();
        return;
      }
      role = head.role;
      name = role === 'driver' ? 'The program that sends the requests' : `Device ${head.device}`;
      channel.accept();
      if (role === 'driver') prepare(head, channel);
      else channel.send({ type: 'welcome' });
    } else if (head.type === 'tensor') mailbox.put(head.request, head.key, tensorOf(head, bytes));
    else if (head.type === 'request') last = last.then(() => serve(head)).catch((error) => fail(error.message));
    else if (head.type === 'end') last = last.then(() => loops.delete(head.loop));
    else if (head.type === 'bye') hasLeft = true;
    else if (head.type === 'stop' && head.message) fail(head.message);
    else if (head.type === 'stop') leave();
  }
}

function connect(to, address) {
  return new Promise((resolve, reject) => {
    const [, host, port] = /^(.*):(\d+)$/.exec(address), socket = net.connect(Number(port), host);
    const channel = new Channel(socket, ({ type, message }) => {
      if (type === 'welcome') resolve(channel);
      else reject(new Error(`Device ${to}: ${message}`));
    }, (why) => {
      const error = new Error(`Device ${to} is gone: ${why ?? 'its connection closed'}.`);
      reject(error);
      if (peers.has(to)) fail(error.message);
    });
    channel.send({ ...hello, role: 'peer', device });
  });
}

/* ---- work ---- */

const routes = [];
const loops = new Map(); // loop -> state -> this device's part of it

async function prepare({ device: own, addresses }, channel) {
  device = own;
  driver = channel;
  try {
    checkModels(manifest, device);
    const files = [];
    for (let route = 0; route < routeCount(manifest); route++) routes.push(partsOn(manifest, route, device));
    for (const part of routes.flat()) {
      if (!files.includes(part.model)) await sessions.load(path.join(folder, part.model), Number(options.threads)).then(() => files.push(part.model));
      part.session = files.indexOf(part.model);
    }
    const others = new Set(routes.flat().flatMap(({ outputs }) => outputs.flatMap(({ to }) => to)));
    others.delete(device);
    for (const other of others) peers.set(other, await connect(other, addresses[other]));
    driver.send({ type: 'ready', models: files.length });
  } catch (error) {
    fail(error.message);
  }
}

// One request: its parts one after the other, each once all that it takes has come. In a loop, states stay here.
async function serve({ request, route, loop, step }) {
  let seconds = 0;
  if (loop !== undefined && step === 0) checkStates(routes[route]);
  const before = loops.get(loop), kept = new Map();
  for (const { session, inputs, outputs } of routes[route]) {
    const taken = {};
    for (const { name, key, past } of inputs) taken[name] = past && before ? before.get(past) : await mailbox.take(request, key);
    const run = await sessions.run(session, taken);
    seconds += run.seconds;
    for (const { name, key, isResult, present, to } of outputs) {
      if (present) kept.set(present, run.outputs[name]);
      const head = { type: 'tensor', request, key };
      for (const other of to) {
        if (other === device) mailbox.put(request, key, run.outputs[name]);
        else peers.get(other).send(head, run.outputs[name]);
      }
      if (isResult && (loop === undefined || !present)) driver.send(head, run.outputs[name]);
    }
  }
  mailbox.forget(request);
  if (loop !== undefined) loops.set(loop, kept);
  const { user, system } = process.cpuUsage();
  driver.send({ type: 'done', request, seconds, spent: (user + system) / 1e6 });
}

const [, host, port] = /^(.*):(\d+)$/.exec(options.listen);
const server = net.createServer(welcome);
server.listen(Number(port), host, () => console.log(JSON.stringify({ listen: `${host}:${server.address().port}` })));
