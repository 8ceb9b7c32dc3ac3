import { InvalidStateError } from "@diskmesh/domain";
import { isQuickRun, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { ABLATIONS, WITHOUT_SUMS } from "./ablations.js";
import { Violation } from "./log-history.js";
import { runWorld } from "./run-world.js";
import { CLIMATES, type Climate } from "./world.js";

const WORLDS_PER_CLIMATE = isQuickRun ? 25 : 100;
/** Number of worlds per removed rule. Without a rule at least one world in two hundred violates an invariant. */
const WORLDS_PER_ABLATION = 2_000;

describe("the tablet on a server that loses answers and delays and doubles writes", () => {
  for (const climate of Object.keys(CLIMATES) as Climate[]) {
    it(`loses no write and shows no outdated state in ${WORLDS_PER_CLIMATE} ${climate} worlds`, async () => {
      const total: Record<string, number> = {};
      for (let seed = 1; seed <= WORLDS_PER_CLIMATE; seed++) {
        const counts = await runWorld(seed, { climate }).catch((error) => {
          throw new Error(`seed ${seed}, climate ${climate}: ${error.message}`, { cause: error });
        });
        for (const [name, count] of Object.entries(counts)) total[name] = (total[name] ?? 0) + count;
      }
      // Verifies that each of these events occurred in some world.
      for (const name of [
        "leaders",
        "claimsAbove",
        "commits",
        "reads",
        "lostAnswers",
        "lateWrites",
        "crashes",
        "lost",
        "cleanStops",
        ...(["restored", "dropped"].includes(climate) ? ["restores"] : []),
        ...(climate === "dropped" ? ["drops"] : []),
        "warmLoads",
        "coldLoads",
        ...(climate === "tampered" ? ["tampered", "refusedLoads", "editsFound"] : []),
        ...(climate === "throttled" ? ["refusedWrites"] : []),
      ]) {
        expect(total[name], name).to.be.greaterThan(WORLDS_PER_CLIMATE / 5);
      }
    });
  }

  it("accepts an incomplete state without its sums", async () => {
    for (let seed = 1; seed <= WORLDS_PER_ABLATION; seed++) {
      const error = await runWorld(seed, { ablation: WITHOUT_SUMS, climate: "tampered" }).catch((thrown) => thrown);
      if (!(error instanceof Error)) continue;
      expect(error).to.be.instanceOf(Violation);
      return;
    }
    expect.fail(`${WORLDS_PER_ABLATION} worlds went well without them`);
  });

  describe("goes wrong without any one of its rules:", () => {
    before(function () {
      leaveToVerify(this);
    });

    for (const [rule, ablation] of Object.entries(ABLATIONS)) {
      it(rule, async () => {
        for (let seed = 1; seed <= WORLDS_PER_ABLATION; seed++) {
          try {
            await runWorld(seed, { ablation, climate: ablation.climate });
          } catch (error) {
            // A process that finds its log damaged counts as a detected violation, too.
            if (!(error instanceof InvalidStateError)) expect(error).to.be.instanceOf(Violation);
            return;
          }
        }
        expect.fail(`${WORLDS_PER_ABLATION} worlds went well without it`);
      });
    }
  });
});
