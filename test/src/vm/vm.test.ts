import { execFileSync } from "node:child_process";
import { leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { findPlace, Kernel, TRIALS } from "./kernel.js";

/** Above the time limits of a start and of a test. */
const TIMEOUT_MS = 300_000;

const titles: Record<string, string[]> = JSON.parse(
  execFileSync(process.execPath, [TRIALS, "titles"], { encoding: "utf8" }),
);
const chosen = process.env.DISKMESH_TRIALS === "all" ? Object.keys(titles) : ["smoke"];

for (const suite of chosen)
  describe(`in a kernel with device-mapper, ${suite}`, function () {
    this.timeout(TIMEOUT_MS);
    let kernel: Kernel | undefined;

    before(async function () {
      leaveToVerify(this);
      const place = findPlace();
      if (typeof place === "object" && "missing" in place) skipBecause(this, place.missing);
      kernel = await Kernel.start(place);
    });
    after(() => kernel?.[Symbol.asyncDispose]());

    for (const title of titles[suite] ?? []) it(title, () => kernel?.run(suite, title));
  });
