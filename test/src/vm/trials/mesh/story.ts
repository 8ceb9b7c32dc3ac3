import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { enterMachine, runInMachine } from "./machine.js";

const TIMEOUT_MS = 50 * 60_000;

describe("a mesh whose agents have the engine kernel", () => {
  it("tells the story of npm start with block devices", async function () {
    this.timeout(TIMEOUT_MS);
    const [code, output] = await runInMachine(
      "deploy/local/dist/main.js",
      "--once",
      "--fresh",
      "--csi",
      "--state",
      "/tmp/story",
    );
    expect(code, output).to.equal(0);
    expect(output).to.contain("disks are block devices");
    // Its drives take half of the memory that files have there.
    rmSync(join(await enterMachine(), "tmp/story"), { recursive: true });
  });
});
