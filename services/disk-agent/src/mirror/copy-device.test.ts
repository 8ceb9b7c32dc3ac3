import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { OutdatedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import type { TestAgent } from "../testing/agent-process.js";
import { DONE } from "../testing/agent-scene.js";
import { keyOf } from "../testing/test-registry.js";
import { SIZE_BYTES, TwoAgents } from "../testing/two-agents.js";

describe("CopyDevice between agents", () => {
  const agents = TwoAgents.forAllTests();

  const fileOf = (agent: TestAgent, name: string) => join(agents.folder, agent.hostId, name);
  const bytesOf = (agent: TestAgent, name: string) => readFileSync(fileOf(agent, name));

  /** Opens a session on a device of an agent and one of the first agent, as the registry does before a copy. */
  async function opened(on: TestAgent, name: string, targetName: string) {
    agents.session += 1;
    const number = agents.session;
    const orders = on === agents.one ? agents.ordersOne : agents.ordersTwo;
    const [outcome] = await orders.sessionOutcomes([`${on.hostId}-${name}`], number, "disk-1", "host-1");
    expect(outcome?.outcome).to.equal(DONE);
    expect(await agents.ordersOne.openSession([`host-1-${targetName}`], number, "disk-1", "host-1")).to.deep.equal([
      DONE,
    ]);
    const reach = { blockAddress: outcome?.blockAddress ?? "", sessionKey: keyOf(number) };
    const source = agents.extentOn(on, name, on === agents.one ? {} : reach);
    return { number, source };
  }

  const copy = (sessionNumber: number, source: object, deviceId: string, change: object = {}) =>
    agents.ordersOne.client.copyDevice({
      bootId: agents.ordersOne.bootId,
      stamp: agents.registry.stamp(),
      diskId: "disk-1",
      sessionNumber,
      source,
      deviceId,
      sizeBytes: SIZE_BYTES,
      ...change,
    });
  const copied = (...args: Parameters<typeof copy>) =>
    eventually(async () => {
      const { outcome, copiedBytes } = await copy(...args);
      expect([outcome?.outcome, outcome?.message, copiedBytes]).to.deep.equal([DONE, "", SIZE_BYTES]);
    });

  it("copies a device of the same host", async () => {
    const data = randomBytes(SIZE_BYTES);
    writeFileSync(fileOf(agents.one, "a"), data);
    const { number, source } = await opened(agents.one, "a", "b");
    await copied(number, source, "host-1-b");
    expect(bytesOf(agents.one, "b").equals(data)).to.equal(true);
  });

  it("copies a device of another host, and ends with its session on either", async () => {
    const data = Buffer.concat([randomBytes(SIZE_BYTES / 2), Buffer.alloc(SIZE_BYTES / 2)]);
    writeFileSync(fileOf(agents.two, "a"), data);
    writeFileSync(fileOf(agents.one, "b"), randomBytes(SIZE_BYTES));
    const { number, source } = await opened(agents.two, "a", "b");
    await copied(number, source, "host-1-b");
    expect(bytesOf(agents.one, "b").equals(data)).to.equal(true);

    const former = await opened(agents.two, "a", "b");
    await agents.ordersTwo.openSession(["host-2-a"], agents.session + 1, "disk-1", "");
    await eventually(async () => {
      const { outcome } = await copy(former.number, former.source, "host-1-b");
      expect(outcome?.outcome).to.equal("ORDER_OUTCOME_OUTDATED");
    });
    agents.session += 1;
    const { outcome } = await copy(number, source, "host-1-b");
    expect(outcome?.outcome).to.equal("ORDER_OUTCOME_OUTDATED");
  });

  it("refuses an order for an earlier start of the agent", async () => {
    const { number, source } = await opened(agents.one, "a", "b");
    await rejection(copy(number, source, "host-1-b", { bootId: "earlier" }), OutdatedError);
  });
});
