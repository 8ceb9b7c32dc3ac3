import { leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { openStore } from "../mesh/stores.js";
import { runTakeovers } from "./run.js";

describe("directors and dispatchers, killed while disks are provided and detached and VMs are made", function () {
  this.timeout(900_000);

  it("end with every request done, nothing lost, and nothing done twice", async function () {
    leaveToVerify(this);
    const store = await openStore("mongodb");
    if (typeof store === "string") return skipBecause(this, store);
    const seed = Math.floor(Math.random() * 1_000_000) + 1;
    try {
      const work = { targets: 2, provides: 6, detaches: 3, instances: 2 };
      const killing = { kills: 1, pauses: 1, dispatcherKills: 1, seed, report: () => {} };
      const result = await runTakeovers(store, { ...work, ...killing });
      expect(result.violations.join("\n"), `seed ${seed}`).to.equal("");
      expect(result.kills).to.deep.equal({ directors: 1, pauses: 1, dispatchers: 1 });
      expect(result.unansweredMs).to.have.lengthOf(2);
    } finally {
      await store.remove();
    }
  });
});
