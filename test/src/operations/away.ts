import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { repositoryFolder } from "../repository-folder.js";
import { type AwayScene, BLOCK_BYTES, CONTROLS, HOSTS, PATIENCE } from "./away-scene.js";
import type { MachineName } from "./documented-mesh.js";
import type { Unit } from "./unit.js";

const NATS = ["control-1", "control-2", "control-3"] as const;

/** A test in another file. */
interface Proof {
  readonly file: string;
  readonly title: string;
}

/**
 * Proof of each row, by the document's name of the part that is away. A function returns the reason when the row cannot
 * be tested here.
 */
export const AWAY: Readonly<Record<string, Proof | ((scene: AwayScene) => Promise<string | undefined>)>> = {
  "one NATS server": (scene) => without(scene, [scene.unit("control-1", "nats")], () => scene.changesAreMade()),

  "all NATS servers": (scene) => {
    const servers = NATS.map((machine) => scene.unit(machine, "nats"));
    return without(scene, servers, async (end) => {
      await scene.directorLacks("nats");
      await scene.done("diskmesh hosts");
      await scene.done("diskmesh add-host host-1");
      await scene.taskWaits(end);
    });
  },

  "the database": async (scene) => {
    if (scene.database === undefined) return "it is not this test's own";
    await scene.database.kill();
    await scene.areRefused(["diskmesh hosts", "diskmesh tasks", "diskmesh add-host host-1"]);
    await scene.ioGoesOn();
    await scene.database.start();
    await scene.allServe();
    await scene.ioGoesOn();
    await scene.changesAreMade();
    return undefined;
  },

  "the leading registry": async (scene) => {
    const { leader, standby } = await scene.leader("disk-registry");
    return without(scene, [scene.unit(leader, "disk-registry")], async () => {
      await scene.changesAreMade();
      expect(await scene.leader("disk-registry")).to.include({ leader: standby });
    });
  },

  "the standby registry": (scene) => withoutStandby(scene, "disk-registry"),

  "both registries": (scene) =>
    without(scene, both(scene, "disk-registry"), async (end) => {
      await scene.areRefused(["diskmesh hosts"]);
      await scene.done("diskmesh tasks");
      await scene.taskWaits(end);
    }),

  "the leading director": async (scene) => {
    const { leader } = await scene.leader("director");
    return without(scene, [scene.unit(leader, "director")], async () => {
      await scene.done("diskmesh hosts");
      await scene.changesAreMade();
    });
  },

  "the standby director": (scene) => withoutStandby(scene, "director"),

  "both directors": (scene) =>
    without(scene, both(scene, "director"), async () => {
      await scene.done("diskmesh hosts");
      await scene.done("diskmesh add-host host-1");
      await scene.areRefused(["diskmesh tasks"]);
    }),

  "one dispatcher": (scene) =>
    without(scene, [scene.unit("control-1", "cpi-dispatcher")], () => scene.changesAreMade()),

  "both dispatchers": (scene) =>
    without(scene, both(scene, "cpi-dispatcher"), async (end) => {
      await scene.directorLacks("dispatcher");
      await scene.done("diskmesh hosts");
      await scene.taskWaits(end);
    }),

  "an agent": async (scene) => {
    const { serving } = await scene.disk();
    await scene.stopIo();
    const written = await scene.nbd.read(0, BLOCK_BYTES);
    return agentAway(scene, serving, async () => {
      await scene.openDisk((found) => expect(found.equals(written), "what was there").to.equal(true));
    });
  },

  "a host": async (scene) => {
    const { serving, holding } = await scene.disk();
    const other = HOSTS.find((host) => host !== serving && host !== holding);
    if (other === undefined) throw new Error("every host has to do with the disk");
    return agentAway(scene, other, () => scene.ioGoesOn());
  },

  "the OTLP receiver": {
    file: "packages/service/src/telemetry/metrics-export.test.ts",
    title: "log once that their receiver is unreachable, and once that it is back",
  },

  "a certificate's file (damaged)": async (scene) => {
    const { leader } = await scene.leader("disk-registry");
    const unit = scene.unit(leader, "disk-registry");
    const file = scene.file(leader, "etc/diskmesh/disk-registry.pem");
    const whole = readFileSync(file);
    writeFileSync(file, whole.subarray(0, 100));
    await eventually(() => expect(unit.logs).to.match(/"alert":"tls_files".*disk-registry\.pem/), PATIENCE);
    await scene.changesAreMade();
    await unit.stop();
    const former = unit.logs.length;
    await unit.start();
    await eventually(
      () => expect(unit.logs.slice(former).match(/cannot start: \S+ \S+disk-registry\.pem/g)).to.have.length.above(1),
      PATIENCE,
    );
    await scene.ioGoesOn();
    writeFileSync(file, whole);
    await scene.allServe();
    return undefined;
  },

  "a certificate (expired)": {
    file: "test/src/ended-certificate.test.ts",
    title: "gives up the lead, exits with the name of the expired file, and does not start again",
  },

  "the correct time": async (scene) => {
    const clocks = scene.clocks();
    if (clocks.problem !== undefined) return clocks.problem;
    const { leader, standby } = await scene.leader("disk-registry");
    const [moved, other] = [scene.unit(leader, "disk-registry"), scene.unit(standby, "disk-registry")];
    await moved.stop();
    moved.environment = clocks.environment("disk-registry");
    await moved.start();
    await scene.allServe();
    // Stopping the other process makes this one the leader.
    await other.stop();
    await eventually(async () => expect(await scene.statusOf("disk-registry", leader)).to.match(/^serves/), PATIENCE);
    await other.start();
    await scene.allServe();
    expect((await scene.leader("disk-registry")).leader).to.equal(leader);
    for (const seconds of [6 * 3_600, -45 * 60, 0]) {
      clocks.set("disk-registry", seconds);
      await eventually(() => {
        moved.signal("SIGHUP");
        const [, said = ""] = /"(\d{4}-[^"]*Z)"[^\n]*\n$/.exec(moved.logs) ?? [];
        expect(Date.parse(said), "the clock of the process").to.be.closeTo(Date.now() + seconds * 1_000, 120_000);
      }, PATIENCE);
      await scene.changesAreMade();
      await scene.allServe();
      expect((await scene.leader("disk-registry")).leader).to.equal(leader);
    }
    moved.environment = {};
    return undefined;
  },
};

