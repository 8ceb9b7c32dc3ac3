import { DiskAgentServiceDefinition } from "@diskmesh/api/agent";
import { NotImplementedError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import { expect } from "chai";
import { fakeHandlers } from "./fake-handlers.js";

const call = {} as CallContext;

describe("fakeHandlers", () => {
  const fake = fakeHandlers(DiskAgentServiceDefinition, {
    listDevices: async () => ({ bootId: "b", devices: [{ deviceId: "d" }] }),
    async *blockIo() {
      yield { operationId: 7 };
    },
  });

  it("complete an answer, also within what it holds", async () => {
    const { bootId, tabletId, devices } = await fake.listDevices({}, call);
    expect([bootId, tabletId, devices[0]?.deviceId, devices[0]?.path]).to.deep.equal(["b", "", "d", ""]);
  });

  it("complete each answer of a stream", async () => {
    const answers = [];
    for await (const { operationId, errno } of fake.blockIo((async function* () {})(), call))
      answers.push([operationId, errno]);
    expect(answers).to.deep.equal([[7, ""]]);
  });

  it("refuse what the fake does not have", () => {
    expect(() => fake.eraseDevice({} as never, call)).to.throw(NotImplementedError, "no EraseDevice");
  });
});
