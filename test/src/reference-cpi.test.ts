import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { CpiConfig } from "@diskmesh/api/cpi";
import { cpiContract, newCall, RemoteCpi, reasonOfFailed } from "@diskmesh/cpi/testing";
import { identityUri, parseHostId } from "@diskmesh/domain";
import { AgentClient, connectNats, mbusPermissions } from "@diskmesh/mbus";
import {
  eventually,
  leaveToVerify,
  startNats,
  type TestCertificates,
  temporaryFolder,
  testCertificates,
} from "@diskmesh/testkit";
import { expect } from "chai";
import { ReferenceCpi } from "./reference-cpi/install.js";
import { CPI_CONFIG_VERSION, TestDispatcher } from "./reference-cpi/test-dispatcher.js";
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
  readonly cpi: RemoteCpi;
  stemcellCid = "";

  private constructor(
    readonly dispatcher: TestDispatcher,
    readonly registry: TestRegistry,
    readonly config: CpiConfig,
  ) {
    this.installed = new ReferenceCpi(dispatcher.folder);
    const context = { cpi: "reference", cpiConfigVersion: CPI_CONFIG_VERSION, stemcellApiVersion: 3 };
    this.cpi = new RemoteCpi(dispatcher.director, context);
  }

  static async start(certificates: TestCertificates, properties: object): Promise<Setup> {
    const [dispatcher, registry] = [await TestDispatcher.start(certificates), await TestRegistry.start()];
    const config = CpiConfig.fromPartial({ name: "reference", type: "reference" });
    const setup = new Setup(dispatcher, registry, config);
    config.execPath = setup.installed.execPath;
    config.properties = { state_folder: setup.installed.stateFolder, registry: registry.properties, ...properties };
    try {
      await dispatcher.setCpis([config]);
      setup.stemcellCid = await setup.createStemcell();
      return setup;
    } catch (error) {
      await setup.close();
      throw error;
    }
  }

  createStemcell(cpi: RemoteCpi = this.cpi): Promise<string> {
    return cpi.createStemcell({ imagePath: image, cloudProperties: {}, tags: {} }, newCall());
  }

  async close(): Promise<void> {
    await this.installed.stopVms();
    await this.dispatcher[Symbol.asyncDispose]();
    await this.registry[Symbol.asyncDispose]();
  }
}

// Tests below prove the differences of versions 1 and 2.
describe("the reference CPI, speaking version 3", () => {
  before(function () {
    leaveToVerify(this);
  });

  cpiContract("an executable", async () => {
    const setup = await Setup.start(await testCertificates(), {
      speaks_api_version: 3,
      capacity_mb: 1024,
      hint: "object",
    });
    const { cpi, stemcellCid } = setup;
    return { cpi, az: "z1", stemcellCid, hasTokens: false, optional, close: () => setup.close() };
  });
});

