import { expect } from "chai";
import { createLogger } from "../telemetry/log.js";
import { Lifecycle } from "./lifecycle.js";

describe("Lifecycle", () => {
  const lines: string[] = [];
  const log = createLogger({ service: "test", level: "info", destination: { write: (line) => lines.push(line) } });

  it("stops in reverse order, by each kind of method, and continues after a failure", async () => {
    const stopped: string[] = [];
    const lifecycle = new Lifecycle(log);
    lifecycle.use("function", () => stopped.push("function"));
    lifecycle.use("close", { close: async () => stopped.push("close") });
    lifecycle.use("broken", { stop: () => Promise.reject(new Error("stuck valve")) });
    lifecycle.use("dispose", {
      close: () => stopped.push("not this one"),
      async [Symbol.asyncDispose]() {
        stopped.push("dispose");
      },
    });
    await lifecycle.stopAll();
    await lifecycle.stopAll();
    expect(stopped).to.deep.equal(["dispose", "close", "function"]);
    expect(lines.join()).to.contain("resource stop failed").and.contain("stuck valve");
  });

  it("aborts `stopping` when it fails, and keeps the first failure", () => {
    const lifecycle = new Lifecycle(log);
    expect(lifecycle.stopping.aborted).to.equal(false);
    lifecycle.fail("first");
    lifecycle.fail("second");
    expect(lifecycle.stopping.aborted).to.equal(true);
    expect(lifecycle.failure).to.deep.equal({ error: "first" });
  });
});
