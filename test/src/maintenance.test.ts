import { randomUUID } from "node:crypto";
import { OnHostSilence } from "@diskmesh/api/registry";
import { MIB_BYTES } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { wholeFleet } from "./mesh/fleets.js";
import { addHosts, devicesReady } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { ended } from "./mesh/typed-lines.js";

const SILENCE_MS = 1_500;
const DEVICE_BYTES = 8 * MIB_BYTES;
const DISK_BYTES = 2 * MIB_BYTES;
/** More disks than the fleet has room for. */
const MANY = 30;

/** Announces work on hosts, and keeps room to empty them, while their agents and the registry are killed. */
describe("work on hosts, by the diskmesh command", () => {
  let mesh: TestMesh;

  before(async () => {
    const overrides = {
      "disk-registry": {
        heartbeat: { intervalMs: 200, timeoutMs: SILENCE_MS, probationMs: 0 },
        pools: { default: { keepRepairRoom: true } },
      },
    };
    mesh = await TestMesh.start(wholeFleet({ hosts: 5, devicesPerHost: 1, deviceSizeBytes: DEVICE_BYTES, overrides }));
    await addHosts(mesh);
    await devicesReady(mesh);
    const { registry } = mesh.clients;
    // On a busy machine a host may be silent for longer than the timeout.
    await eventually(async () => {
      await registry.createDisk({ diskId: "served", sizeBytes: MIB_BYTES, hostId: "host-1" });
      await registry.publishDisk({ diskId: "served", hostId: "host-1", onHostSilence: OnHostSilence.FENCE });
    });
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  const done = (line: string) => ended(mesh, line, 0);
  const restartRegistry = async () => {
    await mesh.process("disk-registry").kill();
    await mesh.process("disk-registry").start();
    await eventually(() => done("hosts"));
  };
  const stateOf = async (hostId = "host-1") =>
    (await done("hosts")).split("\n").find((line) => line.startsWith(`${hostId} `)) ?? "";
  const fenceOf = async () => (await mesh.clients.registry.getDisk({ diskId: "served" })).disk?.fence;

  it("bad input: an unknown host, no time, too long a time", async () => {
    expect(await ended(mesh, "maintenance host-9 --for 30m", 1)).to.contain("host-9");
    expect(await ended(mesh, "maintenance host-1 --for soon", 2)).to.contain("soon");
    expect(await ended(mesh, "maintenance host-1 --for 8d", 1)).to.contain("give from 1 s to 7 days");
    expect(await done("hosts --state-is maintenance")).not.to.contain("host-1");
  });

  it("its silence fences nothing, also after a kill of the registry; later silence does", async () => {
    await done("maintenance host-1 --for 30m");
    await mesh.process("host-1").kill();
    await restartRegistry();
    await mesh.process("host-2").kill();
    await eventually(async () => expect(await stateOf("host-2")).to.contain("UNAVAILABLE"));
    expect(await stateOf()).to.contain("in maintenance until");
    expect(await fenceOf()).to.equal(undefined);

    await mesh.process("host-1").start();
    await eventually(async () =>
      expect(await stateOf())
        .to.contain("ONLINE")
        .and.not.contain("maintenance"),
    );
    expect(await fenceOf()).to.equal(undefined);
    await mesh.process("host-1").kill();
    await eventually(async () => expect((await fenceOf())?.hostId).to.equal("host-1"));
    await mesh.process("host-1").start();
    await eventually(async () => expect(await stateOf()).to.contain("ONLINE"));
  });

  it("a pool keeps the room to empty a host, also after a kill of the registry", async () => {
    // A host that is silent on a busy machine, or after the restart, is another reason.
    const refused = () =>
      eventually(async () => expect((await rejection(fill(), Error)).message).to.contain("keepRepairRoom"));
    await refused();
    const { disks } = await mesh.clients.registry.listDisks({});
    await restartRegistry();
    await refused();
    expect((await mesh.clients.registry.listDisks({})).disks).to.have.lengthOf(disks.length);
  });

  /** Makes disks until one is refused. */
  async function fill(): Promise<void> {
    for (let made = 0; made < MANY; made++)
      await mesh.clients.registry.createDisk({ diskId: `disk-${randomUUID()}`, sizeBytes: DISK_BYTES, az: "z1" });
  }
});
