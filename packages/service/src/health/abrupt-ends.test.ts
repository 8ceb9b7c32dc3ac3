import { join } from "node:path";
import { type Logger, silentLogger } from "@diskmesh/domain";
import { ManualClock } from "@diskmesh/domain/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { AbruptEnds } from "./abrupt-ends.js";

describe("the abrupt ends of a process", () => {
  /** Starts processes one after another in one folder. */
  function lives() {
    const file = join(temporaryFolder(), "runs.json");
    const clock = new ManualClock(Date.UTC(2026, 0));
    const alerts: string[] = [];
    const note = (fields: object) => {
      const { alert, alertEnded } = fields as { alert?: string; alertEnded?: string };
      alerts.push(alert ? `${alert} begins` : `${alertEnded} ends`);
    };
    const log: Logger = { ...silentLogger, info: note, error: note };
    return { clock, alerts, start: () => AbruptEnds.open({ file, clock, log }) };
  }

  it("are an alert from the third one within ten minutes, until the first of three is that old", async () => {
    const { clock, alerts, start } = lives();
    for (let kills = 0; kills < 3; kills++) {
      await start();
      await clock.advance(60_000);
      expect(alerts).to.deep.equal([]);
    }
    await start();
    expect(alerts).to.deep.equal(["abrupt_ends begins"]);
    await clock.advance(600_000 - 120_000 - 1);
    expect(alerts).to.have.length(1);
    await clock.advance(1);
    expect(alerts).to.deep.equal(["abrupt_ends begins", "abrupt_ends ends"]);
  });

  it("are neither stops nor kills that are long ago", async () => {
    const { clock, alerts, start } = lives();
    for (let stops = 0; stops < 5; stops++) await (await start()).close();
    for (let kills = 0; kills < 5; kills++) {
      await start();
      await clock.advance(300_001);
    }
    expect(alerts).to.deep.equal([]);
  });
});
