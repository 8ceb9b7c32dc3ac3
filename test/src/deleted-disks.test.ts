import { randomBytes } from "node:crypto";
import { TaskState } from "@diskmesh/api/director";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { wholeFleet } from "./mesh/fleets.js";
import { addHosts, devicesReady } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { ended } from "./mesh/typed-lines.js";

const GRACE_MS = 3_600_000;
const SERVICES = ["disk-registry", "director", "host-1"] as const;

/** Deletes disks and brings them back by typed commands, while the processes that know them are killed. */
describe("a deleted disk that is kept, by the diskmesh command", () => {
  let mesh: TestMesh;

  before(async () => {
    const overrides = {
      "disk-registry": { pools: { default: { deleteGraceMs: GRACE_MS } } },
    };
    mesh = await TestMesh.start(wholeFleet({ hosts: 2, devicesPerHost: 2, deviceSizeBytes: MIB_BYTES, overrides }));
    await addHosts(mesh);
    await devicesReady(mesh);
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  const done = (line: string) => ended(mesh, line, 0);
  const killed = async (...names: readonly string[]) => {
    await Promise.all(names.map((name) => mesh.process(name).kill()));
    await Promise.all(names.map((name) => mesh.process(name).start()));
    await eventually(() => done("status"));
  };
  /** Attaches the disk, and returns its first MiB; writes other bytes there first if some are given. */
  const content = async (name: string, written?: Buffer): Promise<Buffer> => {
    await eventually(() => done(`attach ${name} --host host-2`), { everyMs: 500 });
    const { disk } = await mesh.clients.disks.getDynamicDisk({ diskName: name });
    const client = await eventually(() => NbdClient.connect({ socketPath: disk?.path ?? "" }));
    if (written !== undefined) await client.write(0, written, { fua: true });
    const read = await client.read(0, MIB_BYTES);
    await client.disconnect();
    await done(`detach ${name}`);
    return read;
  };
  const provided = async (name: string, written?: Buffer): Promise<string> => {
    await eventually(() => done(`provide ${name} --host host-1 --size 1MiB`), { everyMs: 500 });
    await done(`detach ${name}`);
    if (written !== undefined) await content(name, written);
    const { disk } = await mesh.clients.disks.getDynamicDisk({ diskName: name });
    return disk?.diskCid ?? "";
  };

  it("comes back with its bytes under its name, whatever is killed between the commands", async () => {
    const bytes = randomBytes(MIB_BYTES);
    const diskCid = await provided("scratch", bytes);
    await done("delete scratch");
    expect(await done("disks")).not.to.contain(diskCid);
    await killed(...SERVICES);
    expect(await done("disks --deleted")).to.match(new RegExp(`^${diskCid} +scratch +1 MiB +z1 +default `, "m"));
    expect(await done("pools")).to.match(/^default +z1 +\S+ MiB +\S+ MiB +1 MiB /m);
    expect(await done(`why disk ${diskCid}`)).to.contain(`bring it back: diskmesh undelete ${diskCid}`);
    expect(await done("undelete scratch")).to.contain(`is back, detached, with the CID \`${diskCid}\``);
    await killed(...SERVICES);
    expect((await content("scratch")).equals(bytes), "bytes of the disk").to.equal(true);

    await done("delete scratch");
    const { task } = await mesh.clients.disks.undeleteDynamicDisk({ diskName: "scratch", wait: true });
    expect(task?.state, `of its director alone: ${task?.result}`).to.equal(TaskState.DONE);
    expect((await content("scratch")).equals(bytes), "bytes of the disk").to.equal(true);

    await done("delete scratch");
    await mesh.clients.registry.undeleteDisk({ diskId: diskCid });
    await killed("disk-registry", "director");
    expect(await done("undelete scratch"), "as repeated after the registry's half").to.contain("is back");
    expect((await content("scratch")).equals(bytes), "bytes of the disk").to.equal(true);
    expect(await done("undelete scratch")).to.contain("is not deleted");
  });

  it("bad input: an unknown name, a name that another disk has, one name of two deleted disks", async () => {
    expect(await ended(mesh, "undelete never", 1)).to.contain("there is no disk never");
    expect(await ended(mesh, "delete never --now", 1)).to.contain("no deleted disk with the name or id never is kept");
    const first = await provided("twice");
    await done("delete twice");
    const second = await provided("twice");
    expect(await ended(mesh, "undelete twice", 2)).to.contain(`another disk named twice now, ${second}`);
    await done("delete twice");
    const both = await ended(mesh, "undelete twice", 2);
    for (const diskId of [first, second]) expect(both).to.contain(`${diskId} (deleted `);
    expect(await done(`undelete ${first}`)).to.contain("disk `twice` is back");
    await done("delete twice --now");
    await done(`delete ${second} --now`);
    expect(await done("disks --deleted")).to.contain("no deleted disks are kept");
    expect(await ended(mesh, `undelete ${second}`, 1)).to.contain("there is no disk");
  });

  it("gives its bytes, erased, to a disk that has no other room, and no earlier", async () => {
    const pool = async () => (await mesh.clients.registry.getCapacity({})).pools[0];
    const bytes = randomBytes(MIB_BYTES);
    await provided("oldest", bytes);
    await done("delete oldest");
    await provided("newest", bytes);
    await done("delete newest");
    while (((await pool())?.maxDiskBytes ?? 0) >= MIB_BYTES) await provided(`filler-${(await pool())?.freeBytes}`);
    expect((await done("disks --deleted")).match(/oldest|newest/g)).to.have.members(["oldest", "newest"]);
    await provided("needs-room");
    expect(await done("disks --deleted")).not.to.contain("oldest");
    expect((await content("needs-room")).equals(Buffer.alloc(MIB_BYTES)), "zeros").to.equal(true);
    expect(await done("events --action DeletedDiskErased")).to.contain("has no other room");
    expect(await done("undelete newest")).to.contain("is back");
    expect((await content("newest")).equals(bytes), "bytes of the disk").to.equal(true);
  });
});
