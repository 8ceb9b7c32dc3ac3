import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { wholeFleet } from "./mesh/fleets.js";
import { addHosts, devicesReady } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { ended } from "./mesh/typed-lines.js";

const WRITTEN = Buffer.from("what a job wrote");

/** Runs the commands of a user who has hosts, and neither a deployment nor a cloud config. */
describe("a disk on a host, by the diskmesh command", () => {
  let mesh: TestMesh;

  before(async () => {
    mesh = await TestMesh.start(wholeFleet({ hosts: 3, devicesPerHost: 2, deviceSizeBytes: MIB_BYTES }));
    await addHosts(mesh);
    await devicesReady(mesh);
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  /** Returns what the command printed. Fails unless its exit code is 0. */
  const done = async (line: string) => {
    const { code, out, err } = await mesh.typed(...line.split(" "));
    expect(code, `${line}: ${out}${err}`).to.equal(0);
    return { out, err };
  };
  /** Expects that the command names the path and the next commands; returns the path. */
  const attached = async (line: string, hostId: string): Promise<string> => {
    const { out, err } = await done(line);
    expect(err).to.match(/\nnext: diskmesh attach scratch --host HOST --move, or diskmesh detach scratch\n$/);
    const [, path = ""] =
      new RegExp(`^DONE: attached disk \`scratch\` to host \`${hostId}\` at (/.*)\n$`).exec(out) ?? [];
    return path;
  };
  const opened = (socketPath: string) => eventually(() => NbdClient.connect({ socketPath }));
  const holder = async () => (await mesh.clients.disks.getDynamicDisk({ diskName: "scratch" })).disk?.hostId;

  it("provided, moved with its bytes, detached, enlarged and deleted, each command naming the next ones", async () => {
    const first = await opened(await attached("provide scratch --host host-3 --size 1MiB", "host-3"));
    await first.write(0, WRITTEN, { fua: true });
    await first.disconnect();
    const second = await opened(await attached("attach scratch --host host-1 --move", "host-1"));
    expect((await second.read(0, WRITTEN.length)).toString()).to.equal(WRITTEN.toString());
    await second.disconnect();
    await attached("attach scratch --host host-1 --move", "host-1");
    expect(await ended(mesh, "attach scratch --host host-2", 1)).to.contain(
      "attached to a different host `host-1`: detach it",
    );
    const afterDetach = /next: diskmesh attach scratch --host HOST, diskmesh resize scratch SIZE, or diskmesh delete/;
    expect((await done("detach scratch")).err).to.match(afterDetach);
    expect((await done("resize scratch 2MiB")).err).to.match(afterDetach);
    expect((await done("delete scratch")).out).to.match(/^DONE: deleted disk/);
  });

  it("removal of its host -> the answer names the disk; a host that is UNAVAILABLE -> delays no detach", async () => {
    await done("provide scratch --host host-1 --size 1MiB");
    await done("attach scratch --host host-2 --move");
    const { disk } = await mesh.clients.disks.getDynamicDisk({ diskName: "scratch" });
    const removal = await mesh.clients.registry.removeHost({ hostId: "host-2" });
    expect(removal.result?.message).to.contain(
      `${disk?.diskCid} named "scratch" (PUBLISHED to host-2 for the host itself`,
    );
    await done("limits scratch --read-iops 500 --write-rate 50MiB");
    await eventually(async () => {
      const { disk: limited } = await mesh.clients.registry.getDisk({ diskId: disk?.diskCid ?? "" });
      expect(limited?.publication, "its host confirms the limits").to.include({ changePending: false });
    });
    const row = new RegExp(
      `^${disk?.diskCid} +scratch +1 MiB .* host-2 +${disk?.path} +500 reads/s, 50 MiB/s written`,
      "m",
    );
    expect((await done("disks")).out).to.match(row);
    expect((await done("disks --dynamic")).out).to.match(/^scratch .* host-2 .* 500 reads\/s, 50 MiB\/s written/m);
    await mesh.clients.registry.addHost({ hostId: "host-2" });
    await mesh.process("host-2").kill();
    await eventually(async () => {
      const { host } = await mesh.clients.registry.getHost({ hostId: "host-2" });
      expect(host?.state).to.equal("HOST_STATE_UNAVAILABLE");
    });
    await done("detach scratch");
    expect(await holder()).to.equal("");
    await done("attach scratch --host host-1");
    await done("detach scratch");
    await done("delete scratch");
  });
});
