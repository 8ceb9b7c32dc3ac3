import { type DiskId, type HostId, silentLogger } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import type { EngineName } from "../engines/engine.js";
import { whyNoKernel } from "../kernel/device-mapper.js";
import type { ExportSpec } from "../model/memory.js";
import { chooseEngine, describeEngine, engineFor } from "./choose-engine.js";

const CONFIG = {
  hostId: "host-1" as HostId,
  baseFolder: "/",
  requireFileLocks: true,
  listen: { host: "127.0.0.1", port: 0 },
  remoteIoTimeoutMs: 1_000,
};
const chosen = async (engine: "auto" | "node" | "kernel") => {
  const { mapper } = await chooseEngine({ ...CONFIG, engine }, silentLogger);
  return mapper === undefined ? "node" : "kernel";
};

describe("the engine of a host", () => {
  it("is the one that the config names", async () => {
    expect(await chosen("node")).to.equal("node");
    expect(await describeEngine({ engine: "node" })).to.equal(
      "engine node carries the bytes of disks; not kernel: the config names node",
    );
  });

  it("is kernel without a name where the host can carry bytes there, else node, and says why", async () => {
    const reason = await whyNoKernel();
    expect(await chosen("auto")).to.equal(reason === undefined ? "kernel" : "node");
    const text = await describeEngine({ engine: "auto" });
    if (reason === undefined) expect(text).to.match(/^engine kernel carries the bytes of disks/);
    else expect(text).to.include(`engine node carries the bytes of disks; not kernel: ${reason}: it needs root`);
  });

  it("is node without a name where dmsetup is missing", async () => {
    const { PATH } = process.env;
    process.env.PATH = "/nowhere";
    try {
      expect(await chosen("auto")).to.equal("node");
    } finally {
      process.env.PATH = PATH;
    }
  });

  it("kernel needs a host that can carry bytes there, and says what the host lacks", async () => {
    const reason = await whyNoKernel();
    if (reason === undefined) expect(await chosen("kernel")).to.equal("kernel");
    else expect((await rejection(chosen("kernel"))).message).to.contain(reason);
  });

  it("that carries a disk is the first one that can, and it is told why those before cannot", async () => {
    const spec = { diskId: "x" as DiskId } as ExportSpec;
    const engine = (name: EngineName, always?: string, now?: string) => {
      return { name, whyNot: () => always, whyNotNow: async () => now };
    };
    const kernel = engine("kernel", undefined, "host h2 has no NVMe/TCP");
    const node = engine("node");
    expect(await engineFor([kernel, node], spec, silentLogger)).to.deep.equal({
      ...{ engine: node, reason: "not kernel: host h2 has no NVMe/TCP" },
    });
    expect(await engineFor([node, kernel], spec, silentLogger)).to.deep.equal({ engine: node, reason: "" });
    const none = await rejection(engineFor([engine("kernel", "it is small")], spec, silentLogger));
    expect(none.message).to.equal("no engine of this host can serve disk x: not kernel: it is small");
  });

  it("kernel needs dmsetup", async () => {
    const { PATH } = process.env;
    process.env.PATH = "/nowhere";
    try {
      expect(await describeEngine({ engine: "kernel" })).to.match(/^engine is "kernel", but .*(dmsetup|root)/);
    } finally {
      process.env.PATH = PATH;
    }
  });
});
