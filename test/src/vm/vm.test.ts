import { execFileSync } from "node:child_process";
import { leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { findPlace, Kernel, TRIALS } from "./kernel.js";

/** Above the time limits of a start and of a test. */
const TIMEOUT_MS = 1_800_000;
/** Suites of whole meshes, whose processes share one slow processor. */
const MESHES = ["mesh", "sanity"];
const MESH_TIMEOUT_MS = 3_600_000;

const titles: Record<string, string[]> = JSON.parse(
  execFileSync(process.execPath, [TRIALS, "titles"], { encoding: "utf8" }),
);
const { DISKMESH_TRIALS: named = "smoke", ROUNDS } = process.env;
const chosen = Object.keys(titles).filter((suite) => named === "all" || named.split(" ").includes(suite));
/** Runs of each test. */
const rounds = Number(ROUNDS ?? 1);

for (const suite of chosen)
  describe(`in a kernel with device-mapper, ${suite}`, function () {
    const seesMachine = MESHES.includes(suite);
    this.timeout(seesMachine ? MESH_TIMEOUT_MS : TIMEOUT_MS);
    let kernel: Kernel | undefined;

    before(async function () {
      leaveToVerify(this);
      const place = findPlace(seesMachine);
      if (typeof place === "object" && "missing" in place) skipBecause(this, place.missing);
      kernel = await Kernel.start(place, { seesMachine, timeoutMs: this.timeout() - 30_000 });
    });
    after(() => kernel?.[Symbol.asyncDispose]());

    for (let round = 1; round <= rounds; round++)
      for (const title of titles[suite] ?? [])
        it(rounds === 1 ? title : `${title} (round ${round})`, () => kernel?.run(suite, title));
  });
