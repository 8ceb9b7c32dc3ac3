import { execFileSync } from "node:child_process";
import { leaveToVerify, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { findPlace, Kernel, TRIALS } from "./kernel.js";

/** Above the time limits of a start and of a test. */
const TIMEOUT_MS = 1_800_000;
/** Suites of whole meshes, whose processes share one slow processor. */
const MESHES = ["mesh", "sanity"];
/** Suites of two machines: the tests run in the first one, and call the second one. */
const PAIRS = ["machines"];
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
    const areTwo = PAIRS.includes(suite);
    let kernel: Kernel | undefined;
    let other: Kernel | undefined;

    before(async function () {
      leaveToVerify(this);
      const place = findPlace({ seesMachine, areTwo });
      if (typeof place === "object" && "missing" in place) skipBecause(this, place.missing);
      const options = { seesMachine, timeoutMs: this.timeout() - 30_000 };
      if (!areTwo) {
        kernel = await Kernel.start(place, options);
        return;
      }
      const folder = temporaryFolder();
      const start = (number: 1 | 2) => Kernel.start(place, { ...options, cable: { folder, number } });
      other = await start(2);
      kernel = await start(1);
    });
    after(async () => {
      await kernel?.[Symbol.asyncDispose]();
      await other?.[Symbol.asyncDispose]();
    });

    for (let round = 1; round <= rounds; round++)
      for (const title of titles[suite] ?? [])
        it(rounds === 1 ? title : `${title} (round ${round})`, () => kernel?.run(suite, title, other));
  });
