/* yaml.mjs FILE: a file of YAML as JSON. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const yaml = createRequire(createRequire(import.meta.url).resolve("@redocly/openapi-core"))("js-yaml");
console.log(JSON.stringify(yaml.load(readFileSync(process.argv[2], "utf8"))));
