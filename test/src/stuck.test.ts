import type { Cure } from "@diskmesh/api/common";
import { MIB_BYTES } from "@diskmesh/domain";
import { OWN_USER } from "@diskmesh/driver/testing";
import { eventually, leaveToVerify, skipBecause, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { devicesReady } from "./mesh/steps.js";
import { FAULT_ALERTS, type Fault } from "./metrics/fault-alerts.js";
import { DISPATCHER_SITUATIONS } from "./stuck/dispatcher-situations.js";
import { OPERATOR_SITUATIONS } from "./stuck/operator-situations.js";
import type { Stuck } from "./stuck/situation.js";
import { SITUATIONS } from "./stuck/situations.js";
import { StuckFleet } from "./stuck/stuck-fleet.js";

/**
 * An operator who does not know the system follows only its advice. The situations in which operators needed
 * help before `why` named their causes, each with its test (the title of a situation here, or another file):
 *
 * | situation | test |
 * |---|---|
 * | disk type misspelt | disk type misspelt |
 * | device replaced by a bigger one, a disk on it | device replaced by a bigger one |
 * | device file immutable | device file that the agent may not open |
 * | registry to agent dropped | registry that cannot reach an agent |
 * | two agents of one host id | two agents of one host id |
 * | wrong `az` in an agent's config | wrong az in the config of an agent |
 * | agent's folder full | agent's folder full |
 * | agent hangs | agent that hangs, asked of its VM; dead agent |
 * | certificate revoked | certificate revoked |
 * | operator's clock 400 days ahead, 2 days behind | cli.test.ts: names both times and the wrong clock |
 * | NATS refuses the agent's user or its subscription | NATS refuses an agent's user; the subscription |
 * | dispatcher hangs | dispatcher that hangs |
 * | MongoDB hangs | stuck-leaders.test.ts: names the dead database |
 * | 12 provides behind one that hangs | tasks.test.ts of the director: 12 tasks behind one that hangs |
 * | director restored with a task under way | restore.test.ts of the director: resumes no task by itself |
 * | host to be removed that serves a disk and is a VM | host to be removed that serves a disk |
 * | dispatcher with a wrong address of the registry | dispatcher with a wrong address of the registry |
 * | director hangs, asked of a disk by its name | the director hangs |
 * | services killed three times | services are killed three times |
 * | device file truncated | explain-label.test.ts: its drive is shorter than it was |
 */
describe("stuck things on a mesh", () => {
  let mesh: StuckFleet;

  before(async function () {
    leaveToVerify(this);
    skipWithout(this, "promtool");
    mesh = await StuckFleet.start();
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  const textOf = ({ what, command }: Cure): string => (command === "" ? what : `${what}: ${command}`);

  /** Expects that command and page show the same, and that the first line summarises the cause. Returns the cure. */
  async function isTold({ asked: [kind, name], root, reasons, row, cure, refused }: Stuck): Promise<Cure> {
    return eventually(async () => {
      const [first] = (await mesh.done(`why ${kind} ${name}`)).split("\n");
      if (!root.test(first ?? "")) throw new Error(`the first line is not ${root}: ${first}`);
      const { causes } = await mesh.why(kind, name);
      expect(causes.map(({ reason }) => reason)).to.include.members([...reasons]);
      for (const { reason, startTime } of causes.filter((cause) => reasons.includes(cause.reason)))
        if (startTime !== undefined)
          expect(Date.now() - Date.parse(String(startTime)), reason).to.be.within(-5_000, 300_000);
      const onPage = await mesh.pageWhy(kind, name);
      expect(onPage.causes.map(({ reason }) => reason)).to.include.members([...reasons]);
      expect(String(mesh.pageRow(row[0])?.trouble), row[0]).to.match(row[1]);
      const cures = causes.flatMap((cause) => cause.cures);
      if (refused !== undefined) expect(cures.map(textOf).join("; ")).not.to.match(refused);
      expect(await attention(), "what needs attention").to.include(row[0].replace(/^source /, "service "));
      const found = cures.find((each) => cure.test(textOf(each)));
      if (found === undefined) throw new Error(`no cure ${cure} among: ${cures.map(textOf).join("; ")}`);
      expect(onPage.causes.flatMap((cause) => cause.cures)).to.deep.include(found);
      return found;
    });
  }

  /** Returns the objects that `why` alone lists, as keys of the page's rows. */
  async function attention(): Promise<string[]> {
    const { out, code } = await mesh.typed("why --json");
    const listed = JSON.parse(out) as { readonly kind: string; readonly names: readonly string[] }[];
    expect(code).to.equal(listed.length === 0 ? 0 : 1);
    return listed.flatMap(({ kind, names }) => names.map((name) => `${kind} ${name}`));
  }

  async function isWell({ asked: [kind, name], row, cured }: Stuck): Promise<void> {
    const isCured = async () => {
      const { causes } = await mesh.why(kind, name);
      // The other situations kill agents, too.
      const others = causes.filter(({ message }) => !/within 10 min after it had been killed/.test(message));
      expect(others.map(({ reason }) => reason)).to.deep.equal([]);
    };
    await eventually(cured ?? isCured);
    const [key, trouble] = row;
    // A failed task is shown for a while.
    if (key.startsWith("task ")) return;
    await eventually(() => expect(String(mesh.pageRow(key)?.trouble)).not.to.match(trouble));
  }

  for (const { title, problem, make } of [...SITUATIONS, ...OPERATOR_SITUATIONS, ...DISPATCHER_SITUATIONS])
    it(`${title}: the command and the page show the cause, its alerts fire, and the shown cure works`, async function () {
      const why = problem?.();
      if (why !== undefined) skipBecause(this, why);
      const expected = Object.hasOwn(FAULT_ALERTS, title) ? FAULT_ALERTS[title as Fault] : undefined;
      const alerts = expected === undefined ? undefined : mesh.alerts();
      await alerts?.fires([], () => mesh.forgetOrphans());
      const stuck = await make(mesh);
      try {
        const { command } = await isTold(stuck);
        await alerts?.fires(expected ?? [], stuck.meanwhile);
        await stuck.first?.();
        if (command !== "") await mesh.done(command);
      } finally {
        // Also after a failure, so that hosts that this situation has stopped run for the others.
        await stuck.follow?.();
      }
      await isWell(stuck);
      await stuck.after?.();
    });

  /** Tests an alert that no situation covers. `made` causes the fault, and returns a function that ends it. */
  function firesOn(fault: Fault, made: () => Promise<() => Promise<unknown>>): void {
    it(`${fault}: its alerts fire`, async () => {
      const alerts = mesh.alerts();
      await alerts.fires([], () => mesh.forgetOrphans());
      const end = await made();
      await alerts.fires(FAULT_ALERTS[fault]);
      await end();
    });
  }

  firesOn("outcome of a CPI's call unknown", async () => {
    const taskId = await mesh.deploy("hangs", "az-hangs");
    await eventually(async () => expect((await mesh.why("task", taskId)).causes[0]?.reason).to.equal("CPI_AT_WORK"));
    await mesh.done(`cancel ${taskId}`);
    return async () => {};
  });

  firesOn("device said to be broken", async () => {
    await mesh.done("set-device-state error host-7-device-1 --reason test");
    return () => mesh.done("set-device-state online host-7-device-1");
  });

  firesOn("fence behind a hung drive", async () => {
    const { drive } = await mesh.withDrive();
    const { registry } = mesh.mesh.clients;
    const user = await mesh.openDiskOnDrive("fenced");
    drive.hang();
    const written = user.write(0, Buffer.alloc(4_096, 1), { fua: true }).catch(() => undefined);
    const unpublished = registry.unpublishDisk({ diskId: "fenced" }).catch(() => undefined);
    return async () => {
      drive.resume();
      await Promise.all([written, unpublished]);
      await eventually(() => registry.unpublishDisk({ diskId: "fenced" }));
      await eventually(() => registry.deleteDisk({ diskId: "fenced" }));
      await mesh.withDrive();
    };
  });

  firesOn("disk that no device can take", async () => {
    // The drive is alone in its pool.
    const { hostId, deviceId } = await mesh.withDrive();
    const user = await mesh.openDiskOnDrive("stays");
    const { registry } = mesh.mesh.clients;
    await mesh.done(`replace-device stays ${deviceId}`);
    return async () => {
      await mesh.done("cancel-move stays");
      await user.disconnect();
      await eventually(() => registry.unpublishDisk({ diskId: "stays" }));
      await eventually(() => registry.deleteDisk({ diskId: "stays" }));
      await devicesReady({ ...mesh.mesh, hostIds: [hostId] });
    };
  });

  firesOn("disk deleted while the host of its device is away", async () => {
    const { registry } = mesh.mesh.clients;
    const agent = mesh.mesh.process("host-6");
    await eventually(() => registry.createDisk({ diskId: "deleted", hostId: "host-6", sizeBytes: MIB_BYTES }));
    await agent.kill();
    await registry.deleteDisk({ diskId: "deleted" });
    return () => agent.start();
  });

  it("the director stands still again and again: its alerts fire", async () => {
    await mesh.alerts().fires([], () => mesh.forgetOrphans());
    const alerts = mesh.alerts("diskmesh-director");
    const expected = FAULT_ALERTS["the director stands still again and again"];
    await alerts.fires(expected, () => mesh.standStill("director"));
  });

  it("a driver of the director that cannot be loaded: status, why, the page and the list of drivers show it", async () => {
    const director = mesh.mesh.process("director");
    const { config } = director;
    await director.restart({ ...config, drivers: [{ package: "/no/such/driver", ...OWN_USER }] });
    const shown = /lacks its drivers: driver \/no\/such\/driver has failed: \S/;
    await eventually(async () => {
      expect(await mesh.done("drivers")).to.match(/FAILED +\/no\/such\/driver +\S/);
      expect((await mesh.typed("status")).out).to.match(new RegExp(`service +director .*${shown.source}`));
      const { causes } = await mesh.why("service", "director");
      expect(causes.map(({ reason }) => reason)).to.deep.equal(["DRIVER_FAILED"]);
      expect(causes[0]?.cures[0]?.what).to.match(/^repair what the message names: the driver's package/);
      expect(String(mesh.pageRow("source director")?.trouble)).to.match(shown);
    });
    await director.restart(config);
    await eventually(async () => expect((await mesh.why("service", "director")).causes).to.deep.equal([]));
  });

  it("the director hangs: why names it, also for a disk whose name only the director knows", async () => {
    const director = mesh.mesh.process("director");
    director.signal("SIGSTOP");
    try {
      const { out, code } = await mesh.typed("why disk waits");
      expect(out).to.match(
        /^disk waits cannot be explained now: none of the processes of director .* no answer within \d/,
      );
      expect(out).to.match(/start it, restart it if it hangs/);
      expect(code).to.equal(3);
      expect((await mesh.typed("why")).out).to.match(/^service +director .*does not answer: .*restart it if it hangs/m);
    } finally {
      director.signal("SIGCONT");
    }
  });

  firesOn("host that is added while its agent is away", async () => {
    const agent = mesh.mesh.process("host-5");
    await mesh.done("remove-device host-5 host-5-device-1 --wait");
    await agent.kill();
    await mesh.typed("add-device host-5 host-5-device-1");
    return () => agent.start();
  });

  // The last test, because these warnings last for ten minutes.
  it("services are killed three times: why names each", async () => {
    for (const name of ["director", "cpi-dispatcher", "disk-registry"])
      for (let kills = 0; kills < 3; kills++) {
        await mesh.mesh.process(name).kill();
        await mesh.mesh.process(name).start();
      }
    await eventually(async () => {
      const { out } = await mesh.typed("why");
      const ended = "was started \\d+ times within 10 min after it had been killed";
      expect(out).to.match(new RegExp(`^service +director .*${ended}`, "m"));
      expect(out).to.match(new RegExp(`^service +disk-registry .*${ended}`, "m"));
      expect(out).to.match(/^service +director .*the cpi-dispatcher at \S+ warns of abrupt_ends/m);
      expect(await mesh.done("why service cpi-dispatcher")).to.match(
        /abrupt_ends: .*\n +read the last line of its former log/,
      );
    });
  });
});
