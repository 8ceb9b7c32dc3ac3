import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { ExportKind } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { BLOCK_BYTES, DiskContent } from "./mesh/disk-content.js";
import { registryFleet } from "./mesh/fleets.js";
import { addHosts } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { shellOfPages } from "./mesh/typed-lines.js";
import { repositoryFolder } from "./repository-folder.js";

const DRIVE_BYTES = 8 * MIB_BYTES;
/** Size of a disk with slices of two drives. */
const USED_BYTES = 10 * MIB_BYTES;

describe("docs/operate/empty-a-host.md, on the node engine", () => {
  let mesh: TestMesh | undefined;

  before(async function () {
    skipWithout(this, "grpcurl");
    mesh = await TestMesh.start(
      registryFleet({
        hostIds: ["host-1", "host-2", "host-3"],
        devices: { count: 3, sizeBytes: DRIVE_BYTES },
      }),
    );
    await addHosts(mesh);
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  it("its commands move a disk in use and one that is not, without an error or a lost write, and the host leaves", async () => {
    const { commandEnvironment, folder } = mesh as TestMesh;
    const operator = (mesh as TestMesh).clients.registry;
    for (const [diskId, sizeBytes] of Object.entries({ used: USED_BYTES, idle: 2 * MIB_BYTES })) {
      const exportKind = ExportKind.NBD;
      await eventually(() => operator.createDisk({ diskId, sizeBytes, hostId: "host-3", exportKind }));
      await operator.publishDisk({ diskId, hostId: "host-2" });
    }
    const idle = await open("idle");
    const [idleContent, usedContent] = [new DiskContent("idle"), new DiskContent("used")];
    await idleContent.write(idle, 1);
    await idle.disconnect();
    await operator.unpublishDisk({ diskId: "idle" });
    expect((await operator.getDisk({ diskId: "used" })).disk?.parts).to.have.length(2);
    const used = await open("used");
    let isOver = false;
    const writing = (async () => {
      for (let count = 1; !isOver; count++)
        await usedContent.write(used, (count * 37) % (USED_BYTES / BLOCK_BYTES), { fua: count % 3 === 0 });
    })();
    const document = readFileSync(join(repositoryFolder, "docs/operate/empty-a-host.md"), "utf8");
    const blocks = [...document.matchAll(/^```sh$(.*?)^```$/gms)].map(([, each]) => each);
    const script = [shellOfPages(mesh as TestMesh), "set -e", ...blocks].join("\n");
    const env = { ...process.env, ...commandEnvironment, REGISTRY: commandEnvironment.DISKMESH_REGISTRY };
    const { stdout } = await promisify(execFile)("sh", ["-c", script], { cwd: folder, env });
    expect(stdout).to.contain("host-3 is out of operation");
    isOver = true;
    await writing;
    expect(usedContent.blocks).to.be.above(0);
    expect(await usedContent.faults(used)).to.deep.equal([]);
    await used.disconnect();
    await operator.publishDisk({ diskId: "idle", hostId: "host-2" });
    const moved = await open("idle");
    expect(await idleContent.faults(moved)).to.deep.equal([]);
    await moved.disconnect();
  });

  async function open(diskId: string): Promise<NbdClient> {
    const { disk } = await (mesh as TestMesh).clients.registry.getDisk({ diskId });
    return NbdClient.connect({ socketPath: disk?.publication?.exportPath ?? "" });
  }
});
