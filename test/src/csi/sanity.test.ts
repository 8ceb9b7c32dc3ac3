import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { CsiMesh, needBlockDevices, VOLUME_BYTES } from "./csi-mesh.js";

const TIMEOUT_MS = 1_200_000;
/** Specs that do not apply: the driver has no snapshots or clones, and the health of single volumes only. */
const OMITTED = [
  /snapshot/i,
  /ControllerListVolumeHealth|NodeGetVolumeHealth|StorageHealth/,
  /GroupController/,
  /volume from an existing|source volume is not/,
];

describe("csi-sanity against a mesh", () => {
  before(function () {
    skipWithout(this, "csi-sanity");
    needBlockDevices(this);
  });

  for (const [access, nodes] of [
    ["mount", "instances"],
    ["block", "hosts"],
  ] as const)
    it(`passes every spec that applies, with ${access} volumes on ${nodes}`, async function () {
      this.timeout(TIMEOUT_MS);
      await using csi = await CsiMesh.start({
        nodes,
        hosts: 1,
        devicesPerHost: 2,
        volumesPerDevice: 5,
        maxVolumesPerNode: 3,
      });
      const report = await sanity(csi.drivers[0]?.socketPath ?? "", access, csi.parameters);
      expect(report.failed, report.output).to.deep.equal([]);
      expect(report.skipped.filter((name) => !OMITTED.some((rule) => rule.test(name)))).to.deep.equal([]);
      expect(report.passed).to.be.above(40);
    });
});

async function sanity(socketPath: string, access: string, parameters: Readonly<Record<string, string>>) {
  const folder = temporaryFolder();
  const file = (name: string) => join(folder, name);
  mkdirSync(file("csi"));
  writeFileSync(file("parameters.yaml"), JSON.stringify(parameters));
  writeFileSync(file("mutable.yaml"), "readIops: '1000'\n");
  const flags = {
    "csi.endpoint": socketPath,
    "csi.mountdir": file("csi/mount"),
    "csi.stagingdir": file("csi/staging"),
    "csi.testvolumesize": VOLUME_BYTES,
    "csi.testvolumeexpandsize": 2 * VOLUME_BYTES,
    "csi.testvolumeaccesstype": access,
    "csi.testvolumeparameters": file("parameters.yaml"),
    "csi.testvolumemutableparameters": file("mutable.yaml"),
    "csi.testnodevolumeattachlimit": true,
    "ginkgo.junit-report": file("report.xml"),
    "ginkgo.no-color": true,
    // Less than the test has, so that the report names the spec that hangs.
    "ginkgo.timeout": `${TIMEOUT_MS - 120_000}ms`,
  };
  const child = spawn(
    "csi-sanity",
    Object.entries(flags).map(([name, value]) => `--${name}=${value}`),
  );
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (output += text));
  await new Promise((resolve) => child.once("close", resolve));
  const cases = [...readFileSync(file("report.xml"), "utf8").matchAll(/<testcase name="([^"]+)"[^>]* status="(\w+)"/g)];
  const named = (...wanted: string[]) =>
    cases.filter(([, , status = ""]) => wanted.includes(status)).map(([, name = ""]) => name);
  return {
    output,
    failed: cases
      .filter(([, , status = ""]) => !["passed", "skipped", "pending"].includes(status))
      .map(([, name]) => name),
    passed: named("passed").length,
    skipped: named("skipped"),
  };
}
