import { expect } from "chai";
import { healthOf, mayHaveRestarted, NO_RHYTHM, nextRhythm, type Rhythm } from "./agent-health.js";

const NOW_MS = 1_800_000_000_000;
const beat = {
  deployment: "d",
  job: "db",
  index: 0,
  job_state: "running",
  vitals: { uptime: { secs: 100 }, load: ["1"] },
};

describe("heartbeats of agents", () => {
  it("a heartbeat with an uptime -> stored with the boot time of the VM", () => {
    expect(healthOf("a", beat, NOW_MS)).to.deep.equal({
      agentId: "a",
      heardAtMs: NOW_MS,
      bootedAtMs: NOW_MS - 100_000,
      jobState: "running",
      deployment: "d",
      vitals: beat.vitals,
    });
  });

  const strange: [what: string, heartbeat: object, part: object][] = [
    ["nothing", {}, { jobState: "", deployment: "", vitals: {}, bootedAtMs: 0 }],
    ["other types", { job_state: 5, deployment: {}, vitals: [] }, { jobState: "", deployment: "", vitals: {} }],
    ["an uptime that is none", { vitals: { uptime: { secs: "long" } } }, { bootedAtMs: 0 }],
    ["a long name", { job_state: "x".repeat(1_000) }, { jobState: "x".repeat(255) }],
    ["vitals without end", { vitals: { load: ["x".repeat(10_000)] } }, { vitals: {} }],
  ];
  for (const [what, heartbeat, part] of strange)
    it(`a heartbeat of ${what} -> the readable part is stored`, () =>
      expect(healthOf("a", { ...heartbeat }, NOW_MS)).to.deep.include(part));
});

describe("detection of agent restarts between two heartbeats", () => {
  const steady: Rhythm = { gapMs: 30_000, intervalMs: 30_000 };
  const at = (nowMs: number, secs: number) => healthOf("a", { vitals: { uptime: { secs } } }, nowMs);
  const cases: [what: string, rhythm: Rhythm, gapMs: number | undefined, uptimes: [number, number], so: boolean][] = [
    ["on time", steady, 30_000, [1_000, 1_030], false],
    ["a little late", steady, 35_000, [1_000, 1_035], false],
    ["late", steady, 37_000, [1_000, 1_037], true],
    ["early, as the first heartbeat after a restart", steady, 2_000, [1_000, 1_002], true],
    ["on time, of a VM that was started since", steady, 30_000, [1_000, 5], true],
    ["on time, of an agent that tells no uptime", steady, 30_000, [Number.NaN, Number.NaN], false],
    ["a second heartbeat, without a known interval", NO_RHYTHM, 2_000, [1_000, 1_002], false],
    ["the first heartbeat that this director receives", NO_RHYTHM, undefined, [1_000, 1_600], false],
    ["the first heartbeat received, of a VM with a later boot time", NO_RHYTHM, undefined, [10_000, 10], true],
    ["of an agent that beats often, a second late", { gapMs: 500, intervalMs: 500 }, 1_500, [1_000, 1_001], false],
  ];
  for (const [what, rhythm, gapMs, [first, second], so] of cases)
    it(`${what}: ${so}`, () => {
      const later = at(NOW_MS + (gapMs ?? 600_000), second);
      expect(mayHaveRestarted(at(NOW_MS, first), later, rhythm, gapMs)).to.equal(so);
    });

  it("two equal gaps set the heartbeat interval; a single different gap does not change it", () => {
    let rhythm = NO_RHYTHM;
    const rhythms = [30_000, 30_100, 45_000, 29_900, 30_000].map((gapMs) => {
      rhythm = nextRhythm(rhythm, gapMs);
      return rhythm;
    });
    expect(rhythms.map(({ intervalMs }) => intervalMs)).to.deep.equal([undefined, 30_100, 30_100, 30_100, 30_000]);
  });
});
