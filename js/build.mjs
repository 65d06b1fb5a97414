// Builds each page, explorer and card as one script in ../snnkit/lab/web, which Python puts into HTML.
//
//     npm ci && npm run build        (make web does this, and first writes src/explorers/equations.js)
//
// A script begins with a line: a SHA-256, and the sources that it covers. tests/unit/test_web.py computes it again, so
// no script is older than its sources. Python takes the line off (pages/web.py).

import {createHash} from "node:crypto";
import {mkdirSync, readFileSync, readdirSync, writeFileSync} from "node:fs";
import {dirname, join} from "node:path";
import {fileURLToPath} from "node:url";
import {build} from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url)), OUT = process.env.OUT ?? join(HERE, "../snnkit/lab/web");
// What the result depends on besides the sources.
const SETTINGS = ["build.mjs", "package-lock.json"];
const PAGES = ["course_hub", "course_pages", "figures", "frame", "landscape", "listen", "page", "page_helpers",
  "playground"];
// What all explorers use is a script of its own, which stands before theirs: else each would hold a copy.
const SHARED = ["canvas", "controls", "plot", "ticks", "explorers/explorer"];
const EXPLORERS = readdirSync(join(HERE, "src/explorers")).map((name) => `explorers/${name.replace(".js", "")}`)
  .filter((name) => !["explorers/explorer", "explorers/equations"].includes(name));

const fromShared = {name: "shared", setup({onResolve, onLoad}) {
  onResolve({filter: /\/(canvas|controls|plot|ticks|explorer)\.js$/}, ({path}) => ({path, namespace: "shared"}));
  onLoad({filter: /./, namespace: "shared"}, () => ({contents: "module.exports = snnkitShared;"}));
}};

function checksum(files) {
  const hash = createHash("sha256");
  for (const file of files) hash.update(`${file}\n`).update(readFileSync(join(HERE, file)));
  return hash.digest("hex");
}

async function write(name, options) {
  const {outputFiles, metafile} = await build({
    absWorkingDir: HERE, bundle: true, minify: true, write: false, metafile: true, format: "iife",
    globalName: "snnkit", target: "es2022", charset: "utf8", legalComments: "none", ...options,
  });
  const sources = [...SETTINGS, ...Object.keys(metafile.inputs).filter((file) => file.startsWith("src/"))].sort();
  mkdirSync(dirname(join(OUT, name)), {recursive: true});
  writeFileSync(join(OUT, `${name}.js`), `// ${checksum(sources)} ${sources.join(" ")}\n${outputFiles[0].text}`);
}

for (const name of PAGES) await write(name, {entryPoints: [`src/${name}.js`]});
for (const name of EXPLORERS) await write(name, {entryPoints: [`src/${name}.js`], plugins: [fromShared]});
const contents = SHARED.map((name) => `export * from "./src/${name}.js";`).join("\n");
await write("explorers/shared", {stdin: {contents, resolveDir: HERE}, globalName: "snnkitShared"});
