/* The contract with its types, put together by the linter's own reader of YAML: what the daemon must serve. */
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";

const yaml = createRequire(createRequire(import.meta.url).resolve("@redocly/openapi-core"))("js-yaml");
const api = new URL("../../api/", import.meta.url);
const read = (name) => yaml.load(readFileSync(new URL(name, api), "utf8"));

export const contract = read("openapi.yaml");
contract.components.schemas = Object.assign({}, ...readdirSync(new URL("types/", api)).map((name) => read(`types/${name}`)));
