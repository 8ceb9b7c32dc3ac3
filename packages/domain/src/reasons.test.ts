import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { REASONS } from "./reasons.js";

const ROOT = join(import.meta.dirname, "../../..");

describe("the table of reasons", () => {
  it("has no reason that nothing sends", () => {
    const sources = ["packages", "services"].flatMap((folder) => sourcesBelow(join(ROOT, folder)));
    const sent = new Set(sources.flatMap((text) => [...text.matchAll(/\breason\b.*?"([A-Z_]+)"/g)].map((m) => m[1])));
    expect(Object.keys(REASONS).filter((reason) => !sent.has(reason))).to.deep.equal([]);
  });
});

function sourcesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory())
      return /^(node_modules|dist|bundle|testing|generated)$/.test(entry.name) ? [] : sourcesBelow(path);
    return /\.ts$/.test(entry.name) && !/\.test\.ts$/.test(entry.name) ? [readFileSync(path, "utf8")] : [];
  });
}
