import { readFileSync } from "node:fs";
import { join } from "node:path";
import { prometheusNames } from "@diskmesh/metrics";
import { expect } from "chai";
import { METRICS, metricsPage } from "./metrics/page.js";
import { repositoryFolder } from "./repository-folder.js";

describe("the declared metrics", () => {
  const all = [...METRICS.values()].flat();

  it("are what docs/reference/metrics.md says: else run `npm run metrics`", () => {
    expect(readFileSync(join(repositoryFolder, "docs/reference/metrics.md"), "utf8")).to.equal(metricsPage());
  });

  it("have one name each, a sentence, and labels whose values are bounded", () => {
    const names = all.flatMap((declaration) => prometheusNames(declaration));
    expect(new Set(names).size).to.equal(names.length);
    for (const { name, description, labels = {}, kind, buckets } of all) {
      expect(name, name).to.match(/^[a-z][a-z0-9_.]*$/);
      expect(description, name).to.match(/\.$|:.*\d/);
      expect(buckets !== undefined, name).to.equal(kind === "histogram");
      for (const bound of Object.values(labels)) expect(bound, name).to.have.length.above(1);
    }
    for (const name of names) expect(name).to.match(/^[a-z][a-z0-9_]*$/);
  });
});
