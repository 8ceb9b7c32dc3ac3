import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { makeDeviceFile } from "./mesh/device-files.js";
import { registryFleet } from "./mesh/fleets.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { repositoryFolder } from "./repository-folder.js";

const HOSTS = ["host-1", "host-2", "host-3"];

describe("docs/operate/empty-a-host.md", function () {
  this.timeout(240_000);
  let mesh: TestMesh | undefined;

  before(async function () {
    skipWithout(this, "grpcurl", "nbdcopy", "qemu-img", "qemu-io");
    mesh = await TestMesh.start(
      registryFleet({
        hostIds: HOSTS,
        agent: (hostId, folder) => {
          const path = join(folder, hostId, "drive");
          makeDeviceFile(path, MIB_BYTES);
          return { devices: [{ deviceId: `${hostId}-drive`, path }] };
        },
      }),
    );
    for (const hostId of HOSTS) await eventually(() => mesh?.clients.registry.addHost({ hostId }));
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  it("its commands move a disk with its bytes, and the host leaves", async () => {
    const { folder } = mesh as TestMesh;
    const operator = (mesh as TestMesh).clients.registry;
    const disk = { diskId: "walk", sizeBytes: MIB_BYTES, hostId: "host-3" };
    await eventually(() => operator.createDisk(disk));
    await operator.publishDisk({ diskId: "walk", hostId: "host-2" });
    const written = await exportPath("walk");
    await promisify(execFile)("qemu-io", ["-f", "raw", "-c", "write -P 0x5a 4096 65536", nbd(written)]);
    const document = readFileSync(join(repositoryFolder, "docs/operate/empty-a-host.md"), "utf8");
    const blocks = [...document.matchAll(/^```sh$(.*?)^```$/gms)].map(([, block]) => block);
    const script = [surroundings(), "set -e", ...blocks].join("\n");
    const { stdout } = await promisify(execFile)("sh", ["-c", script], { cwd: folder });
    expect(stdout).to.contain("Images are identical.").and.to.contain("host-3 is out of operation");
    const { disks } = await operator.listDisks({});
    expect(disks.map(({ diskId }) => diskId)).to.deep.equal(["walk-2"]);
    await operator.publishDisk({ diskId: "walk-2", hostId: "host-2" });
    const moved = nbd(await exportPath("walk-2"));
    const { stdout: read } = await promisify(execFile)("qemu-io", [
      "-f",
      "raw",
      "-c",
      "read -P 0x5a 4096 65536",
      moved,
    ]);
    expect(read).not.to.contain("Pattern verification failed");
  });

  const nbd = (socket: string): string => `nbd+unix:///?socket=${socket}`;

  async function exportPath(diskId: string): Promise<string> {
    const { disk } = await (mesh as TestMesh).clients.registry.getDisk({ diskId });
    return disk?.publication?.exportPath ?? "";
  }

  /** Returns shell text that defines the tour's variables and the diskmesh command for this mesh. */
  function surroundings(): string {
    const { caFile, certFile, keyFile } = (mesh as TestMesh).operatorFiles;
    const registry = (mesh as TestMesh).address("disk-registry-1");
    return `
g() { grpcurl -cacert '${caFile}' -cert '${certFile}' -key '${keyFile}' "$@"; }
diskmesh() { '${process.execPath}' '${join(repositoryFolder, "packages/cli/bin/diskmesh.mjs")}' "$@"; }
REGISTRY=${registry} R=diskmesh.registry.v1.DiskRegistryService
export DISKMESH_REGISTRY=$REGISTRY DISKMESH_CA='${caFile}' DISKMESH_CERT='${certFile}' DISKMESH_KEY='${keyFile}'
`;
  }
});
