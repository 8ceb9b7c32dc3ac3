import { spawnSync } from "node:child_process";
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { fileURLToPath } from "node:url";
import { VERSION } from "@diskmesh/domain";
import { skipWithout } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { actionsFor, allActions } from "./actions/index.js";
import { runCommandLine } from "./command-line.js";
import { Output, type OutputOptions, sizeText } from "./output/output.js";
import { sizeBytesOf, timeOf } from "./output/values.js";

const ALL = await allActions();

describe("the diskmesh command", () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), "dm-cli-"));
  });
  after(() => rmSync(folder, { recursive: true }));

  const typed = (line: string, environment: Record<string, string> = {}) =>
    typedArgs(line.split(" ").filter(Boolean), environment);

  async function typedArgs(args: readonly string[], environment: Record<string, string>) {
    const [out, err] = [new PassThrough(), new PassThrough()];
    const signal = new AbortController().signal;
    const code = await runCommandLine(args, { out, err, environment, workingFolder: folder, signal });
    const [printed, said] = [out, err].map((stream) => String(stream.read() ?? ""));
    return { code, out: printed as string, err: said as string };
  }

  it("--help lists every action, and the help of an action shows its usage", async () => {
    const { code, out } = await typed("--help");
    expect(code).to.equal(0);
    for (const { usage, example } of ALL) {
      const name = usage.split(" ")[0] as string;
      expect(out).to.match(new RegExp(`^  ${name} `, "m"));
      const help = await typed(`${name} --help`);
      expect([help.code, help.out]).to.satisfy(
        ([ended, text]: [number, string]) => ended === 0 && text.includes(example),
      );
      expect(example).to.match(new RegExp(`^diskmesh ${name}( |$)`));
    }
  });

  it("--version prints the common version of all parts", async () => {
    for (const line of ["--version", "version"])
      expect(await typed(line)).to.deep.equal({ code: 0, out: `diskmesh ${VERSION}\n`, err: "" });
    expect(JSON.parse((await typed("version --json")).out)).to.deep.equal({ version: VERSION });
  });

  it("prints failures as JSON where the output is JSON", async () => {
    for (const [line, code, kind, said] of [
      ["hosts --json", 2, "usage", /no \.diskmesh here or above/],
      ["hosts -o json --nonsense", 2, "usage", /unknown option '--nonsense'/],
      ["add-host --json", 2, "usage", /missing required argument 'host-id'/],
      ["nonsense --json", 2, "usage", /unknown command 'nonsense'/],
    ] as const) {
      const ended = await typed(line);
      const { error } = JSON.parse(ended.out);
      expect([ended.code, error.code, error.kind, ended.err], line).to.deep.equal([code, code, kind, ""]);
      expect(error.message, line).to.match(said);
    }
    expect((await typed("hosts")).out).to.equal("");
  });

  it("loads only the typed action, also behind global options", async () => {
    for (const { usage } of ALL) {
      const name = usage.split(" ")[0] as string;
      for (const before of [[], ["--json"], ["--state", "hosts"], ["--state=status", "-o", "hosts"], ["-ojson"]])
        expect((await actionsFor([...before, name, "status"])).map((one) => one.usage)).to.deep.equal([usage]);
    }
    for (const line of [[], ["--help", "status"], ["__proto__"], ["completion", "bash"], ["statu"]])
      expect(await actionsFor(line)).to.have.length(ALL.length);
  });

  it("a context replaces all variables of diskmesh, and an unknown one names those that there are", async () => {
    const XDG_CONFIG_HOME = join(folder, "config");
    mkdirSync(join(XDG_CONFIG_HOME, "diskmesh"), { recursive: true });
    const lines = ["# production", "DISKMESH_REGISTRY=127.0.0.1:2", "DISKMESH_CA=/nowhere/ca.pem", ""];
    writeFileSync(join(XDG_CONFIG_HOME, "diskmesh/prod.env"), lines.join("\n"));
    const environment = { ...closed, XDG_CONFIG_HOME };
    for (const [line, variables] of [
      ["hosts --context prod", environment],
      ["hosts", { ...environment, DISKMESH_CONTEXT: "prod" }],
    ] as const)
      expect((await typed(line, variables)).err, "the certificate of the context").to.match(
        /no \.diskmesh here or above/,
      );
    expect((await typed("contexts", environment)).out).to.match(/^ +prod +127\.0\.0\.1:2$/m);
    expect((await typed("hosts --context odd", environment)).err).to.match(/there are prod$/m);
    writeFileSync(join(XDG_CONFIG_HOME, "diskmesh/bad.env"), "PATH=/bin");
    expect((await typed("hosts --context bad", environment)).err).to.match(/"PATH=\/bin" is not DISKMESH_NAME=VALUE/);
  });

  it("completes the names of objects where an action, an option or a kind takes them", async function () {
    skipWithout(this, "bash");
    const { out: script } = await typed("completion bash");
    const completed = (line: string) => {
      const words = line.split(" ");
      const typing = `COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}) COMP_CWORD=${words.length - 1}`;
      const asked = `diskmesh() { echo "one-$2 two-$2"; }\n${script}\n${typing}\n_diskmesh\necho "\${COMPREPLY[@]}"`;
      return spawnSync("bash", ["-c", asked], { encoding: "utf8" }).stdout.trim().split(/\s+/);
    };
    for (const [line, kind] of [
      ["diskmesh remove-host ", "host"],
      ["diskmesh detach ", "disk-name"],
      ["diskmesh devices --host ", "host"],
      ["diskmesh why vm ", "vm"],
      ["diskmesh get config ", "config"],
      ["diskmesh get dynamic-disk ", "disk-name"],
    ] as const)
      expect(completed(line), line).to.include.members([`one-${kind}`, `two-${kind}`]);
    for (const { usage, kinds = [] } of ALL)
      if (kinds.length > 0) expect(completed(`diskmesh ${usage.split(" ")[0]} `)).to.deep.equal(kinds);
    expect(completed("diskmesh get ")).to.include.members(["host", "config", "dynamic-disk"]);
    expect(completed("diskmesh why task tw")).to.deep.equal(["two-task"]);
    expect(completed("diskmesh add-h")).to.deep.equal(["add-host"]);
  });

  it("completes where Tab is pressed in zsh", async function () {
    skipWithout(this, "zsh");
    const { out: script } = await typed("completion zsh");
    const file = join(folder, "diskmesh.zsh");
    const typing = 'diskmesh() { [[ $1 == names ]] && print one-$2 || print "typed $*" }; print ready';
    writeFileSync(file, `${script}\n${typing}\n`);
    const pressing = `zmodload zsh/zpty
      zpty -b shell zsh -f -i
      zpty -w shell 'source ${file}'
      zpty -r shell text '*ready?*'
      zpty -n -w shell $'diskmesh remove-ho\\to\\t\\n'
      zpty -r shell text '*typed remove-host one-host*' && print completed`;
    const shell = spawnSync("zsh", ["-f", "-c", pressing], { encoding: "utf8", timeout: 60_000 });
    expect(shell.stdout, shell.stderr).to.equal("completed\n");
  });

  it("completion for bash and zsh has every action and its options", async () => {
    for (const shell of ["bash", "zsh"]) {
      const { code, out } = await typed(`completion ${shell}`);
      expect(code).to.equal(0);
      for (const { usage, options = [] } of ALL) {
        expect(out).to.match(new RegExp(`[ "]${usage.split(" ")[0]}[ )]`));
        for (const [flags] of options) expect(out).to.contain(flags.split(" ")[0]);
      }
    }
  });

  const closed = { DISKMESH_REGISTRY: "127.0.0.1:1", DISKMESH_CA: "ca", DISKMESH_CERT: "cert", DISKMESH_KEY: "key" };
  const WRONG: [line: string, environment: Record<string, string>, said: RegExp][] = [
    ["nonsense", {}, /unknown command 'nonsense'/],
    ["ls", {}, /there is no ls: list with diskmesh hosts, devices, disks, tasks, instances or pools/],
    ["hosts --nonsense", {}, /unknown option '--nonsense'/],
    ["add-host", {}, /missing required argument 'host-id'/],
    ["add-host h1 h2", {}, /too many arguments/],
    ["hosts --state-is odd", closed, /"odd" is none of online, warning, unavailable, dead/],
    ["devices --state-is __proto__", closed, /"__proto__" is none of/],
    ["provide d i --size 10gib", closed, /size "10gib" is malformed/],
    ["provide d", closed, /give either an instance or --host/],
    ["attach d i --host h", closed, /give either an instance or --host/],
    ["provide d --host h --disk-type small", closed, /--disk-type is of instances: give a disk of hosts a --pool/],
    ["provide d i --pool ssd", closed, /--pool is of hosts: give a disk of instances a --disk-type/],
    ["events --after yesterday", closed, /time "yesterday" is malformed/],
    ["events --limit abc", closed, /limit "abc" is malformed: give a number from 1 to 1000/],
    ["events --limit 1001", closed, /limit "1001" is malformed/],
    ["events --director --host h1", closed, /--host, --device and --disk select events of the registry/],
    ["events --disk d --deployment demo", closed, /leave out --director and --deployment/],
    ["disks --dynamic --host h1", closed, /--host, --device and --deleted select disks of the fleet: leave out --dyn/],
    ["disks --dynamic --deleted", closed, /--host, --device and --deleted select disks of the fleet: leave out --dyn/],
    ["delete scratch --now --no-wait", closed, /--now waits for the task: leave out --no-wait/],
    ["disks --deployment demo", closed, /--deployment selects dynamic disks: add --dynamic/],
    ["logs demo --dir /dev/null", closed, /cannot write the logs: "[^"]+" is not a folder/],
    ["logs demo web/0/1", closed, /"web\/0\/1" is neither GROUP nor GROUP\/INDEX nor GROUP\/ID/],
    ["logs demo --dir /dev/null/x", closed, /cannot write the logs: ENOTDIR/],
    ["why task abc", closed, /"abc" is not a task id: give a number/],
    ["hosts -o xml", closed, /format "xml" is none of table, wide, json, yaml/],
    ["get volume x", closed, /"volume" is none of host, device, disk/],
    ["names volume", closed, /"volume" is none of host, device/],
    ["hosts --context nowhere", closed, /cannot read the context "nowhere": ENOENT.*; there is none/],
    ["hosts --context ../x", closed, /context "\.\.\/x" is not a file name/],
    ["watch odd", closed, /"odd" is none of hosts, devices, disks/],
    ["deploy nowhere.yml", closed, /cannot read the manifest: ENOENT/],
    ["update-config cloud nowhere.yml", closed, /cannot read the config: ENOENT/],
    ["status --wait soon", closed, /--wait "soon" is malformed: give a number from 1 to 86400/],
    ["backup dispatcher file", closed, /"dispatcher" has no state: give registry or director/],
    ["backup registry .", closed, /cannot write the backup: "[^"]+" is not a file/],
    ["backup registry /dev/null", closed, /cannot write the backup: "\/dev\/null" is not a file/],
    ["backup registry no/where/file", closed, /cannot write the backup: ENOENT/],
    ["restore registry file", closed, /--config is missing/],
    ["restore registry file --config nowhere", closed, /^diskmesh: cannot read the config: ENOENT/m],
    ["restore registry nowhere --config /dev/null", closed, /^diskmesh: cannot read the backup: ENOENT/m],
    ["verify dispatcher --config /dev/null", closed, /"dispatcher" has no state: give registry or director/],
    ["verify registry", closed, /--config is missing/],
    ["new-mesh m", closed, /missing required argument 'address'/],
    ["new-mesh m http://a", closed, /"http:\/\/a" is no address/],
    ["new-mesh m 10.0.0.5:7010", closed, /"10\.0\.0\.5:7010" is no address/],
    ["new-mesh m a,b", closed, /"a,b" is no address/],
    ["new-mesh a%b 10.0.0.5", closed, /a%b" cannot stand in a unit/],
    ["new-mesh $HOME/m 10.0.0.5", closed, /cannot stand in a unit/],
    ["new-mesh m;b 10.0.0.5", closed, /cannot stand in a unit/],
    ["new-mesh /nowhere/m 10.0.0.5", closed, /diskmesh-director is not on PATH: add bin\/ of the release/],
    ["salvage registry file --config nowhere", closed, /^diskmesh: cannot read the config: ENOENT/m],
    ["passthru host-1", closed, /"host-1" is neither node\/HOST-ID nor driver\/NAME/],
    ["passthru node/h m --args 5", closed, /the arguments are not a JSON object/],
    ["passthru node/h m --args-file nowhere", closed, /cannot read the arguments: ENOENT/],
    ["set-host-state warning host-1", closed, /state "warning" is none of dead, cordoned, online/],
    ["set-host-state dead host-1", closed, /--reason is missing/],
    ["maintenance host-1", closed, /--for is missing: give a time/],
    ["maintenance host-1 --for 30", closed, /--for "30" is malformed: give for example 90s/],
    ["set-device-state error device-1", closed, /--reason is missing/],
    ["driver run folder", closed, /"run" is not a verb: give try/],
    ["driver try folder --settings 5", closed, /the settings are not a JSON object/],
    ["driver try folder --device nowhere", closed, /cannot read the device: ENOENT/],
    ["pki", closed, /missing required argument 'verb'/],
    ["pki constructor", closed, /"constructor" is none of make, renew, list, revoke/],
    ["pki make", closed, /cannot read the list of holders ".*mesh\.list": ENOENT/],
    ["pki make --days 0", closed, /--days "0" is malformed: give a number from 1 to 3650/],
    ["pki revoke", closed, /no names are given/],
    ["pki list host-1", closed, /the verb takes no names/],
    ["nats-config", closed, /missing required argument 'folder'/],
    ["completion fish", {}, /no completion for "fish"/],
    ["hosts", {}, /no \.diskmesh here or above: give --state FOLDER .* DISKMESH_DIRECTOR/],
    ["hosts --state empty", {}, /cannot read the addresses of the services: ENOENT/],
    ["hosts", { ...closed, DISKMESH_REGISTRY: "host" }, /DISKMESH_REGISTRY: "host" is not HOST:PORT/],
    ["hosts", closed, /cannot read the TLS file ca: ENOENT/],
    ["hosts --state odd", {}, /endpoints\.json has no address of the disk-registry: set DISKMESH_REGISTRY/],
  ];
  for (const [line, environment, said] of WRONG)
    it(`${line} is refused with ${said.source} before any service is called`, async () => {
      mkdirSync(join(folder, "odd"), { recursive: true });
      writeFileSync(join(folder, "odd/endpoints.json"), '{"disk-registry":{}}');
      const { code, out, err } = await typed(line, environment);
      expect(err).to.match(said);
      expect([code, out]).to.deep.equal([2, ""]);
    });

  it("refuses empty values, e.g. of unset shell variables, before any service is called", async () => {
    const EMPTY: [args: string[], said: RegExp][] = [
      [["remove-device", "", "device-1"], /^diskmesh: <host-id> is empty$/m],
      [["set-host-state", "dead", "host-1", "", "--reason", "x"], /^diskmesh: <host-ids> is empty$/m],
      [["logs", "demo", ""], /^diskmesh: <instance> is empty$/m],
      [["disks", "--host", ""], /^diskmesh: --host is empty$/m],
      [["devices", "--state-is", ""], /^diskmesh: --state-is is empty$/m],
    ];
    for (const [args, said] of EMPTY) {
      const { code, out, err } = await typedArgs(args, closed);
      expect(err).to.match(said);
      expect([code, out]).to.deep.equal([2, ""]);
    }
  });

  it("fails with a message when the answer cannot be written, and succeeds when the reader closes the pipe early", () => {
    const main = fileURLToPath(new URL("../bin/diskmesh.mjs", import.meta.url));
    const full = openSync("/dev/full", "w");
    const { status, stderr } = spawnSync(process.execPath, [main, "--version"], { stdio: ["ignore", full, "pipe"] });
    closeSync(full);
    expect([status, String(stderr)]).to.deep.equal([
      5,
      "diskmesh: cannot write the answer: ENOSPC: no space left on device, write\n",
    ]);
    const line = '{ { "$0" "$1" --help; echo $? >&3; } | true; } 3>&1';
    const piped = spawnSync("sh", ["-c", line, process.execPath, main], { encoding: "utf8" });
    expect([piped.stdout, piped.stderr]).to.deep.equal(["0\n", ""]);
  });

  it("parses sizes and times with units", () => {
    expect(["64MiB", "10GiB", "4096B"].map(sizeBytesOf)).to.deep.equal([2 ** 26, 10 * 2 ** 30, 4096]);
    for (const wrong of ["9007199254740993B", "64", "64 MiB", "64MB", "0GiB", "1.5GiB", ""])
      expect(() => sizeBytesOf(wrong), wrong).to.throw("give a number with a unit");
    expect(["90s", "15m", "2h", "7d"].map((text) => 0 - timeOf(text, 0).getTime())).to.deep.equal([
      90_000, 900_000, 7_200_000, 604_800_000,
    ]);
    expect(timeOf("2026-01-31T12:00:00Z", 0).toISOString()).to.equal("2026-01-31T12:00:00.000Z");
  });

  it("prints bytes unchanged, and on a terminal as text with control characters escaped", () => {
    const printed = (isTTY: boolean): Buffer => {
      const out = Object.assign(new PassThrough(), { isTTY });
      new Output({ out, err: out, format: "table", environment: {} }).bytes(Buffer.from([0x61, 0x1b, 0xff, 0x0a]));
      return out.read();
    };
    expect(printed(false)).to.deep.equal(Buffer.from([0x61, 0x1b, 0xff, 0x0a]));
    expect(String(printed(true))).to.equal("a\\u001b\ufffd\n");
  });

  it("selects and sorts the items of lists by their columns, and prints them as a table, JSON or YAML", () => {
    const items = [
      { name: "h10", size: 2 ** 20, az: "z1" },
      { name: "h2", size: 2 ** 30, az: "z1" },
      { name: "h1", size: 1, az: "z2" },
    ];
    const columns = {
      name: ({ name }: (typeof items)[number]) => name,
      size: ({ size }: (typeof items)[number]) => sizeText(size),
    };
    const shown = (options: Partial<OutputOptions>) => {
      const out = new PassThrough();
      new Output({ out, err: out, format: "json", environment: {}, ...options }).list(columns, items, "none", {
        az: ({ az }) => az,
      });
      return String(out.read());
    };
    const named = (options: Partial<OutputOptions>) =>
      (JSON.parse(shown(options)) as typeof items).map(({ name }) => name);
    expect(named({})).to.deep.equal(["h10", "h2", "h1"]);
    expect(named({ sort: "name" })).to.deep.equal(["h1", "h2", "h10"]);
    expect(named({ sort: "-size" })).to.deep.equal(["h2", "h10", "h1"]);
    expect(named({ selector: "az=z1,name!=h2" })).to.deep.equal(["h10"]);
    expect(shown({ format: "table", selector: "name=h1" })).to.equal("NAME  SIZE\nh1    1 B\n");
    expect(shown({ format: "wide", selector: "name=h1" })).to.equal("NAME  SIZE  AZ\nh1    1 B   z2\n");
    expect(shown({ format: "yaml", selector: "name=h1", toYaml: (value) => `a ${JSON.stringify(value)}` })).to.equal(
      'a [{"name":"h1","size":1,"az":"z2"}]',
    );
    expect(() => shown({ sort: "odd" })).to.throw('there is no column "odd": the columns are name, size, az');
    expect(() => shown({ selector: "name" })).to.throw('condition "name" is neither COLUMN=VALUE nor COLUMN!=VALUE');
  });

  it("prints tables in colour only on a terminal, with control characters escaped", () => {
    const shown = (isTTY: boolean, environment: Record<string, string>) => {
      const out = Object.assign(new PassThrough(), { isTTY });
      const rows = [{ name: "a\u001b[2Jb\nc\u202e", state: "ONLINE" }];
      new Output({ out, err: out, format: "table", environment }).list(
        { name: ({ name }) => name, state: ({ state }) => state },
        rows,
        "",
      );
      return String(out.read());
    };
    const plain = "NAME                 STATE\na\\u001b[2Jb c\\u202e  ONLINE\n";
    expect(shown(false, {})).to.equal(plain);
    expect(shown(true, { NO_COLOR: "1" })).to.equal(plain);
    expect(shown(true, {})).to.contain("\u001b[32mONLINE\u001b[0m").and.not.contain("\u001b[2J");
  });
});
