/* The daemon, driven by a client that is made of /openapi.json and nothing else (openapi-client-axios). TAP; status 1 when
   something is wrong. The program is SHARDPLAND, or the sanitized build's. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { OpenAPIClientAxios } from "openapi-client-axios";
import { contract } from "./contract.mjs";

const top = new URL("../../", import.meta.url).pathname;
const program = process.env.SHARDPLAND ?? join(top, "build/sanitized/server/shardpland");
const original = readFileSync(join(top, "tests/data/resnet50.onnx"));
const sha256 = createHash("sha256").update(original).digest("hex");
const binary = { "Content-Type": "application/octet-stream" };
const patience = 60000; // milliseconds until something that must happen counts as hanging

const folder = mkdtempSync(join(tmpdir(), "shardpland-openapi-"));
const reports = join(folder, "report");
const daemon = spawn(program, ["--listen", "127.0.0.1:0", "--data", join(folder, "data"), "--workers", "1", "--log-format", "json"], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, ASAN_OPTIONS: `handle_sigill=1:log_path=${reports}`, UBSAN_OPTIONS: `log_path=${reports}` },
});
const ended = new Promise((done) => daemon.on("exit", (code, signal) => done(code ?? signal)));
process.on("exit", () => { daemon.kill("SIGKILL"); rmSync(folder, { recursive: true, force: true }); });

async function url() {
    for await (const line of createInterface({ input: daemon.stderr })) {
        const event = JSON.parse(line);
        if (event.event === "listening") {
            daemon.stderr.resume(); // or the daemon would wait for somebody to read its log
            return event.url;
        }
    }
    throw new Error("the daemon did not start");
}

let failed = 0;
async function test(name, body) {
    try {
        await body();
        console.log(`ok openapi/client ${name}`);
    } catch (error) {
        failed++;
        console.log(`not ok openapi/client ${name}\n${String(error.stack ?? error).split("\n").slice(0, 30).map((line) => "  " + line).join("\n")}`);
    }
}

const server = await url();
const definition = await (await fetch(server + "/openapi.json")).json();
const api = new OpenAPIClientAxios({ definition, withServer: { url: server } });
const client = await api.init();
client.defaults.validateStatus = () => true; // what may come is in the contract
client.defaults.timeout = patience;
const operations = Object.fromEntries(api.getOperations().map((operation) => [operation.operationId, operation]));

const short = ({ status, data }) => `${status} ${data?.pipe ? "a stream" : data instanceof Buffer ? data.toString("utf8", 0, 300) : JSON.stringify(data)?.slice(0, 300)}`;

// Of HTTP itself, and what every answer has for browsers and traces; all others are in the contract.
const general = new Set(["connection", "content-length", "content-type", "date", "keep-alive", "transfer-encoding",
    "cache-control", "content-security-policy", "cross-origin-resource-policy", "referrer-policy", "x-content-type-options"]);

/* Calls an operation, and holds status and type of the answer to what the contract says of it. */
async function call(name, parameters, body, options, expected) {
    const answer = await client[name](parameters, body, options);
    const said = definition.paths[operations[name].path][operations[name].method].responses[answer.status];
    assert.ok(said, `${name}: not in the contract: ${short(answer)}`);
    const response = said.$ref ? definition.components.responses[said.$ref.split("/").pop()] : said;
    const type = answer.headers["content-type"]?.split(";")[0];
    if (response.content) assert.ok(type in response.content, `${name}: ${answer.status} as ${type}`);
    for (const header of Object.keys(response.headers ?? {}))
        if (definition.components.headers[header].required)
            assert.ok(answer.headers[header.toLowerCase()], `${name}: ${answer.status} without ${header}`);
    const documented = Object.keys(response.headers ?? {}).map((header) => header.toLowerCase());
    for (const header of Object.keys(answer.headers))
        if (!general.has(header) && !documented.includes(header)) surplus.add(`${name} ${answer.status}: ${header}`);
    const wanted = [expected ?? [200, 201, 202, 204]].flat();
    assert.ok(wanted.includes(answer.status), `${name}: ${short(answer)}`);
    return answer;
}

