import { expect } from "chai";
import { runInMachine } from "./machine.js";

const TIMEOUT_MS = 50 * 60_000;

describe("csi-sanity on a mesh whose agents have the engine kernel", () => {
  for (const access of ["mount", "block"])
    it(`passes with ${access} volumes`, async function () {
      this.timeout(TIMEOUT_MS);
      const test = ["test/dist/csi/sanity.test.js", "--grep", `with ${access} volumes`];
      const [code, output] = await runInMachine("node_modules/mocha/bin/mocha.js", ...test);
      expect(code, output).to.equal(0);
      expect(output)
        .to.match(/1 passing/)
        .and.not.match(/pending/);
    });
});
