import { HostState } from "@diskmesh/api/registry";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { wholeFleet } from "./mesh/fleets.js";
import { addHosts, devicesReady, provideDisk, runTask } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";

const MANIFEST = "name: web\ninstance_groups: [{name: web, azs: [z1], instances: 1}]\n";

describe("a VM whose host has died", () => {
  let mesh: TestMesh;

  before(async function () {
    leaveToVerify(this);
    mesh = await TestMesh.start(
      wholeFleet({
        hosts: 2,
        devicesPerHost: 1,
        deviceSizeBytes: 1024 * 1024,
        overrides: { director: { agents: { readyTimeoutMs: 20_000 }, tuning: { agents: { lostAfterMs: 3_000 } } } },
      }),
    );
    await addHosts(mesh);
    await devicesReady(mesh);
    await mesh.clients.configs.updateConfig({
      type: "cloud",
      content: "azs: [{name: z1}]\ndisk_types: [{name: default, disk_size: 1}]\n",
    });
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  const instance = async () => (await mesh.clients.deployments.listInstances({ deployment: "web" })).instances[0];
  const deploy = () => runTask("deploy", () => mesh.clients.deployments.deploy({ manifest: MANIFEST, wait: true }));

  it("is deployed again on another host; the first host is free when it returns, and the disk can be used there", async () => {
    await deploy();
    const before = await instance();
    const hostId = before?.agentId ?? "";
    await mesh.process(hostId).kill();
    // The registry would choose the same host until it has marked the host UNAVAILABLE.
    await eventually(
      async () => (await mesh.clients.registry.getHost({ hostId })).host?.state === HostState.UNAVAILABLE,
    );
    await deploy();
    const now = await instance();
    expect(now).to.include({ instanceId: before?.instanceId, vmState: "VM_STATE_RUNNING" });
    expect(now?.agentId).not.to.equal(hostId);
    await mesh.process(hostId).start();
    await deploy();
    expect(await instance()).to.deep.equal(now);
    const two = MANIFEST.replace("instances: 1", "instances: 2");
    await runTask("deploy two", () => mesh.clients.deployments.deploy({ manifest: two, wait: true }));
    const { instances } = await mesh.clients.deployments.listInstances({ deployment: "web" });
    expect(instances.map((each) => each.agentId)).to.deep.equal([now?.agentId, hostId]);
    for (const [index, each] of instances.entries()) await provideDisk(mesh, `disk-${index}`, each.instanceId);
  });
});