const both = (scene: AwayScene, service: string): Unit[] => CONTROLS.map((machine) => scene.unit(machine, service));

/** Kills units as a power failure does, and starts them again after `meanwhile`. */
async function without(
  scene: AwayScene,
  units: readonly Unit[],
  meanwhile: (end: () => Promise<void>) => Promise<void>,
): Promise<undefined> {
  await Promise.all(units.map((unit) => unit.kill()));
  const end = async (): Promise<void> => void (await Promise.all(units.map((unit) => unit.start())));
  await scene.ioGoesOn();
  await meanwhile(end);
  await scene.ioGoesOn();
  await end();
  await scene.allServe();
  await scene.changesAreMade();
  await scene.ioGoesOn();
  return undefined;
}

async function withoutStandby(scene: AwayScene, service: string): Promise<undefined> {
  const { leader, standby } = await scene.leader(service);
  return without(scene, [scene.unit(standby, service)], async () => {
    await scene.changesAreMade();
    expect(await scene.statusOf(service, standby)).to.match(/^does not answer/);
    expect((await scene.leader(service)).leader).to.equal(leader);
  });
}

async function agentAway(scene: AwayScene, host: MachineName, afterwards: () => Promise<void>): Promise<undefined> {
  const agent = scene.unit(host, "disk-agent");
  await agent.kill();
  await scene.isUnavailable(host);
  await scene.done("diskmesh hosts");
  await agent.start();
  await scene.allServe();
  await afterwards();
  await scene.ioGoesOn();
  await scene.changesAreMade();
  return undefined;
}

/** Returns the parts in the document's last table, in order. */
export function awayRows(markdown: string): readonly string[] {
  const table = markdown.slice(markdown.lastIndexOf("| away "));
  return table
    .split("\n")
    .slice(2)
    .map((line) => line.split("|")[1]?.trim() ?? "")
    .filter((name) => name !== "");
}

/** Returns whether the test exists. */
export function isThere({ file, title }: Proof): boolean {
  return readFileSync(join(repositoryFolder, file), "utf8").includes(title);
}
