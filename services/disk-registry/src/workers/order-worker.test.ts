import { OrderOutcome } from "@diskmesh/api/internal";
import { silentLogger } from "@diskmesh/domain";
import { systemClock } from "@diskmesh/service";
import { expect } from "chai";
import { configSchema } from "../config/config.js";
import { REGISTRY_LIMITS as limits } from "../config/limits.js";
import { stampOf } from "../model/devices/orders.js";
import { aDevice, aHost, hostId, leader, TestFleet } from "../testing/fleet-fixture.js";
import { OrderWorker } from "./order-worker.js";
import type { WorkContext } from "./work-context.js";

const config = configSchema.parse({
  listen: { host: "127.0.0.1", port: 0 },
  tls: { caFile: "/ca", certFile: "/cert", keyFile: "/key" },
  tablet: { storage: "unused" },
});

/** Returns the device after an agent has confirmed an order while `meanwhile` changed the fleet. */
async function afterOrder(attachState: "ATTACHING" | "CLOSING", meanwhile: (fleet: TestFleet) => void) {
  const fleet = new TestFleet({ devices: [aDevice("d1", { attachState, generation: 5 })] });
  const order = async () => {
    const stamp = stampOf(fleet.device("d1"), leader);
    meanwhile(fleet);
    return { outcomes: [{ deviceId: "d1", outcome: OrderOutcome.DONE, message: "", stamp }] };
  };
  const edges = { clock: systemClock, random: () => 0.5, log: silentLogger, fleet: { leader: () => leader } };
  const { tablet } = fleet;
  const worker = new OrderWorker(
    { config, limits, tablet, agents: { order }, ...edges } as unknown as WorkContext,
    () => {},
  );
  await worker.process(hostId("h1"), new AbortController().signal);
  return fleet.device("d1");
}

describe("the answer to an order", () => {
  const startAnew = (fleet: TestFleet) => fleet.transact((tx) => tx.hosts.put(aHost("h1", { bootId: "h1-boot-2" })));

  it("is applied when it is of the current start of the agent", async () => {
    expect((await afterOrder("ATTACHING", () => {})).attachState).to.equal("ATTACHED");
    expect((await afterOrder("CLOSING", () => {})).attachState).to.equal("DETACHED");
  });

  it("is ignored when it is of a start whose successor has registered meanwhile", async () => {
    expect((await afterOrder("ATTACHING", startAnew)).attachState).to.equal("ATTACHING");
    expect((await afterOrder("CLOSING", startAnew)).attachState).to.equal("CLOSING");
  });
});
