import { TaskState } from "@diskmesh/api/director";
import { InvalidStateError } from "@diskmesh/domain";
import { expect } from "chai";
import { TestDirector } from "../testing/test-director.js";

const cloud = (reserved: string) => `azs: [{name: z1}]
networks: [{name: net, subnets: [{range: 10.0.0.0/24, gateway: 10.0.0.1, azs: [z1], reserved: ["${reserved}"]}]}]
`;
/** 232 free addresses: all but the reserved range, the gateway, and the network and broadcast addresses. */
const MOST_FREE = cloud("10.0.0.2-10.0.0.22");
/** Leaves 10.0.0.2 and 10.0.0.3 free. */
const TWO_FREE = cloud("10.0.0.4-10.0.0.254");
const manifest = (name: string, instances: number, group = "db") =>
  `name: ${name}\ninstance_groups: [{name: ${group}, azs: [z1], instances: ${instances}, networks: [{name: net}]}]\n`;

describe("reservation of addresses before VMs are created", () => {
  let director: TestDirector;

  before(async () => {
    // Creates the VMs one by one.
    director = await TestDirector.start({ deployments: { maxConcurrentVmsPerCpi: 1 } });
  });
  after(() => director?.stop());
  beforeEach(async () => {
    for (const deployment of ["web", "other"]) await director.deployments.deleteDeployment({ deployment, wait: true });
    director.cpi.calls.length = 0;
  });

  const use = (content: string) => director.configs.updateConfig({ type: "cloud", content });
  const ipsOf = async (deployment: string) =>
    (await director.deployments.listInstances({ deployment })).instances.map(
      ({ networks }) => (networks as { readonly net?: { readonly ip: string } } | undefined)?.net?.ip,
    );

  it("300 instances on a network of 232 addresses -> the deploy and its dry run fail; 232 instances fit; no VM is created", async () => {
    await use(MOST_FREE);
    const dryRun = async (instances: number) =>
      (
        await director.deployments.deploy({
          manifest: manifest("web", instances),
          options: { dryRun: true },
          wait: true,
        })
      ).task;
    for (const task of [await director.deployManifest(manifest("web", 300)), await dryRun(300), await dryRun(233)]) {
      expect(task?.state).to.equal(TaskState.ERROR);
      expect(task?.result).to.contain("network `net` has no free address in AZ `z1`");
    }
    expect((await dryRun(232))?.state).to.equal(TaskState.DONE);
    expect(director.cpi.calls).to.deep.equal([]);
    expect((await director.deployments.listDeployments({})).deployments).to.deep.equal([]);
  });

  it("while the first VM is created -> no other deployment gets the addresses of the others", async () => {
    await use(TWO_FREE);
    const gate = director.cpi.gate("createVm", "before");
    const { task } = await director.deployments.deploy({ manifest: manifest("web", 2) });
    await gate.reached;
    expect((await director.deployManifest(manifest("other", 1))).result).to.contain("no free address");
    gate.release();
    expect((await director.ended(task?.taskId ?? 0)).state).to.equal(TaskState.DONE);
    expect(await ipsOf("web")).to.deep.equal(["10.0.0.2", "10.0.0.3"]);
  });

  it("a group that replaces another on a full network -> gets the released addresses and no more", async () => {
    await use(TWO_FREE);
    await director.deployManifest(manifest("web", 2));
    director.cpi.calls.length = 0;
    expect((await director.deployManifest(manifest("web", 3, "new"))).result).to.contain("no free address");
    expect(director.cpi.calls).to.deep.equal([]);
    expect((await director.deployManifest(manifest("web", 2, "new"))).state).to.equal(TaskState.DONE);
    expect(await ipsOf("web")).to.have.members(["10.0.0.2", "10.0.0.3"]);
  });

  it("the same manifest with a smaller network -> fails before a VM is created", async () => {
    await use(MOST_FREE);
    director.cpi.failNext("createVm", new InvalidStateError("no quota"));
    director.cpi.failNext("createVm", new InvalidStateError("no quota"));
    director.cpi.failNext("createVm", new InvalidStateError("no quota"));
    expect((await director.deployManifest(manifest("web", 3))).state).to.equal(TaskState.ERROR);
    await use(TWO_FREE);
    expect((await director.deployManifest(manifest("web", 3))).result).to.contain("no free address");
    expect(director.cpi.vms.size).to.equal(0);
  });
});
