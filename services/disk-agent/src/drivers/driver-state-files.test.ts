import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { rejection } from "@diskmesh/domain/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { driverStateFiles } from "./driver-state-files.js";

describe("the files of drivers' states", () => {
  it("are made with the first state, for the agent's user alone", async () => {
    const folder = join(temporaryFolder(), "driver-states");
    const states = driverStateFiles(folder);
    expect(await states.read("flash")).to.equal(undefined);
    await states.write("flash", { values: { block: 3 } });
    expect(await driverStateFiles(folder).read("flash")).to.deep.equal({ values: { block: 3 } });
    expect([statSync(folder).mode & 0o777, statSync(join(folder, "flash.json")).mode & 0o777]).to.deep.equal([
      0o700, 0o600,
    ]);
  });

  it("are named when they cannot be read", async () => {
    const folder = temporaryFolder();
    const file = join(folder, "flash.json");
    for (const text of ["{", "[1]"]) {
      writeFileSync(file, text);
      await rejection(driverStateFiles(folder).read("flash"), Error, `the state of the driver cannot be read: ${file}`);
    }
  });
});
