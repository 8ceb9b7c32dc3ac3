import { fileURLToPath } from "node:url";
import { CpiConfig, CpiServiceDefinition } from "@diskmesh/api/cpi";
import { cpiContract, newCall, RemoteCpi } from "@diskmesh/cpi/testing";
import { type Client, createClient } from "@diskmesh/rpc";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestMesh } from "./mesh/test-mesh.js";
import { mbusOf } from "./multi-cpi/configs.js";
import { ReferenceCpi } from "./reference-cpi/install.js";
import { TestRegistry } from "./reference-cpi/test-registry.js";

const image = fileURLToPath(import.meta.url);
const optional = [
  "stemcells",
  "reboot_vm",
  "set_vm_metadata",
  "resize_disk",
  "update_disk",
  "snapshots",
  "calculate_vm_cloud_properties",
] as const;

/** A dispatcher with the reference CPI under the name "reference", and a stemcell. */
class Setup {
  readonly installed: ReferenceCpi;
  readonly config: CpiConfig;
  readonly #director: Client<typeof CpiServiceDefinition>;

  private constructor(
    readonly mesh: TestMesh,
    readonly registry: TestRegistry,
    properties: object,
  ) {
    this.installed = new ReferenceCpi(mesh.folder);
    const { execPath, stateFolder } = this.installed;
    const place = { state_folder: stateFolder, registry: registry.properties };
    this.config = CpiConfig.fromPartial({
      ...{ name: "reference", type: "reference", execPath },
      properties: { ...place, ...properties },
    });
    this.#director = createClient(CpiServiceDefinition, {
      address: mesh.address("cpi-dispatcher"),
      tls: mesh.certificates.files("director"),
      serverRole: "cpi-dispatcher",
      defaultDeadlineMs: 60_000,
    });
    mesh.closeLater(this.#director);
  }

  static async start(properties: object): Promise<Setup> {
    const processes = [{ service: "cpi-dispatcher", config: { log: { level: "warn" } } }] as const;
    return new Setup(
      await TestMesh.start({ processes, nats: true, vmAgents: true }),
      await TestRegistry.start(),
      properties,
    );
  }

  /** Returns the CPI of a new cpi-config, which changes these properties. */
  async cpiWith(cpiConfigVersion: string, properties: object = {}, stemcellApiVersion = 3): Promise<RemoteCpi> {
    const cpis = [{ ...this.config, properties: { ...this.config.properties, ...properties } }];
    const { directorId } = newCall();
    await this.#director.setCpiConfig({ directorId, directorGeneration: 1, cpiConfigVersion, cpis });
    return new RemoteCpi(this.#director, { cpi: "reference", cpiConfigVersion, stemcellApiVersion });
  }

  async close(): Promise<void> {
    await this.installed.stopVms();
    await this.mesh[Symbol.asyncDispose]();
    await this.registry[Symbol.asyncDispose]();
  }
}

const stemcellOf = (cpi: RemoteCpi): Promise<string> =>
  cpi.createStemcell({ imagePath: image, cloudProperties: {}, tags: {} }, newCall());

// Tests below prove the differences of versions 1 and 2.
describe("the reference CPI, speaking version 3", () => {
  before(function () {
    leaveToVerify(this);
  });

  cpiContract("an executable", async () => {
    const setup = await Setup.start({ speaks_api_version: 3, capacity_mb: 1024, hint: "object" });
    const cpi = await setup.cpiWith("v1");
    const stemcellCid = await stemcellOf(cpi);
    return { cpi, az: "z1", stemcellCid, hasTokens: false, optional, close: () => setup.close() };
  });
});

describe("the reference CPI", () => {
  let setup: Setup;

  before(async function () {
    leaveToVerify(this);
    setup = await Setup.start({});
  });
  after(() => setup?.close());

  it("speaks another version from a new cpi-config on, with the same VMs and disks", async () => {
    const former = await setup.cpiWith("before", { speaks_api_version: 1 });
    const stemcellCid = await stemcellOf(former);
    const vm = { agentId: "a-moved", stemcellCid, cloudProperties: {}, networks: {}, diskCids: [], env: {}, az: "" };
    const made = await former.createVm(vm, newCall());
    expect(made).to.include({ usesRegistry: true, apiVersion: 1 });
    const disk = { sizeMib: 1, cloudProperties: {}, vmCid: made.vmCid, az: "", token: "" };
    const { diskCid } = await former.createDisk(disk, newCall());

    const next = await setup.cpiWith("after", { speaks_api_version: 2 });
    expect(await next.attachDisk(made.vmCid, diskCid, newCall())).to.match(/\.img$/);
    expect(await next.getDisks(made.vmCid, newCall())).to.deep.equal([diskCid]);
    await next.deleteVm(made.vmCid, newCall());
    await next.deleteDisk(diskCid, newCall());
  });

  it("makes VMs whose agents speak mbus and mount disks: by hint in version 2, by the bosh-registry in version 1", async () => {
    const { mesh } = setup;
    const agents = await mesh.agents();
    const env = { bosh: { mbus: mbusOf(mesh.nats.address, mesh.vmAgentFiles) } };
    for (const version of [1, 2]) {
      const cpi = await setup.cpiWith(`mbus-${version}`, { speaks_api_version: version }, 2);
      const agentId = `agent-v${version}`;
      const stemcellCid = await stemcellOf(cpi);
      const vm = { agentId, stemcellCid, cloudProperties: {}, networks: {}, diskCids: [], env, az: "" };
      const { vmCid, usesRegistry } = await cpi.createVm(vm, newCall());
      expect(usesRegistry).to.equal(version === 1);
      expect(setup.registry.settings.has(vmCid)).to.equal(version === 1);
      await eventually(async () => (await agents.call(agentId, "ping", [])) === "pong");

      const disk = { sizeMib: 1, cloudProperties: {}, vmCid, az: "", token: "" };
      const { diskCid } = await cpi.createDisk(disk, newCall());
      const hint = await cpi.attachDisk(vmCid, diskCid, newCall());
      if (hint !== undefined) await agents.call(agentId, "add_persistent_disk", [diskCid, hint]);
      await agents.call(agentId, "mount_disk", [diskCid]);
      expect(await agents.call(agentId, "list_disk", [])).to.deep.equal([diskCid]);
      expect(setup.installed.askedOf(vmCid).map(([method]) => method)).to.include("mount_disk");

      await agents.call(agentId, "unmount_disk", [diskCid]);
      await cpi.detachDisk(vmCid, diskCid, newCall());
      await cpi.deleteVm(vmCid, newCall());
      expect(setup.registry.settings.has(vmCid)).to.equal(false);
      expect(await agents.call(agentId, "ping", []).catch(() => "gone")).to.equal("gone");
      await cpi.deleteDisk(diskCid, newCall());
    }
  });
});
