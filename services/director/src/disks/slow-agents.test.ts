import { TaskState } from "@diskmesh/api/director";
import { expect } from "chai";
import { AgentProcess } from "../testing/agent-process.js";
import { TestDirector } from "../testing/test-director.js";
import { isStillSilent } from "./owed-removal.js";

/** Longer than the tests may take. */
const NEVER_MS = 3_600_000;

describe("agents that are asked to forget a detached disk", () => {
  let director: TestDirector;
  let instanceId: string;

  async function start(detachGraceMs: number): Promise<void> {
    const agents = { detachTimeoutMs: NEVER_MS, detachGraceMs };
    director = await TestDirector.start({ tuning: { agents } }, { hostIds: ["host-1"] });
    [instanceId] = (await director.deploy("web", 1)) as [string];
  }
  afterEach(() => director?.stop());

  const provided = async (name: string) => expect((await director.provide(name, instanceId)).state).to.equal(DONE);
  const DONE = TaskState.DONE;
  const owed = async () => (await director.disks.listOwedRemovals({})).owedRemovals.map(({ diskName }) => diskName);

  it("an agent that answers -> has removed the link before the CPI detaches the disk", async () => {
    await start(NEVER_MS);
    await provided("disk");
    const { taskId, state } = await director.detach("disk");
    expect(state).to.equal(DONE);
    expect(await director.watch(taskId)).to.deep.equal([
      "Telling agent: started",
      "Telling agent: finished",
      "Detaching disk: started",
      "Detaching disk: finished",
      "ended TASK_STATE_DONE",
    ]);
    expect(await owed()).to.deep.equal([]);
  });

  it("an agent that does not answer -> the CPI detaches meanwhile, and each disk's notification is pending", async () => {
    await start(100);
    await director.agent("host-1").stop();
    const stopped = await AgentProcess.start("host-1", director.nats.address, director.certs, { addDelayMs: 0 });
    try {
      for (const name of ["one", "two"]) await provided(name);
      stopped.signal("SIGSTOP");
      const ends = await Promise.all(["one", "two"].map((name) => director.detach(name)));
      expect(ends.map(({ state }) => state)).to.deep.equal([DONE, DONE]);
      expect(await owed()).to.have.members(["one", "two"]);
      expect(await director.watch(ends[0]?.taskId ?? 0)).to.deep.equal([
        "Telling agent: started",
        "Detaching disk: started",
        "Detaching disk: finished",
        "Telling agent: failed",
        "ended TASK_STATE_DONE",
      ]);
    } finally {
      await stopped.kill();
    }
  });

  const ASKED = { agentId: "a", attachmentId: "", diskName: "", diskCid: "", instanceId: "", vmCid: "" };
  const ROWS: [string, readonly number[], number, boolean][] = [
    ["never asked in vain", [], 60_000, false],
    ["asked in vain, silent since before", [9_000], 2_000, true],
    ["asked in vain, heard since", [9_000], 500, false],
    ["asked twice, silent since before the second time", [1_000, 9_000], 2_000, true],
  ];
  for (const [what, sinceMs, silentMs, expected] of ROWS)
    it(`an agent that was ${what} -> the next detach ${expected ? "does not wait" : "waits"} for it`, () => {
      const pending = sinceMs.map((ms) => ({ ...ASKED, sinceMs: ms }));
      expect(isStillSilent(pending, silentMs, 10_000)).to.equal(expected);
    });
});
