import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { MIB_BYTES } from "@diskmesh/domain";
import { skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { wholeFleet } from "./mesh/fleets.js";
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
    skipWithout(this, "grpcurl");
    mesh = await TestMesh.start(wholeFleet({ hosts: 1, devicesPerHost: 1, deviceSizeBytes: MIB_BYTES }));
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  for (const [name, service] of Object.entries(SERVICES))
    it(`lists the services of ${name} by reflection`, async () => {
      const { stdout } = await grpcurl(name, "list");
      expect(stdout.split("\n")).to.include.members([service, "grpc.health.v1.Health"]);
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

  function grpcurl(name: string, ...args: string[]): Promise<{ stdout: string; stderr: string }> {
    const verbs = args.slice(0, -1);
    const { caFile, certFile, keyFile } = mesh.operatorFiles;
    const tls = ["-cacert", caFile, "-cert", certFile, "-key", keyFile, "-max-time", "30"];
    return run("grpcurl", [...tls, ...verbs, mesh.address(name), args.at(-1) ?? ""]);
  }
});
