import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { wholeFleet } from "./mesh/fleets.js";
import { devicesReady } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";

const run = promisify(execFile);

const SERVICES: Readonly<Record<string, string>> = {
  director: "diskmesh.director.v1.DynamicDiskService",
  "cpi-dispatcher": "diskmesh.cpi.v1.CpiService",
  "disk-registry": "diskmesh.registry.v1.DiskRegistryService",
  "host-1": "diskmesh.internal.v1.DiskAgentService",
};

describe("an operator with grpcurl", () => {
  let mesh: TestMesh;

  before(async function () {
    await run("grpcurl", ["--version"]).catch(() => skipBecause(this, "grpcurl is not on PATH"));
    mesh = await TestMesh.start(wholeFleet({ hosts: 1, devicesPerHost: 2, deviceSizeBytes: MIB_BYTES }));
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  for (const [name, service] of Object.entries(SERVICES))
    it(`lists the services of ${name} by reflection`, async () => {
      const { stdout } = await grpcurl(name, "list");
      expect(stdout.split("\n")).to.include.members([service, "grpc.health.v1.Health"]);
    });

  it("drives a disk from AddHost to RemoveHost", async () => {
    const registry = "diskmesh.registry.v1.DiskRegistryService";
    const disks = "diskmesh.director.v1.DynamicDiskService";
    await call("disk-registry", `${registry}/AddHost`, { host_id: "host-1" });
    await devicesReady(mesh);
    const listed = await call("disk-registry", `${registry}/ListDevices`, { host_id: "host-1" });
    expect(listed.devices).to.have.length(2);
    expect(listed.devices[0]).to.include({ attachState: "ATTACH_STATE_ATTACHED", health: "HEALTH_ONLINE" });
    const content = "azs:\n- name: z1\ndisk_types:\n- name: fast\n  disk_size: 1\n";
    await call("director", "diskmesh.director.v1.ConfigService/UpdateConfig", { type: "cloud", content });
    const manifest = "name: web\ninstance_groups:\n- name: web\n  instances: 1\n  azs: [z1]\n";
    const deployed = await call("director", "diskmesh.director.v1.DeploymentService/Deploy", { manifest, wait: true });
    expect(deployed.task.state, deployed.task.result).to.equal("TASK_STATE_DONE");
    const { instances } = await call("director", "diskmesh.director.v1.DeploymentService/ListInstances", {
      deployment: "web",
    });
    const provide = {
      disk_name: "d",
      instance_id: instances[0].instanceId,
      disk_pool_name: "fast",
      size_bytes: MIB_BYTES,
      wait: true,
    };
    const provided = await call("director", `${disks}/ProvideDynamicDisk`, provide);
    expect(provided.task.state, provided.task.result).to.equal("TASK_STATE_DONE");
    const refused = await call("disk-registry", `${registry}/RemoveHost`, { host_id: "host-1" });
    expect(refused.result).to.include({ code: "ACTION_CODE_E_TRY_AGAIN" });
    expect(refused.result.dependentDiskIds).to.deep.equal([provided.disk.diskCid]);
    for (const method of ["DetachDynamicDisk", "DeleteDynamicDisk"]) {
      const { task } = await call("director", `${disks}/${method}`, { disk_name: "d", wait: true });
      expect(task.state, task.result).to.equal("TASK_STATE_DONE");
    }
    const asVm = await call("disk-registry", `${registry}/RemoveHost`, { host_id: "host-1" });
    expect(asVm.result.message).to.include("host-1 is to be removed, and still is VM ");
    const removed = await call("director", "diskmesh.director.v1.DeploymentService/DeleteDeployment", {
      deployment: "web",
      wait: true,
    });
    expect(removed.task.state, removed.task.result).to.equal("TASK_STATE_DONE");
    const codes: string[] = [];
    await eventually(async () => {
      const { result } = await call("disk-registry", `${registry}/RemoveHost`, { host_id: "host-1" });
      codes.push(result.code);
      expect(result.code, result.message).to.equal("ACTION_CODE_S_OK");
    });
    // The first call stores the request, so the removal may be complete before the second call.
    for (const code of codes.slice(0, -1)) expect(code).to.equal("ACTION_CODE_E_TRY_AGAIN");
    const gone = await call("disk-registry", `${registry}/ListDevices`, { host_id: "host-1" });
    for (const device of gone.devices) expect(device.attachState).to.equal("ATTACH_STATE_DETACHED");
  });

  it("is refused without a certificate, with its own name for a wrong one", async () => {
    const bare = await run("grpcurl", ["-insecure", "-max-time", "5", mesh.address("director"), "list"]).then(
      () => "answered",
      (error: { stderr?: string }) => error.stderr ?? "",
    );
    expect(bare)
      .to.match(/certificate required|connection|deadline/i)
      .and.not.to.equal("answered");
    const wrong = await grpcurl("host-1", "-d", "{}", "diskmesh.internal.v1.DiskAgentService/AttachDevices").then(
      () => "answered",
      (error: { stderr?: string }) => error.stderr ?? "",
    );
    expect(wrong).to.include("PermissionDenied").and.include("operator");
  });

  // biome-ignore lint/suspicious/noExplicitAny: the output of grpcurl, whose shape depends on the method.
  async function call(name: string, method: string, request: object): Promise<any> {
    const { stdout } = await grpcurl(name, "-d", JSON.stringify(request), method);
    return JSON.parse(stdout);
  }

  function grpcurl(name: string, ...args: string[]): Promise<{ stdout: string; stderr: string }> {
    const verbs = args.slice(0, -1);
    const { caFile, certFile, keyFile } = mesh.operatorFiles;
    const tls = ["-cacert", caFile, "-cert", certFile, "-key", keyFile, "-max-time", "30"];
    return run("grpcurl", [...tls, ...verbs, mesh.address(name), args.at(-1) ?? ""]);
  }
});
