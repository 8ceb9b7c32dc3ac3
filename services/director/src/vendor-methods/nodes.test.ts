import type { Host } from "@diskmesh/api/registry";
import { InvalidArgumentError, TimeoutError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { systemClock } from "@diskmesh/service";
import { expect } from "chai";
import { Nodes, type NodesOptions } from "./nodes.js";
import { chosenMethod, startingOf } from "./vendor-method.js";

describe("agents of nodes", () => {
  for (const [title, failure] of [
    ["hangs", new TimeoutError("no answer within 10000 ms")],
    ["goes away", new UnavailableError("the connection broke", { outcome: "unknown" })],
  ] as const)
    it(`an agent that ${title} while its methods are listed -> no method was begun, and callers may retry`, async () => {
      const listMethods = () => Promise.reject(failure);
      const nodes = new Nodes({
        registries: [{ getHost: async () => ({ host: { address: "127.0.0.1:1" } as Host }) }],
        connect: () => ({ listMethods, close: () => undefined }) as unknown as ReturnType<NodesOptions["connect"]>,
        limits: { requestTimeoutMs: 1, knownForMs: 1, maxConnections: 1 },
        clock: systemClock,
      });
      const found = nodes.find("host-1", new AbortController().signal);
      const { outcome } = await rejection(found, UnavailableError, "the method was not started");
      expect(outcome).to.equal("not_done");
    });

  it("a starting driver that may offer the missing method -> callers may retry", () => {
    const starting = startingOf([
      { package: "/opt/shelf", state: "starting" },
      { package: "/opt/light", state: "running" },
    ]);
    const call = (packages: readonly string[]) => () =>
      chosenMethod({ methods: [], catchAlls: [], driverCount: 2, starting: packages }, "turn", "POST");
    expect(call(starting)).to.throw(
      UnavailableError,
      "No handler for method turn yet: driver /opt/shelf is still starting; try again later",
    );
    expect(call([])).to.throw(InvalidArgumentError, "No handler for method turn");
  });
});
