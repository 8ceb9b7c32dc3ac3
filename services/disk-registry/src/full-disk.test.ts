import { UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, SmallDisk, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";

describe("a disk-registry whose disk is full", () => {
  const fleet = SharedRegistry.forAllTests();
  let disk: SmallDisk | undefined;

  before(function () {
    disk = SmallDisk.mount(8 * 1024 * 1024);
    if (disk === undefined) skipBecause(this, "no file system can be mounted here");
  });

  after(() => disk?.[Symbol.dispose]());

  it("reports it, keeps running, can be read, keeps everything acknowledged, and serves again once there is space", async () => {
    const { folder } = disk as SmallDisk;
    await fleet.startOwn({ tablet: { storage: folder } });
    await fleet.readyAgent("h1", ["d1"]);
    await fleet.createDisk("x");
    const { operator, process } = fleet.registry;
    let acknowledged = 0;
    const label = async () => {
      const large = Array.from({ length: 60 }, (_, k) => ({ name: `large-${k}`, value: "x".repeat(1_000) }));
      const count = { name: "count", value: String(acknowledged + 1) };
      await operator.setDiskLabels({ diskId: "x", labels: [count, ...large] });
      acknowledged++;
    };
    await label();

    (disk as SmallDisk).fill();
    await rejection(
      forever(label),
      UnavailableError,
      `the disk that holds ${folder}/registry is full: free space there`,
    );
    await eventually(() => expect(process.logs).to.contain("leader election failed"));
    expect(process.exit).to.equal(undefined);
    expect((await eventually(() => fleet.registry.disk("x"))).labels).to.have.length(61);

    (disk as SmallDisk).makeRoom();
    const { labels } = await eventually(() => fleet.registry.disk("x"));
    // The failed call may have been executed, so the count may be one higher.
    expect(Number(labels.find(({ name }) => name === "count")?.value)).to.be.within(acknowledged, acknowledged + 1);
    await eventually(label);
    expect(process.exit).to.equal(undefined);
    expect(process.logs).not.to.contain("backup");
  });
});

async function forever(action: () => Promise<void>): Promise<never> {
  for (;;) await action();
}
