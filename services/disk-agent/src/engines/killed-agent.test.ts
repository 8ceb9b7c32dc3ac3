import { execFileSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { ExportKind } from "@diskmesh/api/registry";
import { eventually, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { endLeftBlockDevices } from "../commands/end-sessions.js";
import { AgentScene, DEVICE_BYTES, DONE } from "../testing/agent-scene.js";
import type { AgentOrders } from "../testing/test-registry.js";
import { whyNoBlockDevices } from "./block-devices.js";

/** Places at which an agent dies: a program that it runs, an argument of it, and whether the program has done its work. */
const PLACES = [
  ["nbdfuse", "--unix", "before"],
  ["losetup", "--find", "before"],
  ["losetup", "--find", "after"],
  ["losetup", "--detach", "before"],
  ["umount", "--lazy", "before"],
] as const;

describe("an agent that is killed while it makes or removes a block device", () => {
  const scene = AgentScene.forEachTest();
  const { PATH } = process.env;
  let programs: string;
  let session: number;
  let strandedBefore: readonly string[];

  before(async function () {
    const whyNot = await whyNoBlockDevices();
    if (whyNot !== undefined) skipBecause(this, whyNot);
  });

  beforeEach(async () => {
    programs = temporaryFolder();
    session = 0;
    strandedBefore = strandedLoops();
    process.env.PATH = `${programs}:${PATH}`;
    // The kernel names files by their real path.
    mkdirSync(scene.path("real"));
    symlinkSync("real", scene.path("base"));
    await scene.start();
  });

  afterEach(async () => {
    process.env.PATH = PATH;
    await scene.agent.process.kill();
    await endLeftBlockDevices(scene.agent.baseFolder);
  });

  /** Kills the agent when it runs the program with the argument for the first time from now on. */
  const killAt = (program: string, argument: string, when: "before" | "after") => {
    const real = execFileSync("sh", ["-c", `PATH='${PATH}' command -v ${program}`], { encoding: "utf8" }).trim();
    const due = join(programs, "due");
    writeFileSync(due, "");
    const kill = `case "$*" in *${argument}*) [ -e '${due}' ] && rm '${due}' && kill -9 $PPID;; esac`;
    const lines = when === "before" ? [kill, `exec ${real} "$@"`] : [`${real} "$@"`, kill];
    writeFileSync(join(programs, program), ["#!/bin/sh", ...lines, ""].join("\n"));
    chmodSync(join(programs, program), 0o700);
  };

  const publish = (orders: AgentOrders) => {
    session += 1;
    const extents = [{ deviceId: "dev-a", hostId: "host-1", sizeBytes: DEVICE_BYTES }];
    return orders.exportAtOnce("disk-1", session, extents, ExportKind.DEVICE);
  };
  const unpublish = (orders: AgentOrders) => {
    session += 1;
    return orders.unexport("disk-1", session, { openDeviceIds: ["dev-a"] });
  };

  const leftovers = (): string[] => {
    const baseFolder = realpathSync(scene.agent.baseFolder);
    const loops = readdirSync("/sys/block").map((name) => join("/sys/block", name, "loop/backing_file"));
    const mounts = read("/proc/mounts").split("\n");
    return [
      ...loops.filter((file) => read(file).includes(baseFolder)),
      ...strandedLoops().filter((device) => !strandedBefore.includes(device)),
      ...mounts.filter((line) => line.includes(baseFolder)),
      ...processesIn(baseFolder),
      // A socket without its server is removed by the next start.
      ...readdirSync(join(baseFolder, "exports")).filter((name) => !name.endsWith(".sock")),
    ];
  };

  for (const [program, argument, when] of PLACES)
    it(`leaves nothing ${when} ${program} ${argument}`, async () => {
      for (const isStartedAgain of [true, false]) {
        const registrations = scene.registry.registrations.length;
        const isPublished = argument !== "--unix" && argument !== "--find";
        const orders = await scene.orders();
        if (isPublished) expect((await publish(orders)).outcomes.map(({ outcome }) => outcome)).to.deep.equal([DONE]);
        killAt(program, argument, when);
        const ordered = (isPublished ? unpublish : publish)(orders).catch(() => undefined);
        await eventually(() => scene.agent.process.exit !== undefined);
        orders.client.close();
        await ordered;
        if (isStartedAgain) {
          await scene.agent.process.start();
          await unpublish(await scene.orders(registrations));
        } else await endLeftBlockDevices(scene.agent.baseFolder);
        await eventually(() => expect(leftovers()).to.deep.equal([]));
      }
    });
});

/** Returns the loop devices of files whose mount has ended. */
function strandedLoops(): string[] {
  return readdirSync("/sys/block").filter((name) => read(`/sys/block/${name}/loop/backing_file`).trim() === "/");
}

/** Returns the command lines of processes that work in the folder. */
function processesIn(folder: string): string[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => workingFolder(pid).startsWith(folder)).map((pid) => read(`/proc/${pid}/cmdline`));
}

function workingFolder(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return "";
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
