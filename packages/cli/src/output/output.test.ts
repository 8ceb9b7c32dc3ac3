import { Writable, type WritableOptions } from "node:stream";
import { expect } from "chai";
import { loadYaml, Output } from "./output.js";

describe("the command's output for scripts", () => {
  it("has bytes as base64, as the JSON of protobuf has them", async () => {
    const value = { details: [{ typeUrl: "t", value: Buffer.from("ab") }] };
    for (const format of ["json", "yaml"] as const) {
      const lines: string[] = [];
      const write: WritableOptions["write"] = (chunk, _encoding, done) => {
        lines.push(String(chunk));
        done();
      };
      const out = new Writable({ write });
      const toYaml = format === "yaml" ? { toYaml: await loadYaml() } : {};
      const output = new Output({ format, ...toYaml, out, err: out, environment: {} });
      output.answer(value, "");
      expect(lines.join(""), format).to.contain("YWI=").and.not.to.contain("97");
    }
  });
});
