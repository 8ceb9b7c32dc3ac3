import { HostState } from "@diskmesh/api/registry";
import { DriverProcess, failureOf } from "@diskmesh/csi-driver/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { CAPABILITY } from "./csi/node-order.js";
import { wholeFleet } from "./mesh/fleets.js";
import { addHosts, deployInstances, devicesReady, openDisk } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";

const ROUNDS = Number(process.env.ROUNDS ?? 3);
const VOLUMES = 3;
/** Parameters of volumes that a silent node loses. */
const FENCED = {
  "by-disk-type": { diskType: "fenced" },
  "by-parameter": { diskType: "default", onHostSilence: "fence" },
} as const;
const CLOUD_CONFIG = `azs:
- name: z1
disk_types:
- name: default
  disk_size: 1
- name: fenced
  disk_size: 1
  cloud_properties: { on_host_silence: fence }
`;
const BLOCK = 4_096;
/** Longer than the test may take: a detach that waits for the stopped agent fails the test. */
const NEVER_MS = 3_600_000;
const SIDE_CAR_DEADLINE_MS = 15_000;

/** The volumes' devices are on host-3, which goes on: `ROUNDS=10 npm test -- failover`. */
describe("the volumes of a node that stands still", () => {
  let mesh: TestMesh;
  let driver: DriverProcess;
  let nodeOf: ReadonlyMap<string, string>;
  const volumeIds: string[] = [];
  const fencedIds: string[] = [];
  /** Host of the node to which the volumes are attached. */
  let holder = "host-1";

  before(async () => {
    mesh = await TestMesh.start(
      wholeFleet({
        hosts: 3,
        devicesPerHost: VOLUMES + Object.keys(FENCED).length,
        deviceSizeBytes: MIB_BYTES,
        overrides: { director: { tuning: { agents: { detachTimeoutMs: NEVER_MS, detachGraceMs: NEVER_MS } } } },
      }),
    );
    await addHosts(mesh);
    await devicesReady(mesh);
    const nodeIds = await deployInstances(mesh);
    nodeOf = new Map(mesh.hostIds.map((hostId, index) => [hostId, nodeIds[index] ?? ""]));
    const director = { address: mesh.addresses("director") };
    const controller = { director, tls: mesh.certificates.files("csi"), deployment: "work", azs: ["z1"] };
    driver = await DriverProcess.start({ controller }, "controller");
    await mesh.clients.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
    const cordoned = { hostIds: ["host-1", "host-2"], reason: "devices belong on host-3" };
    await mesh.clients.registry.setHostState({ ...cordoned, state: HostState.CORDONED });
    for (let index = 0; index < VOLUMES; index++) volumeIds.push(await create(`pvc-${index}`));
    for (const [name, parameters] of Object.entries(FENCED)) fencedIds.push(await create(`pvc-${name}`, parameters));
    await mesh.clients.registry.setHostState({ ...cordoned, state: HostState.ONLINE });
    await Promise.all(volumeIds.map((volumeId) => attachAndWrite("host-1", volumeId)));
  });
  after(async () => {
    await driver?.[Symbol.asyncDispose]();
    await mesh?.[Symbol.asyncDispose]();
  });

  async function create(name: string, parameters: Record<string, string> = { diskType: "default" }): Promise<string> {
    const size = { requiredBytes: MIB_BYTES, limitBytes: 0 };
    const request = { name, volumeCapabilities: [CAPABILITY], capacityRange: size, parameters };
    return (await driver.clients.controller.createVolume(request)).volume?.volumeId ?? "";
  }

  async function attachAndWrite(hostId: string, volumeId: string): Promise<void> {
    const request = { volumeId, nodeId: nodeOf.get(hostId) ?? "", volumeCapability: CAPABILITY };
    const { publishContext } = await driver.clients.controller.controllerPublishVolume(request);
    const client = await openDisk(mesh, hostId, publishContext.diskCid ?? "");
    await client.write(0, Buffer.alloc(BLOCK, hostId), { fua: true });
    await client.disconnect();
  }

  const detachFrom = (hostId: string, volumeId: string, deadlineMs = 60_000) =>
    driver.clients.controller.controllerUnpublishVolume({ volumeId, nodeId: nodeOf.get(hostId) ?? "" }, { deadlineMs });

  const otherHost = () => (holder === "host-1" ? "host-2" : "host-1");

  const isOnline = async (hostId: string) => {
    const { host } = await mesh.clients.registry.getHost({ hostId });
    expect(host).to.include({ state: HostState.ONLINE, trouble: undefined });
  };

  for (let round = 1; round <= ROUNDS; round++)
    it(`are written on another node while the first one still stands, round ${round}`, async () => {
      const from = holder;
      const to = otherHost();
      await eventually(() => isOnline(to));
      const startedMs = performance.now();
      mesh.process(from).signal("SIGSTOP");
      try {
        await mesh.clients.registry.fenceHost({ hostId: from, reason: "it stands still" });
        await Promise.all(
          volumeIds.map(async (volumeId) => {
            await detachFrom(from, volumeId);
            await attachAndWrite(to, volumeId);
          }),
        );
        holder = to;
        const tookMs = Math.round(performance.now() - startedMs);
        console.log(`      ${VOLUMES} volumes were written elsewhere ${tookMs} ms after SIGSTOP`);
      } finally {
        mesh.process(from).signal("SIGCONT");
      }
    });

  it("with on_host_silence fence, by disk type or parameter -> are written elsewhere, and nobody has fenced the node", async () => {
    const from = otherHost();
    const fencedBy = async (diskName: string) => {
      const { diskCid = "" } = (await mesh.clients.disks.getDynamicDisk({ diskName })).disk ?? {};
      return (await mesh.clients.registry.getDisk({ diskId: diskCid })).disk?.fence?.by;
    };
    await eventually(() => isOnline(from));
    await Promise.all(fencedIds.map((volumeId) => attachAndWrite(from, volumeId)));
    mesh.process(from).signal("SIGSTOP");
    try {
      await eventually(async () => {
        expect(await Promise.all(fencedIds.map(fencedBy))).to.deep.equal(fencedIds.map(() => "disk-registry"));
      });
      await Promise.all(
        fencedIds.map(async (volumeId) => {
          await detachFrom(from, volumeId);
          await attachAndWrite(holder, volumeId);
        }),
      );
    } finally {
      mesh.process(from).signal("SIGCONT");
    }
  });

  it("with another policy than requested before, or with an unknown one -> refused", async () => {
    const existing = create("pvc-by-parameter", { diskType: "default" });
    expect(await failureOf(existing)).to.match(/^ALREADY_EXISTS: .*onHostSilence "fence"/);
    const unknown = create("pvc-new", { diskType: "default", onHostSilence: "stonith" });
    expect(await failureOf(unknown)).to.match(/^INVALID_ARGUMENT: .*give keep or fence/);
  });

  it("a detach for which a device's host is missing -> ABORTED with the registry's words, before the side-car's deadline", async function () {
    leaveToVerify(this);
    // An agent that is marked DEAD and runs closes the device, which ends the wait.
    mesh.process("host-3").signal("SIGSTOP");
    await mesh.clients.registry.setHostState({ hostIds: ["host-3"], state: HostState.DEAD, reason: "no power" });
    const failure = await failureOf(detachFrom(holder, volumeIds[0] ?? "", SIDE_CAR_DEADLINE_MS));
    expect(failure)
      .to.match(/^ABORTED: ControllerUnpublishVolume of volume \S+ has been running for \d+ s: disk /)
      .and.to.contain(`is being unpublished from host ${holder}`)
      .and.to.contain("host host-3 was marked DEAD by operator: no power");
    mesh.process("host-3").signal("SIGCONT");
  });
});
