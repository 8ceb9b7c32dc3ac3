import { rmSync } from "node:fs";
import { join } from "node:path";
import { AttachState } from "@diskmesh/api/registry";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";
import { TestRegistry } from "./testing/test-registry.js";

describe("the disk-registry process", () => {
  const fleet = SharedRegistry.forAllTests();

  it("keeps serving when a second process on its state ends with one clear line", async () => {
    await fleet.readyAgent("h1", ["d1"]);
    const second = await TestRegistry.start({ tablet: (fleet.registry.config as { tablet: object }).tablet }).then(
      () => "it started",
      (error: Error) => error.message,
    );
    expect(second).to.contain("did not start").and.to.contain(String(fleet.registry.process.pid));
    expect((await fleet.registry.device("d1")).attachState).to.equal(AttachState.ATTACHED);
  });

  it("stops answering and exits with code 1 when another process has claimed its state", async () => {
    await fleet.startOwn();
    const { tablet } = fleet.registry.config as { tablet: { storage: string } };
    // Without the lock file, only the claim of a tablet generation prevents two leaders.
    rmSync(join(tablet.storage, "registry", "owner.lock"));
    const second = await TestRegistry.start({ tablet });
    try {
      await eventually(() => expect(fleet.registry.process.exit?.code).to.equal(1));
      expect(fleet.registry.process.logs).to.contain("disk-registry has failed");
      await second.operator.listHosts({});
    } finally {
      await second.stop();
    }
  });

  it("exits with code 0 on SIGTERM, and has all its state after the next start", async () => {
    await fleet.readyAgent("h1", ["d1"]);
    expect((await fleet.registry.process.stop()).code).to.equal(0);
    await fleet.registry.process.start();
    expect((await fleet.registry.device("d1")).attachState).to.equal(AttachState.ATTACHED);
  });
});
