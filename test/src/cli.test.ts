import { execFile } from "node:child_process";
import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { fileURLToPath } from "node:url";
import type { ExplainResponse } from "@diskmesh/api/common";
import { runCommandLine } from "@diskmesh/cli";
import { OpenPage } from "@diskmesh/director/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { Clocks } from "./mesh/clocks.js";
import { ADMIN, wholeFleet } from "./mesh/fleets.js";
import { devicesReady } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { typeCommand } from "./mesh/type-command.js";

const COMMAND = fileURLToPath(new URL("../../packages/cli/bin/diskmesh.mjs", import.meta.url));
const DAY_SECONDS = 24 * 60 * 60;
const MANIFEST = "name: demo\ninstance_groups: [{name: web, instances: 1, azs: [z1]}]\n";
const CLOUD_CONFIG = "azs: [{name: z1}]\ndisk_types: [{name: small, disk_size: 1}]\n";

/** Shorter than the heartbeat interval, so that every agent counts as unresponsive between two heartbeats. */
const tuning = { agents: { unresponsiveAfterMs: 1_000 } };

/** Runs command lines of an operator against a mesh of real processes. */
describe("the diskmesh command and a mesh", () => {
  let mesh: TestMesh;
  let page: OpenPage;

  before(async () => {
    const hosts = { hosts: 2, devicesPerHost: 2, deviceSizeBytes: MIB_BYTES };
    mesh = await TestMesh.start(wholeFleet({ ...hosts, httpUsers: ADMIN, overrides: { director: { tuning } } }));
    page = new OpenPage(mesh.http());
  });
  after(async () => {
    page?.close();
    await mesh?.[Symbol.asyncDispose]();
  });

  const typed = (...args: string[]) => mesh.typed(...args);
  /** Runs a command line, and fails unless its exit code is 0. */
  async function done(line: string, ...more: string[]): Promise<string> {
    const { code, out, err } = await typed(...line.split(" "), ...more);
    expect(code, `${line}: ${out}${err}`).to.equal(0);
    return out;
  }
  // biome-ignore lint/suspicious/noExplicitAny: the tests check the fields of the answers one by one.
  const listed = async (line: string): Promise<any[]> => JSON.parse(await done(`${line} --json`));

  /** Expects that the page and the command show the registry's own sentence about the trouble. */
  async function isShown(kind: "host" | "disk", name: string, sentence: string): Promise<void> {
    const { trouble } = (await listed(`${kind}s`)).find((each) => each[`${kind}Id`] === name);
    expect(trouble.sentence).to.equal(sentence).and.not.to.equal("");
    expect(await done(`${kind}s`)).to.contain(sentence);
    await eventually(() => expect(page.rows.get(`${kind} ${name}`)?.trouble).to.equal(sentence));
  }

  const listedWhy = async (line: string) => (JSON.parse(await done(`${line} --json`)) as ExplainResponse).causes;

  it("shows the status, adds and removes hosts, attaches and detaches a deployment's disk, and fences a dead host", async () => {
    expect(await done("status")).to.match(/\ndisk-registry +\S+ +serves\n$/);
    expect(await done("why")).to.equal("");
    for (const service of ["director", "cpi-dispatcher", "disk-registry"])
      expect(await done(`why service ${service}`)).to.match(new RegExp(`^${service} is served\nno problem is known`));
    expect(await done("add-host host-1 --dry-run")).to.contain("S_OK");
    for (const host of mesh.hostIds) await done(`add-host ${host} --wait`);
    await devicesReady(mesh);
    expect(await done("hosts")).to.match(/^HOST +STATE .*\nhost-1 +ONLINE/);
    expect((await listed("devices --host host-2")).map(({ attachState }) => attachState)).to.deep.equal(
      Array(2).fill("ATTACH_STATE_ATTACHED"),
    );
    expect(await done("adopt-device host-1 host-1-device-1")).to.match(/^S_ALREADY: no drive .* waits/);
    expect(await done("add-device host-1 host-1-device-1 --erase-foreign")).to.match(/^S_ALREADY/);
    const undecided = /^host-1-device-1: nothing changes: it is not held by an unknown disk/;
    expect(await done("decide-unknown agent host-1-device-1 --dry-run")).to.match(undecided);
    expect(await done("decide-unknown registry host-1-device-1 --dry-run")).to.match(undecided);
    expect(await done("remove-host host-2 --wait")).to.contain("host-2 is out of operation");
    await done("add-host host-2 --wait");
    await devicesReady(mesh);

    const cloudConfig = join(mesh.folder, "cloud.yml");
    writeFileSync(cloudConfig, CLOUD_CONFIG);
    expect(await done(`update-config cloud ${cloudConfig}`)).to.equal("config 1: cloud, default\n");
    expect(await listed("configs --type cloud")).to.have.length(1);
    expect(await done(`update-config cpi ${cloudConfig} --json`).catch((error) => error.message)).to.match(/cpis/);
    writeFileSync(join(mesh.folder, "demo.yml"), MANIFEST);
    expect(await done(`deploy ${join(mesh.folder, "demo.yml")}`)).to.equal("DONE: /deployments/demo\n");
    const [instance] = await listed("instances demo");
    await done("provide scratch demo/web/0 --size 1MiB --disk-type small");
    const [disk] = await listed("disks --dynamic");
    const [published] = await listed("disks");
    expect([disk.diskCid, published.publication.state]).to.deep.equal([
      published.diskId,
      "PUBLICATION_STATE_PUBLISHED",
    ]);
    expect(await done("disks")).to.match(new RegExp(`^${published.diskId} +scratch +1 MiB `, "m"));
    expect(await done("get disk scratch")).to.match(new RegExp(`^diskId: ${published.diskId}$`, "m"));
    expect(JSON.parse(await done("get vm demo/web/0 --json")).instanceId).to.equal(instance.instanceId);
    expect(await done("pools")).to.match(/^default +z1 +\d MiB +\d MiB +0 B +\d MiB +\d MiB +\d MiB$/m);
    expect((await done("names disk")).split("\n")).to.include.members(["scratch", published.diskId]);
    expect(await done(`devices -l host=host-2 --sort device -o wide`)).to.match(/^DEVICE .* PATH .*\nhost-2-device-1 /);
    expect(await done("migrate-disk scratch")).to.match(new RegExp(`^disk ${published.diskId}: its move `));
    await done("cancel-move scratch");
    // The move may have ended before it was cancelled.
    const deviceId = await eventually(async () => {
      const [{ parts }] = await listed("disks");
      expect(parts[0].copies).to.have.length(1);
      expect((await listed("devices")).filter(({ dirty }) => dirty)).to.deep.equal([]);
      return parts[0].copies[0].deviceId;
    });
    const unknown = await typed("why", "vm", "demo/web/7");
    expect(unknown.err).to.equal("diskmesh: there is no VM or instance demo/web/7; there is demo/web/0\n");
    expect((await typed("why", "pool", "fast")).err).to.equal("diskmesh: there is no pool fast; there is default\n");
    expect((await typed("devices", "--host", "host-9")).err).to.match(
      /there is no host host-9: .*; there are host-1, host-2\n/,
    );
    expect((await listed("events --disk scratch")).length).to.be.above(0);
    const failed = await typed("provide", "other", instance.instanceId, "--size", "1MiB", "--disk-type", "huge");
    expect([failed.code, failed.err]).to.satisfy(
      ([code, err]: [number, string]) => code === 1 && /could not find disk type/.test(err),
    );
    expect((await listed("tasks --recent")).map(({ state }) => state)).to.deep.equal([
      "TASK_STATE_ERROR",
      "TASK_STATE_DONE",
      "TASK_STATE_DONE",
    ]);

    const wide = await typed("provide", "wide", instance.instanceId, "--size", "100MiB", "--disk-type", "small");
    expect(wide.code).to.equal(1);
    const [{ taskId }] = await listed("tasks --recent");
    expect((await done(`why task ${taskId}`)).split("\n")[0]).to.match(
      /^task \d+ \(provide .*`wide`.*\) has failed: pool default: 3 MiB are free \(the largest free run has room for 1 MiB\), 1 MiB in use$/,
    );

    const { hostId } = published.publication;
    const announce = `maintenance ${hostId} --for 30m`;
    expect(await done(`${announce} --dry-run`)).to.match(
      /^would begin maintenance of hosts \S+ for at most 30m: 1 pub/,
    );
    expect((await listed("hosts --state-is maintenance")).length).to.equal(0);
    await done(announce);
    expect(await done("hosts --state-is maintenance"))
      .to.contain(`${hostId} `)
      .and.to.contain("in maintenance until 20");
    expect((await listedWhy(`why host ${hostId}`)).map(({ reason }) => reason)).to.include("IN_MAINTENANCE");
    await done(`set-host-state online ${hostId}`);
    expect((await listed("hosts --state-is maintenance")).length).to.equal(0);
    expect(await done(`set-host-state dead ${hostId} --reason power --dry-run`)).to.contain("1 publications");
    await eventually(async () => (await typed("fence-host", hostId, "--reason", "power")).code === 0);
    expect((await listed("disks"))[0].fence).to.include({ hostId, reason: "power" });
    // The disk is not served now, but the fate of the host with its device still affects it.
    const devices = await listed("devices");
    const { hostId: holder } = devices.find(({ diskId }) => diskId === published.diskId);
    expect((await listed(`disks --host ${holder}`)).map(({ diskId }) => diskId)).to.deep.equal([published.diskId]);
    await done(`set-host-state dead ${hostId} --reason power`);
    const [why] = await listedWhy(`why host ${hostId}`);
    const attention = await typed("why", "--json");
    expect(attention.code).to.equal(1);
    expect(JSON.parse(attention.out)).to.deep.include({
      ...{ kind: "host", names: [hostId], trouble: why?.message, hasEnded: false },
      sinceMs: Date.parse(String(why?.startTime)),
    });
    const ended = await typed("status");
    expect(ended.code, "the services serve").to.equal(0);
    expect(ended.out)
      .to.match(new RegExp(`^host +${hostId} `, "m"))
      .and.match(/^task +\d+ .* could not find disk type/m);
    expect([why?.reason, why?.cures[1]?.command]).to.deep.equal([
      "SAID_DEAD",
      `diskmesh fence-host ${hostId} --reason WHY`,
    ]);
    await isShown("host", hostId, why?.message ?? "");
    const [fence] = await listedWhy(`why disk ${published.diskId}`);
    await isShown("disk", published.diskId, fence?.message ?? "");
    const joined = async (line: string) =>
      (await listedWhy(line)).map(({ subject, reason }) => `${subject?.kind} ${subject?.name} ${reason}`);
    for (const name of ["scratch", published.diskId])
      expect(await joined(`why disk ${name}`)).to.include.members([
        `SUBJECT_KIND_DISK ${published.diskId} FENCED`,
        `SUBJECT_KIND_HOST ${hostId} SAID_DEAD`,
      ]);
    await eventually(async () =>
      expect((await joined("why vm demo/web/0")).slice(0, 3)).to.deep.equal([
        "SUBJECT_KIND_VM demo/web/0 AGENT_SILENT",
        `SUBJECT_KIND_HOST ${hostId} SAID_DEAD`,
        `SUBJECT_KIND_DISK ${published.diskId} FENCED`,
      ]),
    );
    expect(await done(`why device ${deviceId}`)).to.contain("of disk disk-");
    await done(`set-host-state online ${hostId}`);
    expect((await listed(`events --host ${hostId} --action FenceHost`)).length).to.be.above(0);
    const history = await typed("journal", "host", hostId);
    expect(history.out).to.match(/operator.*: SetHostState, request \S+ +state DEAD -> UNAVAILABLE; /);
    expect(history.err).to.equal("all changes since the registry's store was made are kept\n");
    expect((await listed("journal disk scratch --limit 1"))[0].details).to.be.an("array");
    expect((await listed("events --director --deployment demo --after 1h")).length).to.be.above(0);
    const told = await listed("events --limit 1000");
    expect(new Set(told.map(({ service }) => service))).to.deep.equal(new Set(["director", "disk-registry"]));
    const times = told.map(({ eventTime }) => Date.parse(eventTime));
    expect(times).to.deep.equal([...times].sort((a, b) => b - a));
    expect(await listed("events --limit 3")).to.have.length(3);
    const fenced = (await listed(`events --thing ${hostId} --action FenceHost --result OK`))[0];
    expect(await listed(`events --request ${fenced.requestId}`)).to.deep.equal([fenced]);
    expect(await listed(`events --thing ${hostId} --result NOT_FOUND`)).to.deep.equal([]);
    const attached = await typed("delete", "scratch");
    expect([attached.code, attached.out]).to.satisfy(
      ([code, out]: [number, string]) => code === 1 && /attached/.test(out),
    );
    await done("detach scratch");
    expect(await done("delete scratch")).to.match(/^DONE/);
    const leftover = `csi-${"a".repeat(32)}`;
    const objects = join(mesh.folder, "none.json");
    writeFileSync(objects, '{"items":[]}');
    await done(`provide ${leftover} demo/web/0 --size 1MiB --disk-type small`);
    for (const command of ["detach", "delete"]) {
      const leaks = await typed("csi-leaks", "demo", objects);
      expect(leaks.code, leaks.out).to.equal(1);
      expect(leaks.out).to.include(`diskmesh ${command} ${leftover}`);
      await done(`${command} ${leftover}`);
    }
    expect(await listed(`csi-leaks demo ${objects}`)).to.deep.equal([]);
    expect(await listed("disks --dynamic")).to.deep.equal([]);
    expect(await listed("locks")).to.deep.equal([]);
    expect(await listed("agents --deployment demo"), "those of hosts have certificates of their own").to.deep.equal([]);
    expect(await done("why task 1")).to.match(/^task 1 \(.*\) is done.*\nno problem is known/);
  });

  it("exits with 1 for a refusal or a missing object, with 3 when unavailable, and prints the reason", async () => {
    const rows: [line: string, code: number, said: RegExp][] = [
      ["fence-host nowhere", 1, /no host nowhere/],
      ["add-host nowhere", 1, /no host nowhere: its agent has not registered/],
      ["remove-host no/where", 1, /no\/where/],
      ["instances nowhere", 1, /nowhere/],
      ["why host nowhere", 1, /no host nowhere/],
      ["why device a/b", 1, /a\/b/],
      ["why task 99999", 1, /99999/],
      ["why task 999999", 1, /there is no task 999999/],
      ["why lock deployment:demo", 1, /lock deployment:demo is not held/],
      ["why lock odd", 1, /TYPE:RESOURCE/],
      ["why vm x", 1, /no VM or instance x/],
      ["why disk nowhere", 1, /nowhere/],
      ["why host", 2, /name the host to explain/],
      ["why service disk-agent", 2, /"disk-agent" is none of director, cpi-dispatcher, disk-registry: .*why host HOST/],
      [
        "why service csi-driver",
        2,
        /"csi-driver" is none of .*; a driver that hangs or warns is listed with .*: diskmesh why/,
      ],
      ["why volume x", 2, /"volume" is none of host, device, disk, pool, vm, task, lock/],
      ["cancel 1", 1, /done/],
      ["passthru driver/nobody", 1, /nobody/],
      ["passthru node/host-1 nothing", 1, /nothing/],
      ["resume x", 2, /"x" is not a task id/],
      ["set-device-state odd d", 2, /"odd" is none of online, warning, error/],
    ];
    for (const [line, code, said] of rows) {
      const ended = await typed(...line.split(" "));
      expect(ended.out + ended.err, line).to.match(said);
      expect(ended.code, line).to.equal(code);
    }
  });

  it("the page shows that no registry has the purged host of a VM", async () => {
    const [{ vmCid }] = await listed("instances demo");
    const { hostId } = (await listed("hosts")).find(({ assignment }) => assignment?.vmCid === vmCid);
    await done(`purge-host ${hostId} --force`);
    const isTold = () => expect(page.rows.get("vm demo/web/0")?.trouble).to.contain(`VM ${vmCid} of demo/web/`);
    await eventually(isTold);
  });

  it("backs up the director, for its owner only, and restores it", async function () {
    leaveToVerify(this);
    const { folder } = mesh;
    const file = join(folder, "director.backup");
    expect(await done(`backup director ${file}`)).to.match(/^.*director\.backup: \d+ documents of tablet director, /);
    expect(statSync(file).mode & 0o777).to.equal(0o600);
    // Released programs do not accept limits from tests.
    const shipped = { ...mesh.process("director").config, tuning: undefined };
    writeFileSync(join(folder, "shipped.yaml"), JSON.stringify(shipped));
    const config = `--config ${join(folder, "shipped.yaml")}`;
    expect((await typed(..."verify director".split(" "), ...config.split(" "))).code).to.equal(1);
    await mesh.process("director").stop();
    expect(await done(`verify director ${config}`)).to.contain("the store is whole");
    expect(await done(`salvage director ${file} ${config}`)).to.contain(file);
    await done(`restore director ${file} ${config} --replace`);
    await mesh.process("director").start();
    expect((await listed("instances demo")).length).to.equal(1);
    await done("status --wait 60");
  });

  it("names both times and the wrong clock when the operator's clock is 400 days ahead or 2 days behind", async function () {
    const clocks = new Clocks(mesh.folder);
    if (clocks.problem !== undefined) skipBecause(this, clocks.problem);
    const env = { ...process.env, ...mesh.commandEnvironment, ...clocks.environment("operator") };
    const whyAt = (days: number): Promise<string> => {
      clocks.set("operator", days * DAY_SECONDS);
      const args = [COMMAND, "why", "service", "disk-registry"];
      return new Promise((resolve) => execFile(process.execPath, args, { env }, (_, out, err) => resolve(out + err)));
    };
    for (const days of [400, -2])
      expect(await whyAt(days)).to.match(
        /is valid from 2\S+Z to 2\S+Z, and the clock of this machine shows 2\S+Z\n +NO_ANSWER\n.*\n +set the clock that is wrong; if both are right, renew/,
      );
    expect(await whyAt(0)).to.match(/^disk-registry is served\nno problem is known/);
  });

  it("watch exits with 0 when it is interrupted", async () => {
    const stop = new AbortController();
    const out = new PassThrough().once("data", () => stop.abort());
    const err = new PassThrough();
    const surroundings = {
      out,
      err,
      environment: mesh.commandEnvironment,
      workingFolder: mesh.folder,
      signal: stop.signal,
    };
    expect(await runCommandLine(["watch", "hosts"], surroundings)).to.equal(0);
    expect(err.read()).to.equal(null);
  });

  it("status shows each process, and a service without a serving process by its exit code", async () => {
    const dispatcher = mesh.address("cpi-dispatcher");
    const environment = { ...mesh.commandEnvironment, DISKMESH_DISPATCHER: `127.0.0.1:1,${dispatcher}` };
    const status = (...args: string[]) => typeCommand(["status", ...args], environment, mesh.folder);
    const one = await status();
    expect(one.out).to.match(/^cpi-dispatcher +127\.0\.0\.1:1 +does not answer/m);
    expect(one.out).to.match(new RegExp(`^cpi-dispatcher +${dispatcher} +serves$`, "m"));
    expect(one.code).to.equal(0);
    // With --wait each of these troubles counts.
    expect(await status("--wait", "1")).to.include({ code: 3 });
    await mesh.process("cpi-dispatcher").kill();
    expect(await typed("status")).to.include({ code: 3 });
    const waited = done("status --wait 120");
    await mesh.process("cpi-dispatcher").start();
    expect(await waited).to.match(new RegExp(`^cpi-dispatcher +${dispatcher} +serves$`, "m"));
  });
});
