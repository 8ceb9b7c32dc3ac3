import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { leaveToVerify, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";

const repository = fileURLToPath(new URL("../../..", import.meta.url));

interface Finding {
  readonly category: string;
  readonly location: { readonly path: string };
}

/** Creates a folder with this repository's config files, and with `files`. */
function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = temporaryFolder();
  symlinkSync(join(repository, "node_modules"), join(folder, "node_modules"));
  for (const name of [
    "biome.json",
    "knip.json",
    "tsconfig.base.json",
    "proto/buf.yaml",
    "proto/vendor",
    "deploy/local/guards",
  ])
    cpSync(join(repository, name), join(folder, name), { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

function run(folder: string, program: string, args: readonly string[]): string {
  const file = join(repository, "node_modules", program);
  return spawnSync(process.execPath, [file, ...args], { cwd: folder, encoding: "utf8" }).stdout;
}

/** Lints `files` and returns the broken rules of each file. */
function lint(files: Readonly<Record<string, string>>): (file: string) => string[] {
  const args = ["lint", "--reporter=json", "--max-diagnostics=none", "."];
  const { diagnostics } = JSON.parse(run(folderWith(files), "@biomejs/biome/bin/biome", args)) as {
    diagnostics: Finding[];
  };
  return (file) => diagnostics.filter(({ location }) => location.path === file).map(({ category }) => category);
}

const IMPORTS = "lint/style/noRestrictedImports";
const GLOBALS = "lint/style/noRestrictedGlobals";
const CIRCLES = "lint/suspicious/noImportCycles";
const DEPENDENCIES = "lint/correctness/noUndeclaredDependencies";
const IMPURE = "plugin";

describe("the linter's rules", () => {
  const inModel: [string, string, string?][] = [
    ["the domain", `import { parseName } from "@diskmesh/domain"; parseName("a", "b");`],
    ["what is known of CPIs", `import { parseCid } from "@diskmesh/cpi"; parseCid("vm", "a");`],
    ["types of tables", `import type { Table, Tables } from "@diskmesh/tablet"; export type T = [Table, Tables];`],
    ["a file beside it", `export { b } from "./b.js";`],
    ["arithmetic", "export const most = (a: number) => Math.max(a, 1);"],
    ["a value of tablet", `import { openTablet } from "@diskmesh/tablet"; openTablet();`, IMPORTS],
    ["Node", `import { readFileSync } from "node:fs"; readFileSync("/");`, IMPORTS],
    ["a type from outside its folder", `import type { B } from "../b.js"; export type C = B;`, IMPORTS],
    ["a file outside its folder", `export * from "../b.js";`, IMPORTS],
    ["a package that is no neighbour", `import { z } from "zod"; z.string();`, IMPORTS],
    ["the clock", "export const now = () => Date.now();", GLOBALS],
    ["a timer", "export const later = () => setTimeout(() => 1, 1);", GLOBALS],
    ["a promise", "export const one = () => Promise.resolve(1);", GLOBALS],
    ["the process", "export const id = process.pid;", GLOBALS],
    ["a global by another way", "export const later = globalThis.setTimeout;", GLOBALS],
    ["randomness", "export const roll = () => Math.random();", IMPURE],
    ["randomness by another way", "export const { random } = Math;", IMPURE],
    ["waiting", "export const a = await b; declare const b: number;", IMPURE],
    ["an asynchronous function", "export async function a() { return 1; }", IMPURE],
    ["an asynchronous arrow", "export const a = async () => 1;", IMPURE],
    ["an asynchronous method", "export class A { static async a() { return 1; } }", IMPURE],
    ["an asynchronous loop", "for await (const a of b) a; declare const b: any;", IMPURE],
    ["an import on the way", `export const a = () => import("./b.js");`, IMPURE],
  ];
  const elsewhere: [string, string, string, string?][] = [
    ["a test of a model that waits", "services/s/src/model/a.test.ts", "await import('chai'); Date.now();"],
    ["a model's room that uses another", "services/s/src/model/r/a.ts", `export { b } from "../q/b.js";`],
    [
      "a model's room that uses what is no model",
      "services/s/src/model/r/b.ts",
      `export { b } from "../../b.js";`,
      IMPORTS,
    ],
    ["a service that imports another", "services/s/src/a.ts", `import "@diskmesh/director";`, IMPORTS],
    ["a package that imports a service", "packages/p/src/a.ts", `import "@diskmesh/disk-agent/nbd-client";`, IMPORTS],
    ["the testkit outside a test", "services/s/src/b.ts", `import "@diskmesh/testkit";`, DEPENDENCIES],
    ["the testkit in what tests use", "services/s/src/testing/b.ts", `import "@diskmesh/testkit";`],
    ["Node in a package that models import", "packages/cpi/src/a.ts", `import "node:fs";`, IMPORTS],
    ["Node in its tests", "packages/cpi/src/testing/a.ts", `import "node:fs";`],
    [
      "types that import each other",
      "packages/p/src/d.ts",
      `import type { E } from "./e.js"; export type D = E[];`,
      CIRCLES,
    ],
    ["a long file", "packages/p/src/c.ts", "export {};\n".repeat(401), "lint/style/noExcessiveLinesPerFile"],
    ["a long test", "packages/p/src/c.test.ts", "export {};\n".repeat(401)],
  ];
  const cases = [
    ...inModel.map(
      ([what, text, rule], n) => [`a model that uses ${what}`, `services/s/src/model/case${n}.ts`, text, rule] as const,
    ),
    ...elsewhere,
  ];
  let brokenIn: (file: string) => string[];
  before(() => {
    const manifest = `{ "dependencies": { "@diskmesh/cpi": "1", "@diskmesh/domain": "1", "@diskmesh/tablet": "1" }, "devDependencies": { "@diskmesh/testkit": "1" } }`;
    const files = cases.map(([, file, text]) => [file, text]);
    brokenIn = lint(
      Object.fromEntries([
        ...files,
        ["services/s/package.json", manifest],
        ["packages/p/package.json", manifest],
        ["packages/p/src/e.ts", `import type { D } from "./d.js"; export type E = D | 1;`],
        ["services/s/src/model/b.ts", "export const b = 1;"],
      ]),
    );
  });
  for (const [what, file, , rule] of cases)
    it(`${rule ? "refuse" : "allow"} ${what}`, () => {
      if (rule) expect(brokenIn(file)).to.include(rule);
      else
        expect(brokenIn(file).filter((name) => [IMPORTS, GLOBALS, IMPURE, DEPENDENCIES, CIRCLES].includes(name))).to.be
          .empty;
    });
});

describe("the check of the protos against their earlier versions", () => {
  const proto = (field: string) => `syntax = "proto3";\npackage a.v1;\nmessage A {\n  ${field}\n}\n`;
  const BREAK = {
    path: "proto/a/v1/a.proto",
    message: 'Field "1" with name "b" on message "A" changed type from "string" to "bytes".',
  };

  /** Creates a repository whose commits have these fields in turn, and returns the check's output. */
  async function check(fields: readonly string[], deliberate: readonly object[] = []): Promise<string> {
    return checkIn(commit(fields, deliberate));
  }

  function commit(fields: readonly string[], deliberate: readonly object[]): string {
    const folder = folderWith({ "proto/deliberate-breaks.json": JSON.stringify(deliberate) });
    git(folder, "init", "--quiet");
    mkdirSync(join(folder, "proto/a/v1"), { recursive: true });
    for (const field of fields) {
      writeFileSync(join(folder, "proto/a/v1/a.proto"), proto(field));
      git(folder, "add", "proto");
      git(folder, "commit", "--quiet", "--message", field);
    }
    return folder;
  }

  function git(folder: string, ...args: string[]): string {
    return execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...args], {
      cwd: folder,
      encoding: "utf8",
    });
  }

  /** Records the commit at `index` as the last release. */
  function release(folder: string, index: number, hash = ""): string {
    const commit = hash || (git(folder, "rev-list", "--reverse", "HEAD").split("\n")[index] ?? "");
    mkdirSync(join(folder, "deploy/release"), { recursive: true });
    writeFileSync(join(folder, "deploy/release/last-release.json"), JSON.stringify({ version: "1.0.0", commit }));
    return commit;
  }

  async function checkIn(folder: string): Promise<string> {
    const { checkBreaks } = await import(join(repository, "deploy/local/bootstrap/breaking.mjs"));
    return checkBreaks(folder).then(
      () => "",
      (error: Error) => error.message,
    );
  }

  it("passes when a field is added", async () => {
    expect(await check(["string b = 1;", "string b = 1; string c = 2;"])).to.equal("");
  });

  it("finds a break, also against a version before the last one", async () => {
    const found = await check(["string b = 1;", "bytes b = 1;", "bytes b = 1; string c = 2;"]);
    expect(found).to.include(`${BREAK.path}: ${BREAK.message} (since `).and.to.include("deliberate-breaks.json");
  });

  it("finds a break against the last release, however old that is", async function () {
    leaveToVerify(this);
    const later = Array.from({ length: 9 }, (_, index) => `bytes b = 1; string c${index} = 2;`);
    const folder = commit(["string b = 1;", ...later], []);
    expect(await checkIn(folder), "before it is named").not.to.include(BREAK.message);
    const first = release(folder, 0);
    expect(await checkIn(folder)).to.include(`${BREAK.path}: ${BREAK.message} (since ${first.slice(0, 12)})`);
  });

  it("ignores what broke before the last release", async () => {
    const folder = commit(["string b = 1;", "bytes b = 1;", "bytes b = 1; string c = 2;"], []);
    expect(await checkIn(folder), "before it is named").to.include(BREAK.message);
    release(folder, 1);
    expect(await checkIn(folder)).to.equal("");
  });

  it("fails where the history lacks the last release", async () => {
    const folder = commit(["string b = 1;"], []);
    release(folder, 0, "0".repeat(40));
    expect(await checkIn(folder)).to.include("0".repeat(40));
  });

  it("finds an RPC that was deleted from this repository's protos", async () => {
    const folder = commit(["string b = 1;"], []);
    cpSync(join(repository, "proto"), join(folder, "proto"), { recursive: true });
    writeFileSync(join(folder, "proto/deliberate-breaks.json"), "[]");
    git(folder, "add", "proto");
    git(folder, "commit", "--quiet", "--message", "all");
    release(folder, 1);
    expect(await checkIn(folder), "before").to.equal("");
    const file = join(folder, "proto/diskmesh/director/v1/task_service.proto");
    writeFileSync(file, readFileSync(file, "utf8").replace(/\n +rpc ResumeTask.*/, ""));
    expect(await checkIn(folder)).to.include(
      'Previously present RPC "ResumeTask" on service "TaskService" was deleted',
    );
  });

  it("accepts a break that is listed with its reason", async () => {
    const fields = ["string b = 1;", "bytes b = 1;"];
    expect(await check(fields, [{ ...BREAK, reason: "nobody has called it yet" }])).to.equal("");
    expect(await check(fields, [BREAK])).to.include("lacks its path, message or reason");
  });

  it("reports that it checked nothing in a shallow clone, which has no versions", () => {
    const from = commit(["string b = 1;", "bytes b = 1;"], []);
    const clone = join(temporaryFolder(), "clone");
    execFileSync("git", ["clone", "--quiet", "--depth=1", `file://${from}`, clone]);
    const breaking = JSON.stringify(join(repository, "deploy/local/bootstrap/breaking.mjs"));
    const script = `import(${breaking}).then(({ checkBreaks }) => checkBreaks(${JSON.stringify(clone)}))`;
    const { status, stderr } = spawnSync(process.execPath, ["--eval", script], { encoding: "utf8" });
    expect(stderr).to.include("NOT CHECKED").and.to.include("git fetch --unshallow");
    expect(status).to.equal(0);
  });
});

describe("the search for unused code", () => {
  const manifest = (name: string, more: object) =>
    JSON.stringify({ name: `@diskmesh/${name}`, type: "module", ...more });
  const built = { types: "./dist/index.d.ts", default: "./dist/index.js" };
  const compiled = `{ "extends": "../../tsconfig.base.json", "compilerOptions": { "rootDir": "src", "outDir": "dist" } }`;
  const used = {
    "package.json": JSON.stringify({ workspaces: ["packages/*", "services/*"] }),
    "packages/p/package.json": manifest("p", { exports: built, dependencies: { zod: "4" } }),
    "packages/p/tsconfig.json": compiled,
    "packages/p/src/index.ts": `export { a } from "./a.js";`,
    "packages/p/src/a.ts": `import { z } from "zod"; export const a = z.string();`,
    "packages/p/src/a.test.ts": `import { a } from "./a.js"; a.parse("b");`,
    "services/s/package.json": manifest("s", { dependencies: { "@diskmesh/p": "1" } }),
    "services/s/tsconfig.json": compiled,
    "services/s/src/main.ts": `import { a } from "@diskmesh/p"; a.parse("b");`,
  };
  const faults = {
    "packages/p/package.json": manifest("p", { exports: built, dependencies: { yaml: "2", zod: "4" } }),
    "packages/p/src/a.ts": `import { z } from "zod"; export const a = z.string(); export const b = z.number();`,
    "packages/p/src/index.ts": `export { a, b } from "./a.js";`,
    "packages/p/src/c.ts": "export const c = 1;",
    "services/s/src/main.ts": `import "chai"; import { a } from "@diskmesh/p"; export const d = a;`,
  };
  const search = (files: Record<string, string>) =>
    run(folderWith(files), "knip/bin/knip.js", ["--no-progress", "--no-config-hints"]);

  it("finds nothing where all is used", () => {
    expect(search(used)).to.equal("");
  });

  it("finds files, dependencies, unlisted imports, exports, and those of packages", () => {
    expect(search({ ...used, ...faults }))
      .to.match(/^packages\/p\/src\/c\.ts/m)
      .and.to.match(/^yaml +packages\/p\/package\.json/m)
      .and.to.match(/^chai +services\/s\/src\/main\.ts/m)
      .and.to.match(/^d +services\/s\/src\/main\.ts/m)
      .and.to.match(/^b +packages\/p\/src\/index\.ts/m);
  });
});

describe("the search for copies", () => {
  const lines = (from: number, to: number) =>
    Array.from({ length: to - from + 1 }, (_, n) => `  const a${from + n} = call(b, ${from + n});`).join("\n");
  const one = `import { a } from "./a.js";\n/** What it does. */\nexport function one() {\n${lines(1, 9)}\n}\n`;

  async function search(files: Readonly<Record<string, string>>): Promise<string> {
    const { checkCopies } = await import(join(repository, "deploy/local/bootstrap/copies.mjs"));
    const [p, s] = ["packages/p/tsconfig.json", "services/s/tsconfig.json"];
    const more = { [p]: "{}", [s]: "{}", "packages/p/src/one.ts": one, "deploy/local/bootstrap/a.mjs": "" };
    try {
      checkCopies(folderWith({ "services/s/src/main.ts": "", ...more, ...files }));
      return "";
    } catch (error) {
      return (error as Error).message;
    }
  }

  it("finds equal lines in another file, despite comments and blank lines between them", async () => {
    const two = `// Another file.\nfunction two() {\n${lines(0, 3)}\n\n  // A reason.\n${lines(4, 8)}\n}\n`;
    expect(await search({ "services/s/src/two.test.ts": two })).to.include(
      "services/s/src/two.test.ts:4-13 is a copy of packages/p/src/one.ts:4-11\n",
    );
  });

  it("finds equal lines further down in the same file", async () => {
    expect(await search({ "packages/p/src/one.ts": `${one}${one}` })).to.include(
      "packages/p/src/one.ts:16-26 is a copy of packages/p/src/one.ts:3-13\n",
    );
  });

  const others: Readonly<Record<string, string>> = {
    "fewer lines": `export function two() {\n${lines(1, 5)}\n}\n`,
    "the same imports": `import {\n${Array.from({ length: 20 }, (_, n) => `  a${n},`).join("\n")}\n} from "./a.js";\n`,
    "brackets alone": `${"}\n".repeat(20)}`,
  };
  for (const [what, text] of Object.entries(others))
    it(`finds no copy in ${what}`, async () => {
      expect(await search({ "services/s/src/two.ts": text, "services/s/src/three.ts": text })).to.equal("");
    });
});

describe("the budget of lines", () => {
  const text = "// A comment.\n\n/** A thing.\n * more */\nexport const a = 1;\nexport const b = 2;\n";
  async function check(budget: object): Promise<string> {
    const { checkLines } = await import(join(repository, "deploy/local/bootstrap/lines.mjs"));
    const folder = folderWith({
      "packages/p/tsconfig.json": "{}",
      "services/s/tsconfig.json": "{}",
      "services/s/src/main.ts": text,
      "services/s/src/main.test.ts": text.repeat(50),
      "packages/p/src/testing/one.ts": text,
      "deploy/local/bootstrap/a.mjs": "",
      "deploy/local/lines.json": JSON.stringify(budget),
    });
    try {
      checkLines(folder);
      return "";
    } catch (error) {
      return (error as Error).message;
    }
  }
  const RIGHT = { source: 2, tests: 100, support: 0 };
  const P = { source: 0, tests: 0, support: 2 };
  const CASES: [string, object, string][] = [
    ["as much as there is", { "services/s": RIGHT, "packages/p": P }, ""],
    ["a little more", { "services/s": { ...RIGHT, tests: 102 }, "packages/p": P }, ""],
    ["less", { "services/s": { ...RIGHT, source: 1 }, "packages/p": P }, "services/s has 2 lines of source, above"],
    ["far more", { "services/s": { ...RIGHT, tests: 103 }, "packages/p": P }, "has 100 lines of tests, far below"],
    ["nothing for a workspace", { "services/s": RIGHT }, "packages/p has 2 lines of support, above its budget of 0"],
    [
      "a workspace that is gone",
      { "services/s": RIGHT, "packages/p": P, "packages/q": RIGHT },
      "packages/q has 0 lines",
    ],
  ];
  for (const [what, budget, fault] of CASES)
    it(`${what} -> ${fault === "" ? "accepted" : "refused"}`, async () => {
      if (fault === "") expect(await check(budget)).to.equal("");
      else expect(await check(budget)).to.include(fault);
    });
});

describe("the search for comments and commits without a subject", () => {
  async function search(source: string, proto = "// The disks.\n"): Promise<string> {
    const { checkWords } = await import(join(repository, "deploy/local/bootstrap/words.mjs"));
    const places = { "packages/p/tsconfig.json": "{}", "services/s/tsconfig.json": "{}" };
    const sources = {
      "packages/p/src/one.ts": source,
      "services/s/src/main.ts": "",
      "deploy/local/bootstrap/a.mjs": "",
    };
    const folder = folderWith({ ...places, ...sources, "proto/diskmesh/a.proto": proto });
    const git = (...args: string[]) =>
      execFileSync("git", ["-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", ...args]);
    git("init", "--quiet");
    git("commit", "--quiet", "--allow-empty", "--message", "Registry, refuse overlapping devices");
    git("commit", "--quiet", "--allow-empty", "--message", "registry: refuse overlapping devices");
    return checkWords(folder).then(
      () => "",
      (error: Error) => error.message,
    );
  }

  it("finds comments that open with a word that is no subject, and commits without an area", async () => {
    const found = await search(
      "/** What it does. */\n\n/**\n * Of a disk.\n */\n// Until then.\n",
      "// Whose disks.\n",
    );
    expect(found).to.include('packages/p/src/one.ts:1: a comment begins with "What"');
    expect(found).to.include('packages/p/src/one.ts:4: a comment begins with "Of"');
    expect(found).to.include('packages/p/src/one.ts:6: a comment begins with "Until"');
    expect(found).to.include('proto/diskmesh/a.proto:1: a comment begins with "Whose"');
    expect(found).to.match(/commit [0-9a-f]+ Registry, refuse overlapping devices: its subject/);
    expect(found).to.match(
      /commit [0-9a-f]+ registry: refuse overlapping devices: its area has the name disk-registry/,
    );
  });

  it("finds nothing in later lines of a comment", async () => {
    expect(
      await search("// Disks of a host.\n// Of those, one.\n/**\n * A host.\n * What it has.\n */\n"),
    ).to.not.include("a comment begins");
  });
});
