import { CpiConfigUnknownError } from "@diskmesh/cpi";
import { ResourceExhaustedError } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { CpiConfigs } from "./cpi-configs.js";
import { CpiSet, OfferedCpi } from "./cpi-set.js";

const own = new OfferedCpi("own", "a", { why: "for tests" });
const set = new CpiSet([own], own, true);

describe("the cpi-configs of directors", () => {
  const tell = (configs: CpiConfigs, directorId: string, version: string, sizeBytes = 100) =>
    configs.set(directorId, { version, fingerprint: version, azs: new Map(), sizeBytes }, () => set);

  it("the last version is kept, and the previous version for some time", async () => {
    const configs = new CpiConfigs(set, { maxCpiConfigBytes: 1_000, formerCpiConfigMs: 50 });
    tell(configs, "d", "1");
    tell(configs, "d", "2");
    expect(configs.find("d", "1").set).to.equal(set);
    await eventually(() => expect(() => configs.find("d", "1")).to.throw(CpiConfigUnknownError));
    expect(configs.find("d", "2").set).to.equal(set);
  });

  it("a version that is sent again counts as the last version", async () => {
    const configs = new CpiConfigs(set, { maxCpiConfigBytes: 1_000, formerCpiConfigMs: 50 });
    for (const version of ["1", "2", "1"]) tell(configs, "d", version);
    await eventually(() => expect(() => configs.find("d", "2")).to.throw(CpiConfigUnknownError));
    expect(configs.find("d", "1").set).to.equal(set);
  });

  it("total bytes are limited: a further config is refused, and the present ones stay", () => {
    const configs = new CpiConfigs(set, { maxCpiConfigBytes: 1_000, formerCpiConfigMs: 60_000 });
    tell(configs, "d1", "1", 400);
    tell(configs, "d2", "1", 400);
    expect(() => tell(configs, "d2", "2", 400)).to.throw(ResourceExhaustedError, "the limit is 1000");
    expect(configs.find("d2", "1").set).to.equal(set);
    configs.forget("d1");
    tell(configs, "d2", "2", 400);
    // A new version removes the version before the previous, so its bytes do not count.
    tell(configs, "d2", "3", 600);
  });
});
