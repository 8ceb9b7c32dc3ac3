import { expect } from "chai";
import { seal, unseal } from "./seal.js";

describe("a sealed text", () => {
  const text = '{"format":"x","device":"é"}\n';

  it("is returned unchanged, and is JSON with a checksum", () => {
    expect(unseal(seal(text))).to.equal(text);
    expect(JSON.parse(seal(text))).to.deep.include({ format: "x", device: "é" });
  });

  it("with any character changed, removed or doubled is refused", () => {
    const sealed = seal(text);
    for (let at = 0; at < sealed.length; at += 1) {
      const [before, after] = [sealed.slice(0, at), sealed.slice(at + 1)];
      const other = sealed[at] === "0" ? "1" : "0";
      for (const torn of [before + after, before + other + after, before + sealed[at] + sealed[at] + after]) {
        if (torn === sealed) continue;
        expect(() => unseal(torn), torn).to.throw(/checksum/);
      }
    }
  });

  it("is told from a text without a seal, which is refused", () => {
    expect(() => unseal(text)).to.throw(/no checksum/);
  });
});
