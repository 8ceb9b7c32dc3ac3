import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { Driver, driverMethod, MethodError, nodeMethod } from "./index.js";
import { loadedDriver } from "./published.js";

const GET = { httpMethods: ["GET"], async: false, description: "" };

class Attaching extends Driver {
  static override readonly driverName = "attaching";

  nothing = driverMethod({ ...GET, attach: true }, () => undefined);
  object = driverMethod({ ...GET, attach: true }, () => ({ a: 1 }));
  task = driverMethod({ ...GET, async: true }, () => Buffer.from("abc"));
}

describe("the result of a driver's method", () => {
  const result = async (method: string, validateOnly = false): Promise<unknown> => {
    const signal = new AbortController().signal;
    const { call } = await loadedDriver(Attaching, {}, async (settings) => ({ settings }) as never);
    return call(
      { kind: "driver", method, args: {}, validateOnly },
      { httpMethod: "GET", nodeId: "", signal, progress: () => undefined },
    );
  };

  it("is no bytes for a method with attach that returns nothing", async () => {
    expect(await result("nothing")).to.deep.equal(Buffer.alloc(0));
    expect(await result("nothing", true)).to.equal(null);
  });

  it("is refused for a method with attach that returns JSON", async () => {
    await rejection(result("object"), MethodError, "method object, which has attach or contentType, answered neither");
  });

  it("is refused for an asynchronous method that returns bytes", async () => {
    await rejection(result("task"), MethodError, "asynchronous method task answered bytes");
  });

  it("cannot be attached by an asynchronous method, which is refused when its driver is loaded", async () => {
    class Both extends Driver {
      static override readonly driverName = "both";
      update = nodeMethod({ ...GET, async: true, attach: true }, () => "abc");
    }
    await rejection(
      loadedDriver(Both, {}, async (settings) => ({ settings }) as never),
      TypeError,
      "nodeMethods.0: a method with attach or contentType must be synchronous, because a task keeps no bytes",
    );
  });
});