async function finished(id) {
    for (const deadline = Date.now() + patience; Date.now() < deadline;) {
        const { data } = await call("getPlan", { id });
        if (!["queued", "running"].includes(data.state)) return data;
        await new Promise((done) => setTimeout(done, 50));
    }
    throw new Error(`plan ${id} does not finish`);
}

/* The id of an upload that is complete; of one that is to come with `bytes` alone. */
async function uploaded(content, bytes = content.length) {
    const { data: { id } } = await call("createUpload", null, { bytes });
    if (content) await call("appendToUpload", { id, "Upload-Offset": 0 }, content, { headers: binary });
    return id;
}

const surplus = new Set();
let plan;
const question = { model: sha256, cluster: { device: "a100-sxm4-80gb", count: 4 } };
const key = { headers: { "Idempotency-Key": "a-key-of-this-test" } };

await test("the served contract is the file", () => {
    assert.deepEqual(definition, contract);
});
await test("the served schemas are the files", async () => {
    for (const name of readdirSync(join(top, "api/schema"))) {
        const schema = JSON.parse(readFileSync(join(top, "api/schema", name), "utf8"));
        assert.deepEqual(await (await fetch(server + schema.$id)).json(), schema);
    }
});
await test("upload", async () => {
    assert.equal((await call("storeModel", { name: "resnet50.onnx" }, original, { headers: binary }, 201)).data.id, sha256);
    assert.equal((await call("storeModel", null, original, { headers: binary }, 200)).data.node_count, 169);
    assert.equal((await call("listModels")).data.models[0].id, sha256);
    const content = await call("getModelContent", { id: sha256 }, null, { responseType: "arraybuffer" });
    assert.deepEqual(Buffer.from(content.data), original);
});
await test("plan", async () => {
    plan = (await call("submitPlan", null, question, key, 202)).data.id;
    assert.equal((await call("submitPlan", null, question, key, 202)).data.id, plan, "one key, one plan");
    assert.ok((await call("listPlans", { page_size: 1 })).data.plans.length === 1);
});
await test("watch", async () => {
    const watch = Object.values(operations).find(({ path }) => path.endsWith("/events"));
    if (watch) {
        const events = await call(watch.operationId, { id: plan }, null, { responseType: "stream" });
        let text = "";
        for await (const piece of events.data) text += piece;
        const names = [...text.matchAll(/^event: ?(\w+)\r?$/gm)].map((match) => match[1]);
        assert.equal(names.at(-1), "done", text);
        assert.ok(names.every((name) => ["progress", "improved", "done"].includes(name)), names.join(" "));
    }
    const done = await finished(plan);
    assert.equal(done.state, "succeeded");
    assert.equal(done.plan.devices.length, 4);
    assert.equal(done.progress.fraction, 1);
});
await test("download", async () => {
    const whole = await call("getPlanModel", { id: plan }, null, { responseType: "arraybuffer" });
    assert.ok(whole.data.byteLength > original.length);
    const part = await call("getPlanModel", { id: plan }, null, {
        responseType: "arraybuffer",
        headers: { Range: "bytes=100-199", "If-Range": whole.headers.etag },
    }, 206);
    assert.deepEqual(Buffer.from(part.data), Buffer.from(whole.data).subarray(100, 200));
    assert.equal(part.headers["content-range"], `bytes 100-199/${whole.data.byteLength}`);
    await call("getPlanModel", { id: plan }, null, { headers: { "If-None-Match": whole.headers.etag } }, 304);
});
await test("verify", async () => {
    const { data } = await call("verifyRanks", null, { original: sha256, simulation: sha256 });
    assert.equal(data.verdict, "proved");
    assert.equal(data.programs, 1);
    await call("verifyRanks", null, { original: sha256, ranks: ["0".repeat(64)] }, null, 404);
    await call("verifyRanks", null, { original: sha256 }, null, 422);
});
await test("every operation that only reads", async () => {
    const reading = Object.values(operations).filter(({ method, path }) => method === "get" && !path.endsWith("/events"));
    assert.ok(reading.length > 15);
    const page = await call("index", null, null, { headers: { Accept: "text/html" } });
    const [, file] = page.data.match(/assets\/([^"]+)/);
    const upload = await uploaded(null, 9);
    for (const { operationId, path, parameters } of reading) {
        const given = {}, id = path.includes("/models/") ? sha256 : path.includes("/uploads/") ? upload : plan;
        for (const parameter of (parameters ?? []).filter(({ required }) => required))
            given[parameter.name] = parameter.name === "file" ? parameter.schema.enum?.[0] ?? file
                : parameter.name === "id" ? id
                : parameter.schema.enum?.[0] ?? parameter.schema.default ?? parameter.schema.minimum;
        // No weights lie beside this model.
        await call(operationId, given, null, { responseType: "arraybuffer" }, operationId === "getPlanDeviceData" ? 404 : 200);
    }
});
await test("every format of exports", async () => {
    const [format] = operations.getPlanExport.parameters.filter(({ name }) => name === "format");
    const some = /^(ort|genai|triton-tensorrt|polygraphy-hints|mlx|exo|.*-args)$/; // are not of every plan: 422 says why
    for (const name of format.schema.enum)
        await call("getPlanExport", { id: plan, format: name }, null, { responseType: "arraybuffer" }, some.test(name) ? [200, 422] : 200);
});
await test("the examples of requests are true", async () => {
    const tiny = { nodes: [{ op: "MatMul", inputs: ["x", "w0"], outputs: ["y"] }], outputs: ["y"], opset: 21,
                   inputs: [{ name: "x", dtype: "float32", shape: ["seq", 64] }],
                   initializers: [{ name: "w0", dtype: "float32", shape: [64, 256] }] };
    const { data: { id } } = await call("storeModel", null, tiny);
    let count = 0;
    for (const { operationId, requestBody } of Object.values(operations)) {
        const json = requestBody?.content?.["application/json"];
        const schema = json?.schema?.$ref ? definition.components.schemas[json.schema.$ref.split("/").pop()] : json?.schema;
        const example = json?.example ?? schema?.example;
        if (example === undefined) continue;
        // What is of one service only: the plan that is followed, and its devices; models that are verified.
        const body = example.from?.length === plan.length ? { ...example, from: plan, map: undefined }
            : example.original ? { ...example, original: sha256, ranks: [sha256] }
            : example.upload ? { ...example, upload: await uploaded(original) } : example;
        await call(operationId, operationId.includes("Stored") || /^(inspect|infer|addModelFile)/.test(operationId) ? { id } : null, body);
        count++;
    }
    assert.ok(count >= 7, `${count} examples`);
});
await test("problems", async () => {
    const absent = await call("getPlan", { id: "0".repeat(32) }, null, null, 404);
    assert.equal(absent.data.code, "PLAN_NOT_FOUND");
    assert.equal(absent.data.request_id, absent.headers["x-request-id"]);
    const wrong = await call("submitPlan", null, { ...question, cluster: { device: "abacus", count: 1 } }, null, 422);
    assert.equal(wrong.data.errors[0].pointer, "/cluster/device");
    assert.equal((await call("deleteModel", { id: sha256 }, null, null, 409)).data.code, "MODEL_IN_USE");
    await call("storeModel", null, Buffer.from("no model"), { headers: { "Content-Type": "image/png" } }, 415);
});
await test("delete", async () => {
    for (const { id } of (await call("listPlans")).data.plans) {
        await call("cancelPlan", { id });
        await call("deletePlan", { id }, null, null, 204);
    }
    await call("deleteModel", { id: sha256 }, null, null, 204);
    await call("getModel", { id: sha256 }, null, null, 404);
});
await test("every header is in the contract", () => assert.equal([...surplus].join("\n"), ""));
await test("the daemon ends well", async () => {
    daemon.kill("SIGTERM");
    assert.equal(await ended, 0);
    assert.deepEqual(readdirSync(folder).filter((name) => name.startsWith("report")), []);
});
process.exit(failed > 0 ? 1 : 0);
