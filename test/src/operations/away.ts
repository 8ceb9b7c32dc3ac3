import { readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import type { DatabaseProcess } from "@diskmesh/tablet/testing";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { Load } from "../mesh/load.js";
import { repositoryFolder } from "../repository-folder.js";
import { Clocks } from "../soak/clocks.js";
import type { DocumentedMesh, MachineName } from "./documented-mesh.js";
import type { Unit } from "./unit.js";

const BLOCK_BYTES = 4_096;
const PATIENCE = { timeoutMs: 180_000, everyMs: 500 };
const NATS = ["control-1", "control-2", "control-3"] as const;
const CONTROLS = ["control-1", "control-2"] as const;
type Control = (typeof CONTROLS)[number];
const HOSTS = ["host-1", "host-2", "host-3"] as const;
/** Exit codes of the command. */
const [DONE, UNAVAILABLE] = [0, 3];

/** A whole mesh in which a disk is written and read all the time, and from which parts are taken. */
export class AwayScene {
  #io: Load | undefined;
  #nbd: NbdClient | undefined;

  constructor(
    private readonly mesh: DocumentedMesh,
    /** Undefined when it is not the test's own. */
    readonly database: DatabaseProcess | undefined,
  ) {}

  /** Gives the first instance a disk, and begins to write and read it. */
  async begin(): Promise<void> {
    await this.done("diskmesh provide kept $INSTANCE --size 1MiB");
    await this.openDisk();
  }

  async stopIo(): Promise<void> {
    await this.#io?.stop();
  }

  async end(): Promise<void> {
    await this.stopIo();
    await this.#nbd?.disconnect().catch(() => {});
  }

  /** Where the disk is served, and on whose drive it lies. */
  async diskHosts(): Promise<{ readonly serving: MachineName; readonly holding: MachineName; readonly cid: string }> {
    const [disk] = JSON.parse(await this.done("diskmesh disks --json")) as {
      diskId: string;
      deviceIds: string[];
      publication: { hostId: string };
    }[];
    const holding = HOSTS.find((host) => disk?.deviceIds[0]?.startsWith(host));
    const serving = HOSTS.find((host) => host === disk?.publication.hostId);
    if (holding === undefined || serving === undefined) throw new Error(`the disk is nowhere: ${JSON.stringify(disk)}`);
    return { serving, holding, cid: disk?.diskId ?? "" };
  }

  /** `look` is shown what the disk begins with. */
  async openDisk(look?: (found: Buffer) => void): Promise<void> {
    const { serving, cid } = await this.diskHosts();
    // Addresses of sockets are short.
    const link = join(temporaryFolder(), "disks");
    symlinkSync(join(this.mesh.machine(serving).folder, "var/lib/diskmesh-disk-agent/data/dynamic_disks"), link);
    const nbd = await eventually(() => NbdClient.connect({ socketPath: join(link, cid) }), PATIENCE);
    this.#nbd = nbd;
    look?.(await nbd.read(0, BLOCK_BYTES));
    this.#io = new Load(async (number) => {
      const bytes = Buffer.alloc(BLOCK_BYTES, `round ${number}`);
      await nbd.write(0, bytes, { fua: true });
      expect((await nbd.read(0, BLOCK_BYTES)).equals(bytes)).to.equal(true);
    });
  }

  get nbd(): NbdClient {
    if (this.#nbd === undefined) throw new Error("no disk is open");
    return this.#nbd;
  }

  async ioGoesOn(): Promise<void> {
    await this.#io?.anotherRound();
    expect(this.#io?.failures).to.deep.equal([]);
  }

  async typed(line: string): Promise<{ readonly code: number; readonly output: string }> {
    const printed = await this.mesh.machine("admin").type(`if ${line}; then echo exit 0; else echo exit $?; fi\n`);
    const [, output = "", code] = /^([\s\S]*)exit (\d+)\n$/.exec(printed) ?? [];
    return { code: Number(code), output };
  }

  async done(line: string): Promise<string> {
    const { code, output } = await this.typed(line);
    if (code !== DONE) throw new Error(`${line} ended with ${code}: ${output}`);
    return output;
  }

  /** All at once, since each waits for its deadline; whoever is still answered asks again. */
  async areRefused(lines: readonly string[]): Promise<void> {
    const asked = lines.map(
      (line) =>
        `(set +e; code=0; while [ $code = 0 ]; do ${line} >/dev/null 2>&1; code=$?; done; echo "$code: ${line}") &\n`,
    );
    const printed = await this.mesh.machine("admin").type(`${asked.join("")}wait\n`);
    expect(printed.trim().split("\n")).to.have.members(lines.map((line) => `${UNAVAILABLE}: ${line}`));
  }

  /** What everybody takes part in: a disk is made, attached, detached and deleted. */
  async changesAreMade(): Promise<void> {
    await eventually(() => this.done("diskmesh provide probe $INSTANCE --size 1MiB"), PATIENCE);
    await eventually(() => this.done("diskmesh detach probe"), PATIENCE);
    await eventually(() => this.done("diskmesh delete-disk probe"), PATIENCE);
  }

  /** A task is taken while it cannot be done; it is done once `end` has brought back what it waits for. */
  async taskWaits(end: () => Promise<void>): Promise<void> {
    const [, task] = /task (\d+)/.exec(await this.done("diskmesh provide probe $INSTANCE --size 1MiB --no-wait")) ?? [];
    const state = async (): Promise<string> => {
      const tasks = JSON.parse(await this.done("diskmesh tasks --recent --json")) as {
        taskId: number;
        state: string;
      }[];
      return tasks.find(({ taskId }) => taskId === Number(task))?.state ?? "";
    };
    expect(await state()).to.match(/QUEUED|PROCESSING/);
    await end();
    await eventually(async () => expect(await state()).to.equal("TASK_STATE_DONE"), PATIENCE);
    await this.changesAreMade();
  }

  clocks(): Clocks {
    return new Clocks(temporaryFolder());
  }

  file(machine: MachineName, path: string): string {
    return join(this.mesh.machine(machine).folder, path);
  }

  unit(machine: MachineName, service: string): Unit {
    return this.mesh.machine(machine).unit(`diskmesh-${service}`);
  }

  async statusOf(service: string, machine: Control): Promise<string> {
    return this.#stateIn((await this.typed("diskmesh status")).output, service, machine);
  }

  #stateIn(status: string, service: string, machine: Control): string {
    const address = `${this.mesh.address(machine)}:`;
    const line = status.split("\n").find((one) => one.startsWith(service) && one.includes(address));
    return line?.replace(/^\S+ +\S+ +/, "") ?? "";
  }

  async leader(service: string): Promise<{ readonly leader: Control; readonly standby: Control }> {
    return eventually(async () => {
      const { output } = await this.typed("diskmesh status");
      for (const leader of CONTROLS)
        if (/^serves/.test(this.#stateIn(output, service, leader)))
          return { leader, standby: leader === "control-1" ? "control-2" : "control-1" };
      throw new Error(`no ${service} leads`);
    }, PATIENCE);
  }

  /** One of the directors says that it is not ready for want of something. */
  async directorLacks(need: string): Promise<void> {
    await eventually(async () => {
      const { output } = await this.typed("diskmesh status");
      expect(output).to.match(new RegExp(`^director .*not serving.*for want of .*${need}`, "m"));
    }, PATIENCE);
  }

  async allServe(): Promise<void> {
    await this.done("diskmesh status --wait 180");
    await eventually(async () => {
      const online = await this.done("diskmesh hosts --state-is online");
      for (const host of HOSTS) expect(online).to.match(new RegExp(`^${host} `, "m"));
    }, PATIENCE);
  }
}

/** A test that there is elsewhere. */
interface Proof {
  readonly file: string;
  readonly title: string;
}

/** By what the document calls what is away. A row that cannot be tried here returns why. */
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

  "the registry that stands by": (scene) => withoutStandby(scene, "disk-registry"),

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

  "the director that stands by": (scene) => withoutStandby(scene, "director"),

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
    const { serving } = await scene.diskHosts();
    await scene.stopIo();
    const written = await scene.nbd.read(0, BLOCK_BYTES);
    return agentAway(scene, serving, async () => {
      await scene.openDisk((found) => expect(found.equals(written), "what was there").to.equal(true));
    });
  },

  "a host": async (scene) => {
    const { serving, holding } = await scene.diskHosts();
    const other = HOSTS.find((host) => host !== serving && host !== holding);
    if (other === undefined) throw new Error("every host has to do with the disk");
    return agentAway(scene, other, () => scene.ioGoesOn());
  },

  "the OTLP receiver": {
    file: "packages/service/src/metrics-export.test.ts",
    title: "say once that their receiver is away, and once that it is there again",
  },

  "a certificate's file, torn": async (scene) => {
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

  "a certificate, ended": {
    file: "test/src/ended-certificate.test.ts",
    title: "while it leads -> it gives up the lead and ends, and says which file has ended",
  },

  "the right time": async (scene) => {
    const clocks = scene.clocks();
    if (clocks.problem !== undefined) return clocks.problem;
    const { leader, standby } = await scene.leader("disk-registry");
    const [moved, other] = [scene.unit(leader, "disk-registry"), scene.unit(standby, "disk-registry")];
    await moved.stop();
    moved.environment = clocks.environment("disk-registry");
    await moved.start();
    await scene.allServe();
    // Which of them leads is nobody's choice: the other one's end makes it this one.
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

/** Takes units away as a loss of power would, and gives them back. */
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
  await eventually(
    async () =>
      expect(await scene.done("diskmesh hosts --state-is unavailable")).to.match(new RegExp(`^${host} `, "m")),
    PATIENCE,
  );
  await scene.done("diskmesh hosts");
  await agent.start();
  await scene.allServe();
  await afterwards();
  await scene.ioGoesOn();
  await scene.changesAreMade();
  return undefined;
}

/** What the document's last table says is away, in its order. */
export function awayRows(markdown: string): readonly string[] {
  const table = markdown.slice(markdown.lastIndexOf("| away "));
  return table
    .split("\n")
    .slice(2)
    .map((line) => line.split("|")[1]?.trim() ?? "")
    .filter((name) => name !== "");
}

/** Whether a test is there. */
export function isThere({ file, title }: Proof): boolean {
  return readFileSync(join(repositoryFolder, file), "utf8").includes(title);
}
