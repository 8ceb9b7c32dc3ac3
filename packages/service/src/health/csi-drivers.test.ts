import { InvalidArgumentError, type Logger, silentLogger } from "@diskmesh/domain";
import { ManualClock } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { CsiDrivers } from "./csi-drivers.js";

const DRIVER = "node-1:/csi/csi.sock";

describe("csi-drivers that report themselves", () => {
  let clock: ManualClock;
  let lines: string[];
  let drivers: CsiDrivers;

  beforeEach(() => {
    clock = new ManualClock();
    lines = [];
    const warn = (fields: object, text: string) => lines.push(`${(fields as { alert: string }).alert}: ${text}`);
    const info = (fields: object) => lines.push(`${(fields as { alertEnded: string }).alertEnded} ended`);
    drivers = new CsiDrivers({ clock, log: { ...silentLogger, warn, info } as Logger });
  });
  afterEach(() => drivers.close());

  const note = (more: object = {}) =>
    drivers.note({ driver: DRIVER, startId: "a", stops: false, warnings: [], ...more });
  const silent = `csi_driver_silent: the csi-driver at ${DRIVER} sends no reports any more`;

  it("are an alert after three missing reports, until the next report", async () => {
    note();
    await clock.advance(14_999);
    expect(lines).to.deep.equal([]);
    await clock.advance(1);
    expect(lines).to.deep.equal([silent]);
    note();
    expect(lines).to.deep.equal([silent, "csi_driver_silent ended"]);
  });

  it("are forgotten when they stop, and a day after they were killed", async () => {
    note();
    note({ stops: true });
    await clock.advance(86_400_000);
    expect(lines).to.deep.equal([]);
    note();
    await clock.advance(86_405_000);
    expect(lines).to.deep.equal([silent, "csi_driver_silent ended"]);
  });

  it("are an alert that says what they warn of, until they warn no more", () => {
    note({ warnings: ["its memory\u001b is nearly used up"] });
    note({ warnings: ["its memory\u001b is nearly used up"] });
    note();
    expect(lines).to.deep.equal([
      `csi_driver_warns: the csi-driver at ${DRIVER} warns: its memory\\u001b is nearly used up`,
      "csi_driver_warns ended",
    ]);
  });

  it("are an alert when they were killed three times within 10 min, and no alert when they were stopped", async () => {
    for (const startId of ["a", "b", "c"]) note({ startId });
    for (const driver of ["other", "other"]) note({ driver, stops: true });
    expect(lines).to.deep.equal([]);
    note({ startId: "d" });
    expect(lines).to.have.length(1);
    expect(lines[0]).to.match(/^csi_driver_warns: .*was killed or crashed 3 times within 10 min: read the last line/);
    for (let minutes = 0; minutes < 10; minutes++) {
      await clock.advance(59_000);
      note({ startId: "d" });
    }
    await clock.advance(14_000);
    expect(lines.at(-1)).to.equal("csi_driver_warns ended");
  });

  it("are refused when a text is missing or long, and beyond a number of drivers", async () => {
    for (const wrong of [
      { driver: "" },
      { startId: "" },
      { driver: "x".repeat(1_001) },
      { warnings: Array(17).fill("w") },
    ])
      expect(() => note(wrong), JSON.stringify(wrong).slice(0, 40)).to.throw(InvalidArgumentError);
    for (let number = 0; number < 1_100; number++) note({ driver: `d${number}` });
    await clock.advance(15_000);
    expect(lines).to.have.length(1_000);
  });
});
