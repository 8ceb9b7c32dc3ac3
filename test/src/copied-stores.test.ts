import { execFile } from "node:child_process";
import { cpSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import {
  type Device,
  DiskRegistryServiceDefinition,
  FleetServiceDefinition,
  UnknownDiskVerdict,
} from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import type { Client } from "@diskmesh/rpc";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import type { ProcessPlan } from "./mesh/plan.js";
import { backUpRegistry } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { repositoryFolder } from "./repository-folder.js";

const SIZE = 16 * 4096;
const HOSTS = ["host-1", "host-2"];
const [FIRST, SECOND] = ["disk-registry-1", "disk-registry-2"] as const;
const AHEAD = 2 ** 20;

/** An operator copies a registry's folder instead of backing it up, while the agents stay up. */
describe("a registry's store that was copied, and agents that stay up", () => {
  let mesh: TestMesh;
  let operator: Client<typeof DiskRegistryServiceDefinition>;
  let fleet: Client<typeof FleetServiceDefinition>;

  before(function () {
    leaveToVerify(this);
  });
  beforeEach(async () => {
    mesh = await TestMesh.start({
      processes: [
        registry(FIRST),
        ...HOSTS.map(
          (name): ProcessPlan => ({
            service: "disk-agent",
            name,
            devices: { count: 2, sizeBytes: SIZE },
            registries: [FIRST],
          }),
        ),
      ],
      listeners: [SECOND],
    });
    [operator, fleet] = clients(FIRST);
    for (const hostId of HOSTS) await eventually(() => operator.addHost({ hostId }));
    await eventually(allReady);
  });
  afterEach(() => mesh?.[Symbol.asyncDispose]());

  it("copied back: a forgotten disk keeps its bytes and its device until an operator decides", async () => {
    const folder = join(mesh.dataFolder(FIRST), "registry");
    const process = mesh.process(FIRST);
    await process.stop();
    cpSync(folder, `${folder}-before`, { recursive: true });
    await process.start();
    // On a busy machine heartbeats are late, and nothing is placed on suspected hosts until they arrive.
    const forgotten = await nbdOf(await eventually(() => published(operator, "forgotten")));
    const data = Buffer.alloc(SIZE, "forgotten");
    await forgotten.write(0, data, { fua: true });

    await process.stop();
    rmSync(folder, { recursive: true });
    cpSync(`${folder}-before`, folder, { recursive: true });
    await process.start();
    // Called at once, before an agent has reported its numbers: the copied registry still takes both devices for free.
    const both = ["y", "z"];
    const outcomes = await eventually(async () => {
      const tried = await Promise.allSettled(both.map((diskId) => published(operator, diskId)));
      expect(tried.map(({ status }) => status)).to.include("fulfilled");
      return tried;
    });
    expect(outcomes.map(({ status }) => status)).to.have.members(["fulfilled", "rejected"]);
    const { tabletGeneration, unknownDiskDevices } = await fleet.getFleet({});
    expect([tabletGeneration > AHEAD, unknownDiskDevices]).to.deep.equal([true, 1]);
    const held = (await devices()).find(({ heldByUnknownDisk }) => heldByUnknownDisk);
    expect(held?.unknownSession?.diskId).to.equal("forgotten");
    const given = both[outcomes.findIndex(({ status }) => status === "fulfilled")] ?? "";
    // Empty when the agent reported its numbers before a disk was created there.
    const other = held?.diskId ?? "";
    const disk = await nbdOf(await publish(operator, given));
    expect((await disk.read(0, SIZE)).equals(Buffer.alloc(SIZE)), "the new disk reads zeros").to.equal(true);
    await disk.write(0, Buffer.alloc(SIZE, given), { fua: true });
    expect((await forgotten.read(0, SIZE)).equals(data), "the forgotten disk's bytes").to.equal(true);
    await forgotten.write(0, data, { fua: true });

    const decide = (verdict: UnknownDiskVerdict) =>
      fleet.decideUnknownDisks({ verdict, deviceIds: [held?.deviceId ?? ""] });
    expect((await decide(UnknownDiskVerdict.AGENT)).diskIds).to.deep.equal(other === "" ? [] : [other]);
    if (other !== "") expect((await operator.getDisk({ diskId: other })).disk?.healthMessage).to.contain("was purged");
    expect((await forgotten.read(0, SIZE)).equals(data)).to.equal(true);
    await decide(UnknownDiskVerdict.REGISTRY);
    await eventually(async () => {
      expect(await deviceOf(held?.deviceId)).to.deep.include({ dirty: false, heldByUnknownDisk: false });
    });
    const failed = await forgotten.read(0, SIZE).then(
      () => "it was read",
      (error: Error) => error.constructor.name,
    );
    expect(failed, "what was erased is no more the forgotten disk's").not.to.equal("it was read");
  });

  it("restored elsewhere while the original runs: the original stops once an agent has changed over, and no agent obeys both", async () => {
    const backup = join(mesh.folder, "registry.backup");
    await backUpRegistry(mesh, backup);
    const config = join(mesh.folder, "restore.json");
    writeFileSync(config, JSON.stringify(mesh.configOf(registry(SECOND))));
    await run("services/disk-registry/dist/restore.js", ["--config", config, "--from", backup]);
    await mesh.add(registry(SECOND));
    const [operator2, fleet2] = clients(SECOND);

    // No agent has registered with the second registry yet. It gives no orders, places nothing, and says when to retry.
    await rejection(operator2.createDisk(aDisk("early")), UnavailableError, "does not fit");
    await move("host-2", SECOND);
    await eventually(async () => expect((await devices(operator2)).filter(isReady)).to.have.length(4));
    expect((await fleet.getFleet({})).standsStill, "nobody has told it").to.equal("");

    const remove = { hostId: "host-2", deviceId: "host-2-device-1", keepData: true };
    await operator.removeDevice(remove);
    await eventually(async () => {
      expect((await fleet.getFleet({})).standsStill).to.contain(
        "another registry leads this fleet: the agent of host host-2",
      );
    });
    await rejection(operator.removeDevice(remove), InvalidStateError, "another registry leads this fleet");
    await rejection(operator.createDisk(aDisk("lost")), InvalidStateError, "another registry leads this fleet");
    const agent = mesh.agentClient("host-2");
    const listed = (await agent.listDevices({})).devices.find(({ deviceId }) => deviceId === "host-2-device-1");
    expect(listed?.attached, "what the original ordered was not done").to.equal(true);
    expect((await fleet2.getFleet({})).standsStill).to.equal("");

    await move("host-1", SECOND);
    await eventually(() => operator2.createDisk(aDisk("moved")));
    const disk = await nbdOf(await publish(operator2, "moved"));
    await disk.write(0, Buffer.alloc(SIZE, 1), { fua: true });
    await disk.disconnect();
  });

  function registry(name: string): ProcessPlan {
    const config = {
      // Long timeout, so that no host becomes UNAVAILABLE during the test.
      heartbeat: { intervalMs: 500, timeoutMs: 60_000, probationMs: 500 },
    };
    return { name, service: "disk-registry", config };
  }

  /** Makes an agent use the given registry. */
  async function move(hostId: string, to: string): Promise<void> {
    const agent = mesh.process(hostId);
    await agent.restart({ ...agent.config, registry: { address: mesh.address(to) } });
  }

  function clients(name: string) {
    const limits = { names: [name], defaultDeadlineMs: 20_000 };
    return [
      mesh.client(DiskRegistryServiceDefinition, "disk-registry", limits),
      mesh.client(FleetServiceDefinition, "disk-registry", limits),
    ] as const;
  }

  async function published(of: typeof operator, diskId: string): Promise<string> {
    await of.createDisk(aDisk(diskId));
    return publish(of, diskId);
  }

  /** Publishes a disk, and returns the path of its socket. */
  async function publish(of: typeof operator, diskId: string): Promise<string> {
    const { disk } = await of.publishDisk({ diskId, hostId: "host-1" });
    return disk?.publication?.exportPath ?? "";
  }

  async function nbdOf(socketPath: string): Promise<NbdClient> {
    const client = await NbdClient.connect({ socketPath });
    mesh.closeLater({ close: () => client.disconnect().catch(() => {}) });
    return client;
  }

  async function devices(of = operator): Promise<readonly Device[]> {
    return (await of.listDevices({})).devices;
  }

  const deviceOf = async (deviceId = "") => (await operator.getDevice({ deviceId })).device;

  async function allReady(): Promise<void> {
    expect((await devices()).filter(isReady)).to.have.length(4);
  }
});

function isReady({ attachState, dirty }: Device): boolean {
  return attachState === "ATTACH_STATE_ATTACHED" && !dirty;
}

function aDisk(diskId: string) {
  return { diskId, sizeBytes: SIZE, az: "", hostId: "host-1", pool: "", spreadRacks: false, labels: [] };
}

const run = (file: string, args: readonly string[]) =>
  promisify(execFile)(process.execPath, [join(repositoryFolder, file), ...args]);