describe("the reference CPI", () => {
  let certificates: TestCertificates;
  let setup: Setup;

  before(async function () {
    leaveToVerify(this);
    certificates = await testCertificates({ hostIds: ["agent-v1", "agent-v2"] });
    setup = await Setup.start(certificates, {});
  });

  after(() => setup?.close());

  const misbehaviours: [what: string, does: string, reason: string][] = [
    ["garbage", "garbage", "UNAVAILABLE"],
    ["a shapeless answer", "shapeless", "UNAVAILABLE"],
    ["a huge answer", "huge=5000000", "UNAVAILABLE"],
    ["a crash", "crash", "UNAVAILABLE"],
    ["slowness beyond the deadline", "slow=60000", "TIMEOUT"],
    ["an error of the contract", "error=Bosh::Clouds::VMNotFound", "VM_NOT_FOUND"],
    ["an error of its own", "error=Sad", "CPI_FAILED"],
  ];
  for (const [what, does, reason] of misbehaviours)
    it(`${what} -> ${reason}, and the next call is served`, async () => {
      setup.installed.misbehave({ has_vm: does });
      const call = { ...newCall(), deadlineAtMs: Date.now() + (reason === "TIMEOUT" ? 2_000 : 20_000) };
      expect(await reasonOfFailed(setup.cpi.hasVm("i-1", call))).to.equal(reason);
      setup.installed.misbehave({});
      expect((await setup.cpi.hasVm("i-1", newCall())).exists).to.equal(false);
    });

  for (const [what, does] of [
    ["noise", "noisy=1000"],
    ["slowness", "slow=300"],
    ["orphans", "orphans"],
  ] as const)
    it(`${what} -> the answer is returned nevertheless`, async () => {
      setup.installed.misbehave({ has_vm: does });
      expect((await setup.cpi.hasVm("i-1", newCall())).exists).to.equal(false);
      setup.installed.misbehave({});
    });

  it("speaks another version from a new cpi-config on, with the same VMs and disks", async () => {
    const stemcellCid = await setup.createStemcell();
    const vm = { agentId: "a-moved", stemcellCid, cloudProperties: {}, networks: {}, diskCids: [], env: {}, az: "" };
    const at = (cpiConfigVersion: string) =>
      new RemoteCpi(setup.dispatcher.director, { cpi: "reference", cpiConfigVersion, stemcellApiVersion: 3 });
    const speaking = (speaks_api_version: number): CpiConfig => ({
      ...setup.config,
      properties: { ...setup.config.properties, speaks_api_version },
    });
    await setup.dispatcher.setCpis([speaking(1)], "before");
    const made = await at("before").createVm(vm, newCall());
    expect(made).to.include({ usesRegistry: true, apiVersion: 1 });
    const disk = { sizeMib: 1, cloudProperties: {}, vmCid: made.vmCid, az: "", token: "" };
    const { diskCid } = await at("before").createDisk(disk, newCall());
    await setup.dispatcher.setCpis([speaking(2)], "after");
    expect(await at("after").attachDisk(made.vmCid, diskCid, newCall())).to.match(/\.img$/);
    expect(await at("after").getDisks(made.vmCid, newCall())).to.deep.equal([diskCid]);
    await at("after").deleteVm(made.vmCid, newCall());
    await at("after").deleteDisk(diskCid, newCall());
  });

  it("makes VMs whose agents speak mbus and mount disks: by hint in version 2, by the bosh-registry in version 1", async () => {
    const identities = [
      { role: "director", name: "" } as const,
      { role: "disk-agent", name: parseHostId("agent-v1") } as const,
      { role: "disk-agent", name: parseHostId("agent-v2") } as const,
    ];
    const users = identities.map((identity) => ({ user: identityUri(identity), ...mbusPermissions(identity) }));
    await using nats = await startNats({ folder: temporaryFolder(), certs: certificates, users });
    const link = await connectNats({ servers: [nats.address], tls: certificates.files("director"), name: "director" });
    await link.whenConnected(AbortSignal.timeout(60_000));
    const agents = new AgentClient({
      nats: link,
      directorId: "d1",
      requestTimeoutMs: 30_000,
      callTimeoutMs: 60_000,
      taskPollIntervalMs: 20,
    });
    try {
      for (const version of [1, 2]) {
        const properties = { ...setup.config.properties, speaks_api_version: version };
        await setup.dispatcher.setCpis([{ ...setup.config, properties }], `mbus-${version}`);
        const context = { cpi: "reference", cpiConfigVersion: `mbus-${version}`, stemcellApiVersion: 2 };
        const cpi = new RemoteCpi(setup.dispatcher.director, context);
        const agentId = `agent-v${version}`;
        const env = { bosh: { mbus: mbusOf(agentId, nats.address) } };
        const stemcellCid = await setup.createStemcell(cpi);
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
    } finally {
      await agents.close();
      await link.close();
    }
  });

  function mbusOf(agentId: string, address: string): object {
    const { caFile, certFile, keyFile } = certificates.files(`disk-agent-${agentId}`);
    const [ca, certificate, private_key] = [caFile, certFile, keyFile].map((file) => readFileSync(file, "utf8"));
    return { urls: [`nats://${address}`], cert: { ca, certificate, private_key } };
  }
});
