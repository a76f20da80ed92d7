/* The contract, held to a linter and to what this project asks of it besides. TAP; status 1 when something is wrong.
   The ruleset: all of Redocly's "recommended-strict", where warnings are errors, and the rules below. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createConfig, lint } from "@redocly/openapi-core";
import { contract } from "./contract.mjs";

const folder = mkdtempSync(join(tmpdir(), "shardplan-contract-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const path = join(folder, "openapi.json");
writeFileSync(path, JSON.stringify(contract));
const methods = ["get", "post", "put", "patch", "delete"];
let failed = 0;

function report(name, problems) {
    failed += problems.length > 0;
    console.log(`${problems.length > 0 ? "not ok" : "ok"} openapi/${name}`);
    problems.slice(0, 40).forEach((problem) => console.log(`  ${problem}`));
}

function resolve(node) {
    while (node?.$ref) node = node.$ref.slice(2).split("/").reduce((at, name) => at[name.replace("~1", "/")], contract);
    return node;
}

const config = await createConfig({
    extends: ["recommended-strict"],
    rules: {
        "component-name-unique": "error",
        "no-invalid-parameter-examples": "error",
        "no-invalid-schema-examples": "error",
        "operation-4xx-problem-details-rfc7807": "error",
        "operation-description": "error",
        "operation-singular-tag": "error",
        "operation-tag-defined": "error",
        "parameter-description": "error",
        "no-unused-components": "off", // schemas.py says which types nothing refers to
        "path-http-verbs-order": "off",
        "paths-kebab-case": "error",
    },
});
const found = await lint({ ref: path, config });
report("lint", found.map((problem) => `${problem.severity} ${problem.ruleId} at ${problem.location[0]?.pointer}: ${problem.message}`));

const operations = Object.entries(contract.paths).flatMap(([route, item]) => methods
    .filter((method) => item[method]).map((method) => ({ route, method, ...item[method] })));
const responses = operations.flatMap((operation) => Object.entries(operation.responses).map(([status, response]) =>
    ({ where: `${operation.operationId} ${status}`, operation, status: Number(status), ...resolve(response) })));

function lacking(header, of) {
    return of.filter((response) => !response.headers?.[header]).map((response) => `${response.where}: no ${header}`);
}
report("headers", [
    ...lacking("X-Request-Id", responses),
    ...lacking("Retry-After", responses.filter(({ status }) => status === 429 || status === 503)),
    ...lacking("WWW-Authenticate", responses.filter(({ status }) => status === 401 || status === 403)),
    ...lacking("Location", responses.filter(({ status }) => status === 201 || status === 202)),
    ...lacking("Content-Range", responses.filter(({ status }) => status === 206)),
]);

// Who asks matters wherever it is not said that it does not, and then there are answers for those who may not.
const guarded = operations.filter(({ security }) => !security || security.length > 0);
report("refusals", guarded.flatMap((operation) => ["401", "403", "503"].filter((status) => !operation.responses[status])
    .map((status) => `${operation.operationId} has no ${status}`)));

// What goes in and out as JSON is shown by an example; the linter holds examples to their schemas.
function shown(where, content) {
    const json = content?.["application/json"];
    const given = json && (json.example ?? resolve(json.schema).example);
    return json && given === undefined && json.schema.format !== "binary" ? [`${where}: no example`] : [];
}
const problem = resolve(contract.components.responses.Problem).content["application/problem+json"];
report("examples", [
    ...operations.flatMap((operation) => shown(`${operation.operationId} request`, operation.requestBody?.content)),
    ...responses.filter(({ status }) => status < 300).flatMap((response) => shown(response.where, response.content)),
    ...(resolve(problem.schema).example ? [] : ["a problem: no example"]),
]);
process.exit(failed > 0 ? 1 : 0);
